"""Where this machine differs from Kafka's by the rules, as docs/reference/compatibility.md says."""

from sharemesh.domain.group_config import IsolationLevel
from sharemesh.domain.share_partition.events import AbortedTransaction, LogBatch
from tests.conformance.scene import Scene


def test_a_gap_window_below_a_moved_log_start_does_not_draw_the_start_offset_back():
    """OFF-12."""
    scene = Scene.init(0, "0-4 AV(1), 20-24 AV(1)")
    assert scene.window == (5, 24)
    assert scene.fetch("0-4") == "0-4(2)"
    scene.lso(10)
    assert (scene.start, scene.window) == (10, (5, 24))
    scene.tick()  # 0-4 is archived, and leaves the cache
    assert scene.cache == "B 20-24 AV(1)"
    assert scene.start == 10


def test_aborted_records_below_the_start_offset_are_not_counted_as_complete():
    """VOC-13."""
    scene = Scene(isolation=IsolationLevel.READ_COMMITTED)
    scene.acquired("0-4")
    scene.lso(10)
    log = [LogBatch(5, 14, producer_id=7, is_transactional=True)]
    assert scene.fetch(log, aborted=(AbortedTransaction(7, 5),)) == ""
    assert scene.dcc == 5  # 10 to 14


def test_a_log_batch_that_begins_below_the_start_offset_is_taken_from_there_on():
    """ACQ-4."""
    scene = Scene.init(0, "20-24 AV(1)")
    scene.lso(10)
    assert scene.fetch("5-14") == "10-14(1)"


def test_a_range_that_begins_in_a_natural_hole_leaves_the_batch_before_it_alone():
    """ACK-8."""
    scene = Scene().acquired("0-4", "5-9")
    scene.fetch("15-19", at=10)
    assert scene.ack("5-9 ACCEPT") == "NONE"
    assert scene.ack("12-19 ACCEPT") == "NONE"
    assert scene.machine.state_at(15).state.name == "ACKNOWLEDGED"


def test_equal_neighbours_of_a_write_are_one_state_batch():
    """ACK-17."""
    scene = Scene().acquired("0-4", "5-9")
    assert scene.ack("0-3 ACCEPT; 4-9 ACCEPT") == "NONE"
    [write] = scene.writes
    assert [(each.first_offset, each.last_offset) for each in write.batches] == [(0, 9)]
