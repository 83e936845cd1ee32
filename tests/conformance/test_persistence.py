"""Section H: failing and outstanding writes."""

import pytest

from sharemesh.domain.errors import ErrorCode
from sharemesh.domain.share_partition.effects import Answered, Dropped, Initialized
from sharemesh.domain.share_partition.events import (
    Acknowledge,
    AcknowledgementBatch,
    Fence,
    Initialize,
    StateRead,
    StateWritten,
)
from sharemesh.domain.share_partition.machine import SharePartition
from tests.conformance.scenario import scenario
from tests.conformance.scene import Scene
from tests.conformance.world import KAFKAS, KEY

NOT_FOUND = ErrorCode.GROUP_ID_NOT_FOUND


@scenario("PER-S01")
@pytest.mark.parametrize(
    ("error", "seen"),
    [(16, 15), (15, 15), (14, 15), (69, 69), (3, 3), (124, 6), (74, 6), (-1, -1), (13, -1)],
)
def test_errors_of_the_write_are_mapped(error, seen):
    scene = Scene().acquired("5-14")
    scene.fail(ErrorCode(error))
    scene.ack("5-14 ACCEPT")
    assert int(scene.world.answers[scene.request_id].error) == seen


@scenario("PER-S02")
def test_a_failed_acknowledgement_is_rolled_back():
    scene = Scene().acquired("5-14")
    scene.fail(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    assert scene.ack("5-14 ACCEPT") == "UNKNOWN_TOPIC_OR_PARTITION"
    assert (scene.cache, scene.timers, scene.dcc) == ("B 5-14 ACQ(1,m1)", 1, 0)


@scenario("PER-S04")
def test_a_failed_release_is_rolled_back_per_offset():
    scene = Scene().acquired("5-10")
    assert scene.ack("8-9 ACCEPT") == "NONE"
    assert scene.dcc == 2
    scene.fail(NOT_FOUND)
    assert scene.release() == "GROUP_ID_NOT_FOUND"
    assert scene.states(5, 10) == "5-7 ACQ(1,m1) 8-9 ACK(1) 10 ACQ(1,m1)"
    assert scene.dcc == 2


@scenario("PER-S05")
def test_what_the_log_start_archived_is_immune_to_a_roll_back():
    scene = Scene().acquired("2-6", "7-11")
    scene.hold()
    assert scene.ack("2-6 RELEASE") == "PENDING"
    assert scene.ack("7-11 ACCEPT") == "PENDING"
    assert scene.dcc == 5
    scene.lso(7)
    assert scene.at == (7, 11, 12)
    assert scene.states(2, 6) == "2-6 ARC(1)~"
    scene.complete(NOT_FOUND)
    assert scene.states(2, 6) == "2-6 ARC(1)"
    scene.complete(NOT_FOUND)
    assert (scene.states(7, 11), scene.dcc) == ("7-11 ACQ(1,m1)", 0)


@scenario("PER-S06")
def test_a_lock_that_fired_during_the_write_leaves_an_available_record():
    scene = Scene(limit=2).acquired("0-1")
    scene.hold()
    assert scene.ack("0-1 ACCEPT") == "PENDING"
    assert scene.dcc == 2
    scene.tick()
    assert scene.states(0, 1) == "0-1 ACK(1)~"
    scene.complete(NOT_FOUND)
    assert scene.cache == "B 0-1 AV(1)"
    assert (scene.timers, scene.dcc) == (0, 0)


@scenario("PER-S07")
def test_failing_writes_and_expiry_at_the_limit():
    scene = Scene(limit=2).acquired("2-6", "7-11")
    scene.hold()
    assert scene.ack("3 ACCEPT") == "PENDING"
    assert scene.ack("7-11 ACCEPT") == "PENDING"
    assert scene.dcc == 6
    scene.complete(NOT_FOUND)
    assert (scene.states(3, 3), scene.dcc) == ("3 ACQ(1,m1)", 5)
    scene.complete(NOT_FOUND)
    assert (scene.states(7, 11), scene.dcc, scene.next) == ("7-11 ACQ(1,m1)", 0, 12)
    scene.ok()
    scene.tick()
    assert scene.states(2, 11) == "2-11 AV(1)"
    assert (scene.timers, scene.next, scene.dcc) == (0, 2, 0)
    assert scene.fetch("2-6") == "2-6(2)"
    assert scene.fetch("7-11") == "7-11(2)"
    scene.hold()
    assert scene.ack("3 ACCEPT") == "PENDING"
    assert scene.ack("7-11 ACCEPT") == "PENDING"
    assert scene.dcc == 6
    scene.tick()
    assert scene.states(2, 11) == "2 ARC(2) 3 ACK(2)~ 4-6 ARC(2) 7-11 ACK(2)~"
    assert scene.dcc == 10
    expiry_writes = len(scene.world.persister.held) - 2
    scene.complete(NOT_FOUND)  # that of 3
    assert scene.states(3, 3) == "3 ARC(2)"
    for _ in range(expiry_writes):
        scene.complete(NOT_FOUND, index=1)  # those of the expiry
    assert scene.start == 7
    assert scene.states(2, 6) == ""
    scene.complete(NOT_FOUND)  # that of 7-11
    assert scene.states(7, 11) == "7-11 ARC(2)"
    assert (scene.dcc, scene.next, scene.start) == (5, 12, 7)


@scenario("PER-S10")
def test_a_batch_in_transition_is_not_the_next_offset():
    scene = Scene().acquired("0-9", "10-19")
    scene.hold()
    assert scene.ack("0-9 RELEASE") == "PENDING"
    scene.ok()
    assert scene.ack("10-19 RELEASE") == "NONE"
    assert (scene.next, scene.dcc) == (10, 0)
    scene.complete()
    assert scene.next == 0


@scenario("PER-S11")
def test_offsets_in_transition_are_not_the_next_offset():
    scene = Scene().acquired("0-49")
    scene.hold()
    assert scene.ack("5-9 RELEASE") == "PENDING"
    scene.ok()
    assert scene.ack("20-24 RELEASE") == "NONE"
    assert scene.next == 20


@scenario("PER-S12")
def test_a_batch_in_transition_is_not_acquired():
    scene = Scene().acquired("21-30")
    scene.hold()
    assert scene.ack("21-30 RELEASE") == "PENDING"
    assert scene.fetch("21-30", m="m2") == ""
    assert scene.count == 0
    scene.complete()
    assert scene.fetch("21-30", m="m2") == "21-30(2)"
    assert scene.states(21, 30) == "21-30 ACQ(2,m2)"


@scenario("PER-S13")
def test_a_record_in_transition_takes_no_second_transition():
    scene = Scene().acquired("5-9")
    scene.hold()
    assert scene.ack("5-9 ACCEPT") == "PENDING"
    assert scene.ack("5-9 ACCEPT") == "INVALID_RECORD_STATE"
    assert scene.release() == "NONE"
    assert scene.states(5, 9) == "5-9 ACK(1)~"
    assert len(scene.world.persister.held) == 1


@scenario("PER-S14")
def test_next_offset_after_a_release_and_an_acquisition():
    scene = Scene().acquired("0-9")
    scene.acquired("10-19", m="m2")
    assert scene.next == 20
    assert scene.ack("5-9 RELEASE") == "NONE"
    assert scene.next == 5
    assert scene.fetch("0-9") == "5-9(2)"
    assert scene.next == 20


@scenario("PER-S15")
def test_next_offset_with_two_consumers():
    scene = Scene().acquired("0-2")
    seen = [scene.next]
    assert scene.ack("0-2 RELEASE") == "NONE"
    seen.append(scene.next)
    scene.acquired("3-4", m="m2")
    seen.append(scene.next)
    assert scene.fetch("0-2") == "0-2(2)"
    seen.append(scene.next)
    assert scene.ack("3-4 RELEASE", m="m2") == "NONE"
    seen.append(scene.next)
    assert seen == [3, 0, 0, 5, 3]


@scenario("PER-S17")
@pytest.mark.parametrize(("error", "drops"), [(74, True), (69, True), (3, True), (15, False)])
def test_some_errors_drop_the_partition(error, drops):
    scene = Scene().acquired("0-4")
    scene.hold()
    assert scene.ack("0-4 ACCEPT") == "PENDING"
    write = scene.writes[-1]
    effects = scene.machine.step(
        StateWritten(write.write_id, ErrorCode(error)), now_ms=scene.world.now_ms
    )
    assert any(isinstance(each, Answered) for each in effects)
    assert any(isinstance(each, Dropped) for each in effects) is drops
    if drops:  # the shell fences and forgets it; the next fetch reads storage again
        scene.world.restart(mark_fenced=True)
        assert scene.at == (0, 0, 0)
    assert scene.machine.state == "ACTIVE"


@scenario("PER-S18")
def test_a_leader_change_gives_back_what_was_only_acquired():
    scene = Scene.init(0)
    scene.acquired("0-4", "5-9", "10-14", "15-19")
    assert scene.ack("0-4 ACCEPT") == "NONE"
    assert scene.ack("5-9 RELEASE") == "NONE"
    assert scene.ack("15-19 REJECT") == "NONE"
    assert scene.start == 5
    scene.world.restart()
    assert scene.start == 5
    assert scene.cache == "B 5-9 AV(1), B 15-19 ARC(1)"
    assert scene.window[0] == 10
    assert scene.fetch("5-24") == "5-9(2) 10-14(1) 20-24(1)"


def test_an_answer_to_an_unknown_or_old_write_is_ignored():
    scene = Scene().acquired("0-4")
    before = scene.cache
    scene.world.step(StateWritten(12345))
    assert scene.ack("0-1 ACCEPT") == "NONE"
    scene.world.step(StateWritten(scene.writes[-1].write_id, ErrorCode.UNKNOWN_SERVER_ERROR))
    assert before != scene.cache
    assert scene.start == 2


def test_a_fenced_partition_grants_and_takes_nothing_but_settles_what_it_asked_for():
    """IFB-6."""
    scene = Scene().acquired("0-4", "5-9")
    scene.hold()
    assert scene.ack("0-4 ACCEPT") == "PENDING"
    request_id = scene.request_id

    scene.world.step(Fence())
    assert scene.ack("5-9 ACCEPT") == "NOT_LEADER_OR_FOLLOWER"
    assert scene.release() == "NOT_LEADER_OR_FOLLOWER"
    assert scene.fetch("10-14") == ""
    scene.complete()
    assert scene.outcome(request_id) == "NONE"


def test_a_step_returns_the_write_before_anything_else():
    scene = Scene().acquired("0-4")
    request = Acknowledge(99, "m1", (AcknowledgementBatch(0, 4, (1,)),))
    effects = scene.machine.step(request, now_ms=scene.world.now_ms)
    assert [type(each).__name__ for each in effects] == ["WriteState"]


def test_per_4_acquisitions_renewals_and_moves_of_the_log_start_write_nothing():
    scene = Scene().acquired("0-9", "10-19")
    assert scene.ack("0-9 RENEW") == "NONE"
    scene.lso(15)
    assert scene.writes == []


def test_per_8_a_coordinator_whose_log_takes_no_writes_is_not_available():
    """Not Kafka's: its coordinator has no such answer."""
    scene = Scene().acquired("5-14")
    scene.fail(ErrorCode.KAFKA_STORAGE_ERROR)
    scene.ack("5-14 ACCEPT")
    answer = scene.world.answers[scene.request_id]
    assert answer.error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert scene.machine.state == "ACTIVE"
    machine = SharePartition(KEY, 0, KAFKAS)
    machine.step(Initialize(), now_ms=0)
    effects = machine.step(StateRead(ErrorCode.KAFKA_STORAGE_ERROR), now_ms=0)
    (outcome,) = (each for each in effects if isinstance(each, Initialized))
    assert outcome.error is ErrorCode.COORDINATOR_NOT_AVAILABLE
