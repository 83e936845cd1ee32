"""What the state topic says of the past, and what the verdict of a run on Kafka makes of it."""

import json
import time

import pytest

from sharemesh.domain.delivery_state import DeliveryState
from sharemesh.domain.ids import GroupId, SharePartitionKey, TopicId
from sharemesh.domain.share_state.records import StateSnapshot, StateUpdate
from sharemesh.domain.stamped_log.judgement import Judgement
from sharemesh.domain.stamped_log.stamp import Stamp, StampedBatch, StampKind
from sharemesh.domain.state_batch import StateBatch
from sharemesh.serve.settings.settings import ServeSettings
from tests.history.journal import Entry, now_ms
from tests.mesh.kafka_mesh import KafkaMesh
from tests.mesh.kafka_state import LoggedBatch, ShardContent, kafka_durable_state
from tests.mesh.loaded_mesh import Load
from tests.mesh.state_timeline import LoggedState, StateTimeline

TOPIC_ID = TopicId(b"t" * 16)
KEY = SharePartitionKey(GroupId("billing"), TOPIC_ID, 0)
DONE, OPEN = DeliveryState.ACKNOWLEDGED, DeliveryState.AVAILABLE


def snapshot(offset, at_ms, *batches, epoch=1):
    record = StateSnapshot(KEY, 1, epoch, 1, 1, 0, 0, 0, 0, batches)
    return LoggedState(offset, record, at_ms)


def update(offset, at_ms, *batches, start=-1):
    record = StateUpdate(KEY, 1, 1, 1, start, -1, 0, batches)
    return LoggedState(offset, record, at_ms)


def timeline_of(*logged):
    timeline = StateTimeline("billing", "orders", TOPIC_ID)
    timeline.read(0, logged)
    return timeline


def test_the_start_offset_passes_what_is_finished_when_a_broker_appends_it():
    timeline = timeline_of(
        snapshot(0, 10.0),
        update(1, 20.0, StateBatch(5, 9, DONE, 1)),
        update(2, 30.0, StateBatch(0, 3, DONE, 1)),
        update(3, 40.0, StateBatch(4, 4, DONE, 2), start=4),
    )
    times = (5.0, 20.0, 29.0, 30.0, 41.0)
    assert [timeline.start_offset_at("orders/0", each) for each in times] == [0, 0, 0, 4, 10]
    assert timeline.start_offset_at("orders/1", 50.0) == 0
    assert timeline.told_start_offset_at("orders/0", 41.0) == 4
    assert not timeline.reopened


@pytest.mark.parametrize(("told_ms", "broken"), [(15.0, True), (25.0, False)])
def test_what_is_opened_after_it_was_confirmed_breaks_a_promise(told_ms, broken):
    timeline = timeline_of(
        snapshot(0, 10.0, StateBatch(7, 7, DONE, 1)),
        update(1, 20.0, StateBatch(6, 8, OPEN, 2)),
    )
    assert [(each.offset, each.appended_ms) for each in timeline.reopened] == [(7, 20.0)]
    words = {"p": "orders/0", "k": "accept", "r": [[7, 7]], "error": None}
    told = list(timeline.told_before([Entry(told_ms, "anna", "acknowledged", words)], 0.0))
    assert bool(told) is broken
    assert all("orders/0@7 was confirmed to anna" in each for each in told)
    assert any("UPDATE" in words.upper() for _, words in timeline.about("orders/0", 7, 0.0))


@pytest.fixture
def mesh(tmp_path):
    """A run in which a member said twice of one record that it had got twice."""
    serve = ServeSettings(data_directory=tmp_path / "data", cluster_id="faults")
    load = Load(topic="orders", group="billing", partitions=1, settings=serve)
    made = KafkaMesh(tmp_path, load, producers="", kept=tmp_path / "kept")
    made.topic_id = TOPIC_ID
    words = [
        ("produced", {"r": [[0, 1]]}),
        ("delivered", {"le": 1, "r": [[0, 1, 1]]}),
        ("acknowledged", {"k": "accept", "r": [[0, 0]], "error": None}),
        ("delivered", {"le": 1, "r": [[1, 1, 2]]}),  # its lock had expired
        ("acknowledged", {"k": "accept", "r": [[1, 1]], "error": None}),  # on the first delivery
        ("acknowledged", {"k": "accept", "r": [[1, 1]], "error": None}),  # on the second
    ]
    began_ms = now_ms()
    lines = [
        {"t": began_ms + 1_000 * number, "w": "anna", "e": event, "p": "orders/0", **fields}
        for number, (event, fields) in enumerate(words)
    ]
    text = "".join(f"{json.dumps(each)}\n" for each in lines)
    (made.journals / "anna.jsonl").write_text(text)
    yield made
    made._journal.close()


def finished(mesh, after_s):
    """Let the state topic say that the record was finished so long after the beginning."""
    began_ms = min(each.time_ms for each in mesh.entries()) + time.time() * 1_000 - now_ms()
    records = [
        snapshot(0, began_ms),
        update(1, began_ms + 2_000, StateBatch(0, 0, DONE, 1)),
        update(2, began_ms + 1_000 * after_s, StateBatch(1, 1, DONE, 2)),
    ]
    stamp = Stamp(StampKind.UNIT, 1, 0, 3, 4, 5, 0, 0)
    batch = LoggedBatch(StampedBatch(0, 3, 3, False, stamp), Judgement.COUNTS, began_ms)
    mesh._contents = [ShardContent(0, records, [batch])]
    return kafka_durable_state(mesh._contents, "billing", "orders", TOPIC_ID)


def test_a_word_that_is_said_again_is_no_second_decision_where_the_start_offset_had_passed(
    mesh, tmp_path
):
    report = mesh.verdict(finished(mesh, after_s=3.9))
    assert report.violations == []
    assert report.late_acknowledgements == 1
    assert not (tmp_path / "kept").exists()


def test_of_a_run_with_violations_everything_is_kept_that_explains_them(mesh, tmp_path):
    mesh.cluster.logs.mkdir(parents=True, exist_ok=True)
    report = mesh.verdict(finished(mesh, after_s=60))
    assert report.violations == ["orders/0@1 was acknowledged finally 2 times"]
    mesh.keep(report.violations)
    kept = tmp_path / "kept"
    told = (kept / "violations.txt").read_text()
    assert told.count("anna acknowledged") == 2
    assert told.count("anna delivered") == 2
    assert "1-1 ACKNOWLEDGED count 2" in told
    assert "COUNTS expects 0, epoch 4" in (kept / "state-0.txt").read_text()
    assert (kept / "journals" / "anna.jsonl").exists()
