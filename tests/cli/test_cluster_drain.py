"""``sharemesh cluster drain`` against a cluster of real processes."""

import json

import pytest

from tests.cli.local_up import local_up

pytestmark = [pytest.mark.integration, pytest.mark.slow]


def nodes_of(up) -> dict[str, dict]:
    shown = json.loads(up.sharemesh("cluster", "--json").stdout)
    return {each["node"]: each for each in shown["nodes"]}


def test_drained_nodes_lead_nothing_and_every_partition_stays_served(tmp_path):
    with local_up(tmp_path / "data") as up:
        assert up.sharemesh("topics", "create", "orders", "--partitions", "6").returncode == 0
        assert nodes_of(up)["share-leader-1"]["partitions"] > 0

        for node in ("share-leader-1", "share-coordinator-0", "group-coordinator-0"):
            drained = up.sharemesh("cluster", "drain", node, "--json")
            assert drained.returncode == 0, drained.stderr
            assert json.loads(drained.stdout) == {"node": node, "drained": True}

        shown = json.loads(up.sharemesh("cluster", "--json").stdout)
        nodes = {each["node"]: each for each in shown["nodes"]}
        assert nodes["share-leader-1"]["partitions"] == 0
        assert nodes["share-leader-1"]["state"] == "draining"
        assert sum(each["partitions"] for each in nodes.values()) == 6
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
