"""What ``sharemesh cluster`` shows: members, shards, moves, and why something has no leader."""

import json

import pytest

from sharemesh.cli import cluster, session
from sharemesh.cli.command_parser import CommandParser
from sharemesh.client.admin_results import (
    ClusterDescription,
    MemberNode,
    PartitionMove,
    PartitionPlace,
    ShardDescription,
    TopicPartition,
)

FOUND = ClusterDescription(
    cluster_id="main",
    controller_id="controller-0",
    nodes=(
        MemberNode("share-leader-0", "h:1", "share-leader", "east", "0.1.0", True, 3, 77),
        MemberNode("share-leader-1", "h:2", "share-leader", "west", "0.1.0", False, 0, 78),
    ),
    shards=(
        ShardDescription("group-0", "g-0", 4),
        ShardDescription("state-0", "", 7, "no share-coordinator process is registered; start one"),
    ),
    unassigned=((TopicPartition("orders", 2), "share-leader-1 is taking it over"),),
    moves=(PartitionMove(TopicPartition("orders", 1), "share-leader-0", "share-leader-1", 9),),
    partitions=(PartitionPlace(TopicPartition("orders", 1), "share-leader-0", 9, ("a", "b")),),
)


class Admin:
    """Answers with what was found, without a cluster."""

    def __init__(self, settings) -> None:
        pass

    def __enter__(self):
        return self

    def __exit__(self, *_) -> None:
        pass

    def describe_cluster(self, *, partitions: bool = False) -> ClusterDescription:
        return FOUND


@pytest.fixture
def run(monkeypatch, capsys):
    monkeypatch.setattr(session, "AdminClient", Admin)
    monkeypatch.setenv("COLUMNS", "200")
    parser = CommandParser()
    cluster.register(parser.commands())

    def run(*words: str) -> str:
        args = parser.parse_args(["cluster", *words])
        assert args.run(args) == 0
        return capsys.readouterr().out

    return run


def test_the_table_names_moves_reasons_and_epochs(run):
    shown = run()
    assert "cluster main, controller controller-0" in shown
    rows = [line.split() for line in shown.splitlines()]
    assert ["share-leader-0", "share-leader", "h:1", "east", "77", "3", "draining", "0.1.0"] in rows
    assert ["orders/1", "share-leader-0", "share-leader-1", "9"] in rows
    assert "no share-coordinator process is registered; start one" in shown
    assert ["orders/2", *["share-leader-1", "is", "taking", "it", "over"]] in rows
    assert "STANDBYS" not in shown


def test_every_partition_is_shown_on_request(run):
    rows = [line.split() for line in run("--partitions").splitlines()]
    assert ["orders/1", "share-leader-0", "9", "a,", "b"] in rows


def test_json_holds_the_same_and_partitions_only_on_request(run):
    shown = json.loads(run("--json"))
    assert shown["moves"] == [
        {"partition": "orders/1", "from": "share-leader-0", "to": "share-leader-1", "epoch": 9}
    ]
    assert shown["shards"][1] == {
        "shard": "state-0",
        "leader": "",
        "epoch": 7,
        "reason": "no share-coordinator process is registered; start one",
    }
    assert shown["unassigned"] == [
        {"partition": "orders/2", "reason": "share-leader-1 is taking it over"}
    ]
    assert "partitions" not in shown
    (place,) = json.loads(run("--partitions", "--json"))["partitions"]
    assert place == {
        "partition": "orders/1", "leader": "share-leader-0", "epoch": 9, "standbys": "a, b",
    }  # fmt: skip
