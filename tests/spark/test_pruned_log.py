"""Reports over a pruned log: totals stay right, and what is not known says so (spec REP)."""

import json
from datetime import UTC, datetime

import pytest

from sharemesh.domain.delivery_state import Cause, DeliveryState
from sharemesh.domain.ids import GroupId, MemberId, SharePartitionKey, TopicId, format_topic_id
from sharemesh.domain.share_state.records import Origin, StateSnapshot, StateUpdate, Tombstone
from sharemesh.domain.state_batch import StateBatch
from sharemesh_spark import __main__ as application
from sharemesh_spark.__main__ import console
from sharemesh_spark.commands import COMMANDS, Run
from sharemesh_spark.kept_files import KeptFiles
from sharemesh_spark.options import parser
from sharemesh_spark.reader.data_directory import shard_bounds
from sharemesh_spark.session import start
from tests.spark.log_files import prune, write_records

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]
NOW = datetime(2026, 11, 22, tzinfo=UTC)
TOPIC = TopicId(b"\4" * 16)
ACK = DeliveryState.ACKNOWLEDGED


def key(group):
    return SharePartitionKey(GroupId(group), TOPIC, 0)


def begins(group, at_ms, epoch=1):
    origin = Origin(Cause.INITIALIZE)
    return StateSnapshot(key(group), 0, epoch, 0, 0, 0, 0, at_ms, at_ms, (), origin, (), 0)


def accepts(group, at_ms, first, last, epoch=1, *, count=1):
    made = (StateBatch(first, last, ACK, count, Cause.ACCEPT),)
    origin = Origin(Cause.ACCEPT, MemberId("m" if count == 1 else "second"))
    return StateUpdate(key(group), 0, epoch, 1, first, 0, at_ms, made, origin)


def passes(group, at_ms, first, last, cause):
    made = (StateBatch(first, last, DeliveryState.ARCHIVED, 1, cause),)
    return StateUpdate(key(group), 0, 1, 1, 0, 0, at_ms, made, Origin(cause, MemberId("m")))


def cold(group, at_ms, start):
    origin = Origin(Cause.SNAPSHOT)
    return StateSnapshot(key(group), 1, 1, 1, 1, start, 0, 1_000, at_ms, (), origin, (), 0)


def deletes(group, at_ms):
    return Tombstone(key(group), 1, 1, at_ms, Origin(Cause.DELETE))


PRUNED = [
    begins("billing", 1_000),
    accepts("billing", 2_000, 0, 99),
    begins("idle", 1_000),
    accepts("idle", 2_000, 0, 9),
    begins("gaps", 1_000),
    passes("gaps", 2_000, 0, 1, Cause.GAP),
    passes("gaps", 2_100, 2, 4, Cause.REJECT),
    passes("gaps", 2_200, 2, 4, Cause.REJECT),  # written again: the answer was lost
    deletes("gaps", 2_300),
    begins("again", 1_000),
    accepts("again", 2_000, 0, 2),
    deletes("again", 3_000),
]
KEPT = [
    cold("billing", 4_000, 100),
    cold("idle", 4_000, 10),
    accepts("billing", 5_000, 100, 109),
    accepts("billing", 5_500, 110, 110, count=2),
    begins("again", 500_000, epoch=2),
    accepts("again", 501_000, 0, 2, epoch=2),
]


@pytest.fixture(scope="module")
def spark(tmp_path_factory):
    session = start("tests", work=tmp_path_factory.mktemp("spark"), cores=2)
    yield session
    session.stop()


def figures_of(spark, command, data, *more):
    args = parser().parse_args([command, str(data), *more])
    run = Run(args, spark, console(), NOW, KeptFiles(data))
    _, do = COMMANDS[command]
    return json.loads(json.dumps(do(run)))


async def test_what_was_pruned_is_in_the_totals_and_what_is_not_known_says_so(
    spark, tmp_path, capsys
):
    """REP-11."""
    data, page = tmp_path / "data", tmp_path / "report.html"
    await write_records(data, PRUNED)
    await write_records(data, KEPT, epoch=2)
    bounds = shard_bounds(data, 0)
    await prune(data, bounds[1] - len(KEPT))
    assert 0 < shard_bounds(data, 0)[0] <= bounds[1] - len(KEPT)

    told = figures_of(spark, "report", data)
    groups = {
        row["group_id"]: (row["finished"], row["not_recorded"], row["counts_from_ms"])
        for row in told["groups"]
    }
    assert groups == {
        "billing": (111, 100, 5_000),
        "idle": (10, 10, 4_000),  # all its changes are gone: listed nevertheless
        "again": (3, 0, None),  # its second life is known whole
    }
    lines = {(row["group_id"], row["cause"]): row["records"] for row in told["by_cause"]}
    assert lines == {
        ("billing", "accept"): 11,
        ("billing", "not recorded"): 100,
        ("idle", "not recorded"): 10,
        ("again", "accept"): 3,
    }
    assert "were pruned before they were read" in capsys.readouterr().out

    told = figures_of(spark, "answers", data, "--html", str(page))
    assert all(row["backlog"] >= 0 for row in told["throughput"])
    [second] = [row for row in told["times"] if row["member_id"] == "second"]
    assert second["records"] == 1
    assert second["queue_p50_ms"] is None  # when its first delivery was is not known
    assert second["processing_p50_ms"] is None
    assert list(told["pruned_unread"]) == ["0"]
    assert format_topic_id(TOPIC) in page.read_text()


async def test_a_history_makes_a_report_whole_over_lives_and_pruning(spark, tmp_path):
    """REP-2."""
    data = tmp_path / "data"
    await write_records(data, PRUNED)
    figures_of(spark, "history", data)
    await write_records(data, KEPT, epoch=2)
    await prune(data, shard_bounds(data, 0)[1] - len(KEPT))
    told = figures_of(spark, "report", data)
    assert [(row["group_id"], row["finished"], row["lives"]) for row in told["groups"]] == [
        ("again", 6, 2),
        ("billing", 111, 1),
        ("gaps", 5, 1),
        ("idle", 10, 1),
    ]
    archived = {row["group_id"]: row["archived"] for row in told["groups"]}
    assert archived == {"again": 0, "billing": 0, "gaps": 3, "idle": 0}
    assert all(row["not_recorded"] == 0 for row in told["groups"])
    assert all(row["counts_from_ms"] is None for row in told["groups"])
    assert told["pruned_unread"] == {}

    told = figures_of(spark, "answers", data)
    assert {row["cause"] for row in told["archived"]} == {"reject"}
    again = [row for row in told["throughput"] if row["group_id"] == "again"]
    assert [(row["appended"], row["finished"], row["backlog"]) for row in again] == [
        (3, 3, 0),  # the topic's records are gone: what was finished had come
        (3, 3, 0),
    ]
    [times] = [row for row in told["times"] if row["group_id"] == "again"]
    assert times["processing_p99_ms"] == 0  # nothing goes from one life into the other


async def test_explain_says_how_a_record_ended_whose_changes_were_pruned(tmp_path, capsys):
    """REP-12."""
    await write_records(tmp_path, PRUNED)
    await write_records(tmp_path, KEPT, epoch=2)

    def explained(group, offset):
        record = f"{format_topic_id(TOPIC)}/0@{offset}"
        arguments = ["explain", record, "--group", group, "--data", str(tmp_path)]
        assert application.main(arguments) == 0
        return capsys.readouterr().out

    assert "acknowledged, delivery count 1: accept by m" in explained("idle", 5)
    assert "not recorded" not in explained("idle", 5)
    await prune(tmp_path, shard_bounds(tmp_path, 0)[1] - len(KEPT))
    told = explained("idle", 5)
    assert "below the start offset 10; when and why is not recorded" in told
    assert "were pruned before they were read" in told
    assert "acknowledged" in explained("billing", 105)
    assert "not recorded" not in explained("billing", 105)
    assert "initialized" in explained("again", 9)
    assert "not recorded" not in explained("again", 9)
