"""What compaction took from the log keeps nothing back (OFF-23 to OFF-25)."""

import pytest

from sharemesh.domain.errors import ErrorCode
from sharemesh.domain.group_config import InFlightLimitType, IsolationLevel
from sharemesh.domain.share_partition.events import (
    AbortedTransaction,
    LogBatch,
    LogHole,
    NothingAcquired,
    WriteAgain,
)
from tests.conformance.scene import Scene

EACH_TYPE = pytest.mark.parametrize("limit_type", list(InFlightLimitType))
LIMIT = 200


def taken_over(start: int, state: str, limit_type: InFlightLimitType) -> Scene:
    """Return the share partition of a leader that read this state."""
    scene = Scene.init(start, state, max_in_flight=LIMIT)
    scene.configure(in_flight_limit_type=limit_type)
    return scene


def read(scene: Scene, log: str) -> str:
    """Read at the next fetch offset as a leader does; return what was acquired."""
    at = scene.next
    base = int(log.partition("-")[0])
    if at < base:
        scene.world.step(LogHole(at, base - 1))
    acquired = scene.fetch(log, at=at)
    if not acquired:
        scene.world.step(NothingAcquired())
    return acquired


@EACH_TYPE
def test_a_hole_before_what_is_finished_is_passed_without_a_new_record(limit_type):
    """OFF-23, OFF-24: the lag that is stored is right, though nobody acknowledges any more."""
    scene = taken_over(0, "0-2 AV(1), 203-204 ACK(1)", limit_type)
    assert scene.fetch("0-2") == "0-2(2)"
    assert scene.ack("0-2 ACCEPT") == "NONE"
    assert read(scene, "203-204") == ""
    assert scene.at == (205, 205, 205)
    assert (scene.writes[-1].start_offset, scene.writes[-1].batches) == (205, ())
    assert read(scene, "205-209") == "205-209(1)"


@EACH_TYPE
def test_a_hole_before_what_is_delivered_again_is_passed(limit_type):
    """OFF-23: the start offset stood before it for good, once the batch behind it was done."""
    scene = taken_over(3, "10-12 AV(1)", limit_type)
    assert read(scene, "10-12") == "10-12(2)"
    assert scene.start == 10
    assert scene.ack("10-12 ACCEPT") == "NONE"
    assert scene.at == (13, 13, 13)


@EACH_TYPE
def test_holes_as_wide_as_the_limit_stop_nothing(limit_type):
    scene = taken_over(0, f"{LIMIT}-{LIMIT + 4} ACK(1), {3 * LIMIT}-{3 * LIMIT} ACK(1)", limit_type)
    assert read(scene, f"{LIMIT}-{LIMIT + 4}") == ""
    assert scene.start == LIMIT + 5
    assert read(scene, f"{3 * LIMIT}-{3 * LIMIT + 9}") == f"{3 * LIMIT + 1}-{3 * LIMIT + 9}(1)"


@EACH_TYPE
def test_a_hole_that_a_read_does_not_cover_stays(limit_type):
    """OFF-23: records may lie there, which must be delivered."""
    scene = taken_over(0, "5-9 ACK(1), 20-29 ACK(1)", limit_type)
    scene.world.step(LogHole(10, 19))
    assert scene.at[0] == 0
    assert scene.next == 0
    assert read(scene, "0-9") == "0-4(1)"
    assert scene.next == 10


@EACH_TYPE
def test_released_records_that_are_gone_do_not_stop_the_start_offset(limit_type):
    """OFF-24, ACQ-3: without it a span as wide as the limit stood for good."""
    scene = taken_over(0, "", limit_type).acquired(f"0-{LIMIT - 1}")
    assert scene.ack(f"{LIMIT - 10}-{LIMIT - 1} ACCEPT") == "NONE"
    scene.release()
    read(scene, f"{LIMIT - 10}-{LIMIT - 1}")
    assert scene.at == (LIMIT, LIMIT, LIMIT)
    assert read(scene, f"{LIMIT}-{LIMIT + 4}") == f"{LIMIT}-{LIMIT + 4}(1)"


@EACH_TYPE
def test_an_aborted_transaction_wider_than_the_limit_is_passed(limit_type):
    """OFF-24, ISO-3: it was archived whole, and nothing of it would ever be acknowledged."""
    scene = Scene(isolation=IsolationLevel.READ_COMMITTED)
    scene.configure(in_flight_limit_type=limit_type)
    log = [LogBatch(base, base + 99, 7, is_transactional=True) for base in (0, 100, 200)]
    assert scene.fetch(log, aborted=(AbortedTransaction(7, 0),), max=LIMIT) == ""
    scene.world.step(NothingAcquired())
    assert scene.at == (LIMIT, LIMIT, LIMIT)
    assert scene.machine.can_acquire()


def test_what_is_finished_behind_the_last_hole_does_not_fill_the_span():
    """OFF-25: Kafka's gap window keeps it, and a span of the limit is never read again."""
    scene = taken_over(0, f"3-{LIMIT + 2} ACK(1)", InFlightLimitType.SPAN)
    assert scene.fetch(f"0-{LIMIT + 2}") == "0-2(1)"
    assert scene.ack("0-2 ACCEPT") == "NONE"
    assert scene.at == (LIMIT + 3, LIMIT + 3, LIMIT + 3)
    assert scene.machine.can_acquire()


def test_a_start_offset_that_could_not_be_stored_is_stored_later():
    """OFF-24, LK-6."""
    scene = taken_over(0, "100-101 ACK(1)", InFlightLimitType.LOCKS)
    scene.fail(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    assert read(scene, "100-101") == ""
    assert scene.machine.is_behind
    scene.ok()
    scene.world.step(WriteAgain())
    assert not scene.machine.is_behind
    assert scene.writes[-1].start_offset == 102


def test_a_late_hole_changes_nothing():
    """OFF-23: what it says was true already."""
    scene = taken_over(0, "0-4 AV(1), 10-14 AV(1)", InFlightLimitType.LOCKS)
    assert read(scene, "0-4") == "0-4(2)"
    assert read(scene, "10-14") == "10-14(2)"
    before = (scene.at, scene.cache, len(scene.writes))
    scene.world.step(LogHole(5, 9))
    assert (scene.at, scene.cache, len(scene.writes)) == before


@EACH_TYPE
def test_a_start_offset_that_passes_a_hole_behind_held_records_is_stored(limit_type):
    """OFF-26: the hole is in no count, and the lag that is stored stayed wrong for good."""
    scene = Scene()
    scene.configure(in_flight_limit_type=limit_type)
    assert scene.fetch("0-4") == "0-4(1)"
    assert read(scene, "10-14") == "10-14(1)"
    assert scene.ack("10-14 ACCEPT") == "NONE"
    count = len(scene.writes)
    assert scene.ack("0-4 ACCEPT") == "NONE"
    assert scene.at[0] == 15
    assert [each.start_offset for each in scene.writes[count:]] == [0, 15]
    assert not scene.writes[-1].batches
    assert read(scene, "15-19") == "15-19(1)"
    assert scene.ack("15-19 ACCEPT") == "NONE"
    assert len(scene.writes) == count + 3  # once for a hole


@EACH_TYPE
def test_a_start_offset_behind_a_hole_is_stored_by_the_write_that_comes_anyway(limit_type):
    """OFF-26: while another write is out, its answer decides."""
    scene = Scene()
    scene.configure(in_flight_limit_type=limit_type)
    assert scene.fetch("0-4") == "0-4(1)"
    assert read(scene, "10-14") == "10-14(1)"
    assert scene.ack("0-4 ACCEPT") == "NONE"
    assert scene.at[0] == 10
    assert [each.start_offset for each in scene.writes] == [0, 10]
    assert scene.ack("10-14 ACCEPT") == "NONE"
    assert [each.start_offset for each in scene.writes] == [0, 10, 10]
