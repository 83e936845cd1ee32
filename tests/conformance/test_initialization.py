"""Section A: initialization and recovery."""

import pytest

from sharemesh.domain.errors import ErrorCode
from sharemesh.domain.share_partition.effects import Dropped, Initialized, ReadState
from sharemesh.domain.share_partition.events import Fence, Initialize, StateRead
from sharemesh.domain.share_partition.machine import SharePartition
from tests.conformance.scenario import scenario
from tests.conformance.scene import Scene, state_batches
from tests.conformance.world import KAFKAS, KEY


def initializing() -> SharePartition:
    machine = SharePartition(KEY, 0, KAFKAS)
    assert machine.step(Initialize(), now_ms=0) == (ReadState(0),)
    return machine


def read(answer: StateRead) -> tuple[SharePartition, Initialized]:
    machine = initializing()
    effects = machine.step(answer, now_ms=0)
    (outcome,) = (each for each in effects if isinstance(each, Initialized))
    return machine, outcome


@scenario("INI-S01")
def test_batches_load_with_state_and_count_and_no_timers():
    scene = Scene.init(5, "5-10 AV(2), 11-15 ARC(3)", epoch=3)
    assert scene.machine.state == "ACTIVE"
    assert scene.at == (5, 15, 5)
    assert scene.machine.state_epoch == 3
    assert scene.dcc == 5
    assert scene.cache == "B 5-10 AV(2), B 11-15 ARC(3)"
    assert scene.timers == 0


@scenario("INI-S02")
def test_no_batches():
    """CFG-42: a start offset is stored, so the reset policy does not matter."""
    scene = Scene.init(10, epoch=5)
    assert scene.at == (10, 10, 10)
    assert (scene.dcc, scene.cache) == (0, "")


@scenario("INI-S05")
def test_a_gap_at_the_beginning_stays_to_be_fetched():
    scene = Scene.init(10, "15-20 ACK(2), 21-30 ARC(3)")
    assert scene.at == (10, 30, 10)
    assert (scene.dcc, scene.window) == (16, (10, 30))


@scenario("INI-S06")
def test_several_gaps():
    scene = Scene.init(10, "15-20 ACK(2), 30-40 ARC(3)")
    assert scene.at == (10, 40, 10)
    assert (scene.dcc, scene.window) == (17, (10, 40))


@scenario("INI-S07")
def test_a_gap_behind_the_first_batch_bounds_the_start_offset():
    scene = Scene.init(15, "15-20 ACK(2), 30-40 ARC(3)")
    assert scene.at == (21, 40, 21)
    assert (scene.dcc, scene.cache, scene.window) == (11, "B 30-40 ARC(3)", (21, 40))


@scenario("INI-S08")
def test_without_gaps_all_that_is_done_is_passed():
    """PER-3."""
    scene = Scene.init(15, "15-20 ACK(2), 21-30 ARC(3)")
    assert scene.at == (31, 31, 31)
    assert (scene.dcc, scene.cache) == (0, "")


@scenario("INI-S09")
def test_five_hundred_single_finished_records_are_passed():
    singles = ", ".join(f"{offset} ACK(1)" for offset in range(234, 734))
    scene = Scene.init(233, f"233 ARC(1), {singles}")
    assert scene.at == (734, 734, 734)
    assert (scene.dcc, scene.cache) == (0, "")


@scenario("INI-S10")
@scenario("INI-S11")
@pytest.mark.parametrize(("start", "batches"), [(6, "5-10 AV(1)"), (5, "5-10 AV(1), 11-10 AV(1)")])
def test_impossible_batches_fail_the_partition_and_the_next_one_reads_again(start, batches):
    scene = Scene.init(start, batches)
    assert scene.machine.state == "FAILED"
    assert scene.answer.error is ErrorCode.UNKNOWN_SERVER_ERROR
    assert int(scene.answer.error) == -1
    scene.world.persister.batches = ()
    assert scene.world.initialize().error is ErrorCode.NONE  # the next fetch makes a new one
    assert scene.machine.state == "ACTIVE"


@scenario("INI-S13")
@pytest.mark.parametrize(
    ("error", "seen"),
    [(16, 15), (15, 15), (14, 15), (69, 69), (3, 3), (124, 6), (74, 6), (-1, -1), (13, -1)],
)
def test_errors_of_the_read_are_mapped(error, seen):
    machine, outcome = read(StateRead(ErrorCode(error)))
    assert int(outcome.error) == seen
    assert machine.state == "FAILED"


@scenario("INI-S15")
def test_a_fenced_partition_answers_leader_not_available_internally():
    machine = SharePartition(KEY, 0, KAFKAS)
    machine.step(Fence(), now_ms=0)
    (outcome,) = machine.step(Initialize(), now_ms=0)
    assert isinstance(outcome, Initialized)
    # what the client sees stands in test_partition_rpcs
    assert outcome.error is ErrorCode.LEADER_NOT_AVAILABLE
    assert machine.state == "FENCED"


@scenario("INI-S18")
def test_the_gap_of_the_state_may_overlap_the_gap_of_the_log():
    scene = Scene.init(11, "21-30 ACK(2), 41-50 ARC(1)")
    assert scene.fetch("16-35 36-60") == "16-20(1) 31-40(1) 51-60(1)"
    assert scene.count == 25
    assert scene.at == (16, 60, 61)
    assert scene.window is None


def test_only_one_read_is_in_flight():
    machine = initializing()
    assert machine.step(Initialize(), now_ms=0) == ()


def test_a_failed_partition_asks_to_be_dropped():
    machine = initializing()
    effects = machine.step(StateRead(ErrorCode.FENCED_LEADER_EPOCH), now_ms=0)
    assert Dropped(ErrorCode.NOT_LEADER_OR_FOLLOWER) in effects


def test_archiving_batches_load_as_archived_without_a_dead_letter_queue():
    scene = Scene.init(0, "0-4 AV(1), 5-9 ARCHIVING(2)")
    assert scene.cache == "B 0-4 AV(1), B 5-9 ARC(2)"
    assert scene.dcc == 5


@pytest.mark.parametrize("batches", ["5-9 AV(1), 7-12 AV(1)", "10-12 AV(1), 5-9 AV(1)"])
def test_overlapping_or_unsorted_state_fails_the_partition(batches):
    _, outcome = read(StateRead(ErrorCode.NONE, 0, 5, state_batches(batches)))
    assert outcome.error is ErrorCode.UNKNOWN_SERVER_ERROR


@scenario("DLQ-S11")
def test_archiving_state_with_an_impossible_batch_fails_without_any_write():
    scene = Scene.init(5, "5-9 ARCHIVING(5), 3-4 AV(1)")
    assert scene.machine.state == "FAILED"
    assert scene.writes == []


@scenario("DLQ-S02")
def test_reject_without_a_dead_letter_queue_archives_directly():
    scene = Scene()
    scene.acquired("5-9", "10-14")
    assert scene.ack("5-9 REJECT") == "NONE"
    assert scene.start == 10
    assert scene.last_write == "start 5: 5-9 4 1"
    assert len(scene.writes) == 1
