"""``sharemesh cluster drain`` against a cluster of real processes."""

import json
import time

import pytest

from sharemesh.cli.__main__ import main
from sharemesh.client import AdminClient
from tests.cli.local_up import local_up

pytestmark = [pytest.mark.integration, pytest.mark.slow]


PARTITIONS = "12"  # none of three leaders may have more than 5 of them, so each has at least 2


def nodes_of(up) -> dict[str, dict]:
    shown = json.loads(up.sharemesh("cluster", "--json").stdout)
    return {each["node"]: each for each in shown["nodes"]}


def test_drained_nodes_lead_nothing_and_every_partition_stays_served(tmp_path):
    with local_up(tmp_path / "data") as up:
        assert (
            up.sharemesh("topics", "create", "orders", "--partitions", PARTITIONS).returncode == 0
        )
        assert nodes_of(up)["share-leader-1"]["partitions"] > 0

        for node in ("share-leader-1", "share-coordinator-0", "group-coordinator-0"):
            drained = up.sharemesh("cluster", "drain", node, "--json")
            assert drained.returncode == 0, drained.stderr
            assert json.loads(drained.stdout) == {"node": node, "drained": True}

        shown = json.loads(up.sharemesh("cluster", "--json").stdout)
        nodes = {each["node"]: each for each in shown["nodes"]}
        assert nodes["share-leader-1"]["partitions"] == 0
        assert nodes["share-leader-1"]["state"] == "draining"
        assert sum(each["partitions"] for each in nodes.values()) == int(PARTITIONS)
        assert not shown["unassigned"]
        leaders = {each["leader"] for each in shown["shards"]}
        assert leaders == {"share-coordinator-1", "group-coordinator-1"}

        text = "".join(f'{{"id": {n}}}\n' for n in range(30))
        assert up.sharemesh("produce", "orders", "--key", "id", stdin=text).returncode == 0
        consume = ("consume", "orders", "--group", "g", "--from-beginning", "--json")
        got = up.sharemesh(*consume, "--max-records", "30", "--idle", "5000").stdout
        assert len(got.splitlines()) == 30

        unknown = up.sharemesh("cluster", "drain", "nobody")
        assert unknown.returncode == 2
        assert "no node 'nobody'" in unknown.stderr
        assert "share-leader-2" in unknown.stderr


def test_a_drained_node_takes_part_again_after_up_restart(tmp_path):
    data = tmp_path / "data"
    with local_up(data) as up:
        drained = up.sharemesh("cluster", "drain", "share-leader-1")
        assert "sharemesh up restart share-leader-1" in drained.stdout
        before = nodes_of(up)["share-leader-1"]
        done = up.sharemesh("up", "restart", "share-leader-1", "--data-directory", str(data))
        assert done.returncode == 0, done.stderr
        deadline = time.monotonic() + 30
        while (now := nodes_of(up).get("share-leader-1", before))["state"] != "running":
            assert time.monotonic() < deadline, now
        assert now["pid"] != before["pid"]
        assert now["address"] == before["address"]
        assert f"pid {now['pid']}, address {now['address']}" in done.stdout
        assert (
            up.sharemesh("topics", "create", "orders", "--partitions", PARTITIONS).returncode == 0
        )
        assert nodes_of(up)["share-leader-1"]["partitions"] > 0

        told = up.sharemesh("up", "--data-directory", str(data), "restart", "etcd", "--json")
        assert told.returncode == 0, told.stderr
        assert json.loads(told.stdout)["node"] == "etcd"
        unknown = up.sharemesh("up", "restart", "share-leader-9", "--data-directory", str(data))
        assert unknown.returncode == 2
        assert "did you mean 'share-leader-" in unknown.stderr
        assert "group-coordinator-0" in unknown.stderr
    over = up.sharemesh("up", "restart", "share-leader-1", "--data-directory", str(data))
    assert over.returncode == 1
    assert f"no 'sharemesh up' runs on {data}" in over.stderr


def test_an_interrupted_drain_says_that_it_goes_on(monkeypatch, capsys):
    def interrupted(admin, node):
        raise KeyboardInterrupt

    monkeypatch.setattr(AdminClient, "drain_node", interrupted)
    assert main(["cluster", "drain", "share-leader-1", "--bootstrap", "127.0.0.1:9"]) == 130
    assert "share-leader-1 continues to hand over" in capsys.readouterr().err
