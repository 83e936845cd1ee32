"""The history table and the answers, on a log whose every number is known."""

import json
from pathlib import Path

import pytest

from sharemesh.domain.delivery_state import Cause, DeliveryState
from sharemesh.domain.ids import GroupId, MemberId, SharePartitionKey, TopicId, format_topic_id
from sharemesh.domain.share_state.records import Origin, StateSnapshot, StateUpdate, Tombstone
from sharemesh.domain.state_batch import StateBatch
from sharemesh_spark import __main__ as application
from sharemesh_spark.history import queries
from sharemesh_spark.history.explain import life_of
from sharemesh_spark.history.history import (
    FOLDER,
    RUNS,
    HistoryTakenError,
    history,
    runs,
    update_history,
    watermark,
)
from sharemesh_spark.history.known import PRODUCED_SCHEMA, Known, newest_states, partitions_of
from sharemesh_spark.session import start
from tests.spark.log_files import write_records

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]  # Spark starts a JVM and workers
TOPIC = TopicId(b"\3" * 16)
KEY = SharePartitionKey(GroupId("orders 1"), TOPIC, 2)
MINUTE = 60_000
ACK, BACK, GONE = DeliveryState.ACKNOWLEDGED, DeliveryState.AVAILABLE, DeliveryState.ARCHIVED


def update(at_ms, cause, member, *batches):
    made = tuple(StateBatch(*each[:4], cause, 0, *each[4:]) for each in batches)
    return StateUpdate(KEY, 0, 1, 1, -1, 0, at_ms, made, Origin(cause, MemberId(member), b"t" * 16))


FIRST = [
    StateSnapshot(KEY, 0, 1, 0, 0, 0, 0, 1_000, 1_000, (), Origin(Cause.INITIALIZE), (), 0),
    update(2_000, Cause.LOCK_EXPIRY, "m1", (0, 4, BACK, 1, 1_200)),
    update(3_000, Cause.ACCEPT, "m2", (0, 3, ACK, 2, 2_500)),
    update(MINUTE + 1_000, Cause.REJECT, "m2", (4, 4, GONE, 2, MINUTE + 400)),
]
WHOLE = StateBatch(0, 9, ACK, 2)
CHANGED = (StateBatch(5, 9, ACK, 1, Cause.ACCEPT),)
SECOND = [
    StateSnapshot(
        KEY, 1, 1, 1, 1, 0, 0, 1, MINUTE + 2_000, (WHOLE,),
        Origin(Cause.ACCEPT, MemberId("m1")), CHANGED, 0,
    ),
    StateSnapshot(KEY, 2, 1, 1, 1, 0, 0, 1, MINUTE + 3_000, (WHOLE,), Origin(Cause.SNAPSHOT)),
    Tombstone(KEY, 1, 1, MINUTE + 4_000, Origin(Cause.DELETE)),
]  # fmt: skip


@pytest.fixture(scope="module")
def spark(tmp_path_factory):
    session = start("tests", work=tmp_path_factory.mktemp("spark"), cores=2)
    yield session
    session.stop()


def changed(table):
    rows = table.orderBy("offset", "first_offset").collect()
    return [(r["offset"], r["cause"], r["delivery_state"], r["first_offset"]) for r in rows]


async def test_the_history_grows_exactly_once_and_answers(spark, tmp_path):
    """REP-8: a lock expiry of five records counts five redeliveries."""
    await write_records(tmp_path, FIRST)
    assert update_history(spark, tmp_path).rows == 4
    assert update_history(spark, tmp_path) is None
    await write_records(tmp_path, SECOND, epoch=2)
    leftover = tmp_path / FOLDER / "000002-0.new"
    (leftover / "day=2020-01-01").mkdir(parents=True)
    (leftover / "day=2020-01-01/part-0.parquet").write_bytes(b"half")  # a killed run
    run = update_history(spark, tmp_path)
    assert (run.run, run.rows, run.ranges, run.gaps) == (2, 2, {0: (4, 7)}, {})
    assert watermark(tmp_path) == {0: 7}
    table = history(spark, tmp_path).cache()
    assert changed(table) == [
        (0, "initialize", None, None),
        (1, "lock_expiry", "available", 0),
        (2, "accept", "acknowledged", 0),
        (3, "reject", "archived", 4),
        (4, "accept", "acknowledged", 5),
        (6, "delete", None, None),
    ]
    assert {row["group_id"] for row in table.collect()} == {"orders 1"}
    assert (tmp_path / FOLDER / RUNS / "run=000001/day=1970-01-01").is_dir()
    check_answers(spark, table, tmp_path)
    check_life(spark, table, tmp_path)


def check_answers(spark, table, data):
    topic = format_topic_id(TOPIC)
    batches = spark.createDataFrame([(topic, 2, 0, 9, 500)], PRODUCED_SCHEMA)
    states = newest_states(spark, data)
    known = Known(table, partitions_of(table, states, batches, {}).cache(), {})
    times = {row["member_id"]: row for row in queries.times(known).collect()}
    assert {m: row["records"] for m, row in times.items()} == {"m1": 5, "m2": 5}
    m2 = times["m2"]  # the state began at 1,000: 200 waited for, held for 800 and for 500
    assert (m2["queue_p50_ms"], m2["processing_p50_ms"], m2["working_p50_ms"]) == (
        200, 1_800, 1_300,
    )  # fmt: skip
    assert times["m1"]["working_p50_ms"] is None  # of a leader that does not say when
    assert times["m1"]["queue_p50_ms"] == MINUTE + 1_000
    [redelivered] = queries.redeliveries(known).collect()
    assert (redelivered["cause"], redelivered["records"], redelivered["members"]) == (
        "lock_expiry", 5, 1,
    )  # fmt: skip
    [given_up] = queries.archived(known).collect()
    assert (given_up["first_offset"], given_up["cause"], given_up["delivery_count"]) == (
        4, "reject", 2,
    )  # fmt: skip
    minutes = [
        (r["from_ms"], r["appended"], r["finished"], r["redelivered"], r["backlog"])
        for r in queries.throughput(known).collect()
    ]
    assert minutes == [(0, 10, 4, 5, 6), (MINUTE, 0, 6, 0, 0)]
    [hot] = queries.hot_partitions(known).collect()
    assert (hot["partition"], hot["changes"], hot["records"], hot["share"]) == (2, 4, 15, 1.0)
    [group] = queries.groups(known).collect()
    assert (group["lives"], group["finished"], group["not_recorded"]) == (1, 10, 0)
    assert group["counts_from_ms"] is None


def check_life(spark, table, data):
    topic = format_topic_id(TOPIC)
    events = [(e.what, e.cause, e.member_id) for e in life_of(data, KEY, 4)]
    assert events == [
        ("initialized at offset 0, state epoch 1", "initialize", ""),
        ("available", "lock_expiry", "m1"),
        ("archived", "reject", "m2"),
        ("state deleted", "delete", ""),
    ]
    [held] = [each for each in life_of(data, KEY, 4) if each.cause == "reject"]
    assert held.acquired_at_ms == MINUTE + 400
    assert "by m2, acquired 1970-01-01 00:01:00.400" in held.line()
    assert queries.life(table, "orders 1", topic, 2, 4).count() == 4


async def test_of_two_history_jobs_one_is_told_to_start_over(spark, tmp_path, monkeypatch):
    await write_records(tmp_path, FIRST)
    assert update_history(spark, tmp_path).run == 1
    before = changed(history(spark, tmp_path))
    monkeypatch.setattr(
        "sharemesh_spark.history.history.runs", lambda _: []
    )  # as it was when it began
    with pytest.raises(HistoryTakenError, match="start over"):
        update_history(spark, tmp_path)
    monkeypatch.undo()
    assert len(runs(tmp_path)) == 1
    assert changed(history(spark, tmp_path)) == before


async def test_a_job_never_publishes_what_another_one_has_half_written(
    spark, tmp_path, monkeypatch
):
    await write_records(tmp_path, FIRST)

    def another_begins(_):
        monkeypatch.undo()
        with monkeypatch.context() as patched:
            kill_at("manifest", patched)
            with pytest.raises(KilledError):
                update_history(spark, tmp_path, attempt="b")

    monkeypatch.setattr("sharemesh_spark.history.history._sync_tree", another_begins)
    assert update_history(spark, tmp_path, attempt="a").rows == 4
    assert watermark(tmp_path) == {0: 4}
    assert history(spark, tmp_path).count() == 4


async def test_explain_needs_no_spark_and_no_history(tmp_path, capsys):
    await write_records(tmp_path, FIRST + SECOND)
    record = f"{format_topic_id(TOPIC)}/2@7"
    target = tmp_path / "out.json"
    arguments = ["explain", record, "--group", "orders 1", "--data", str(tmp_path)]
    assert application.main([*arguments, "--json", str(target)]) == 0
    events = json.loads(target.read_text())["events"]
    assert [event["what"] for event in events][1:] == ["acknowledged", "state deleted"]
    assert "delivery count 1: accept by m1" in capsys.readouterr().out
    arguments[1] = "flights/2@7"
    assert application.main(arguments) == 1
    assert "pass --bootstrap" in capsys.readouterr().out
    arguments[1] = "flights"
    assert application.main(arguments) == 1
    assert "topic/partition@offset" in capsys.readouterr().out


class KilledError(BaseException):
    """Stands for a kill: nothing catches it, and the code has nothing that cleans up."""


async def test_a_history_job_killed_anywhere_counts_each_change_once(spark, tmp_path, monkeypatch):
    records = [FIRST[0], *(update(2_000 + n, Cause.ACCEPT, "m", (n, n, ACK, 1)) for n in range(9))]
    seen = 0
    for point in ("manifest", "torn manifest", "durable", "rename", "renamed"):
        fresh = records[seen : seen + 2]
        await write_records(tmp_path, fresh, epoch=seen + 1)
        seen += len(fresh)
        before = len(runs(tmp_path))
        with monkeypatch.context() as patched:
            kill_at(point, patched)
            with pytest.raises(KilledError):
                update_history(spark, tmp_path)
        published = point == "renamed"
        assert len(runs(tmp_path)) == before + published, point
        rerun = update_history(spark, tmp_path)
        assert (rerun is None) == published, point
        assert watermark(tmp_path) == {0: seen}, point
        offsets = [row["offset"] for row in history(spark, tmp_path).orderBy("offset").collect()]
        assert offsets == list(range(seen)), point


def kill_at(point, patched):
    def killed(*_, **__):
        raise KilledError

    def torn(path, text):
        path.write_bytes(text.encode()[:10])
        raise KilledError

    rename = Path.rename

    def renamed(path, target):
        rename(path, target)
        raise KilledError

    match point:
        case "manifest":
            patched.setattr(Path, "write_text", killed)
        case "torn manifest":
            patched.setattr(Path, "write_text", torn)
        case "durable":
            patched.setattr("sharemesh_spark.history.history._sync_tree", killed)
        case "rename":
            patched.setattr(Path, "rename", killed)
        case "renamed":
            patched.setattr(Path, "rename", renamed)
