"""Locks go from one machine to the next without ending (docs/spec/hand-over.md, HND)."""

import pytest

from sharemesh.domain.delivery_state import AcknowledgeType, Cause, DeliveryState
from sharemesh.domain.errors import ErrorCode
from sharemesh.domain.group_config import GroupConfig, InFlightLimitType
from sharemesh.domain.handed_lock import HandedLock
from sharemesh.domain.ids import MemberId
from sharemesh.domain.quota.counts import HeldRecords
from sharemesh.domain.share_partition.effects import (
    Answered,
    Lapse,
    LocksExpired,
    RecordsAcquired,
    WriteState,
)
from sharemesh.domain.share_partition.events import (
    Acknowledge,
    AcknowledgementBatch,
    Acquire,
    AcquireMode,
    HandOver,
    Initialize,
    Lifecycle,
    LogBatch,
    LogStartMoved,
    ReleaseMember,
    StateRead,
    StateWritten,
    Tick,
    uncounted,
)
from sharemesh.domain.share_partition.machine import SharePartition
from sharemesh.domain.share_partition.rules import hand_over
from sharemesh.domain.share_partition.rules.hand_over import fault_in_locks, with_locks
from sharemesh.domain.state_batch import StateBatch
from tests.domain.share_partition.partition_machine import KEY

LOCK_MS = 30_000
NONE = ErrorCode.NONE
M1, M2 = MemberId("m1"), MemberId("m2")
P, THIEF = "User:p", "User:thief"
ACCEPT, RELEASE, RENEW = AcknowledgeType.ACCEPT, AcknowledgeType.RELEASE, AcknowledgeType.RENEW
AVAILABLE, ACQUIRED = DeliveryState.AVAILABLE, DeliveryState.ACQUIRED
ACKNOWLEDGED = DeliveryState.ACKNOWLEDGED


class Led:
    """A machine in one leader epoch over a log of as many records as are asked for."""

    def __init__(
        self,
        epoch=3,
        start=0,
        batches=(),
        locks=(),
        limit_type=InFlightLimitType.SPAN,
        tally_of=uncounted,
    ):
        config = GroupConfig(record_lock_duration_ms=LOCK_MS, in_flight_limit_type=limit_type)
        self.machine = SharePartition(KEY, epoch, config)
        self.now_ms = 5_000
        self.step(Initialize())
        self.step(StateRead(NONE, 1, start, tuple(batches), "", tuple(locks), tally_of))

    def step(self, event):
        effects = self.machine.step(event, now_ms=self.now_ms)
        self.machine.validate()
        return effects

    def acquire(self, last, member=M1):
        offset = self.machine.next_fetch_offset()
        batch = LogBatch(offset, last)
        taken = self.step(
            Acquire(1, member, AcquireMode.BATCH_OPTIMIZED, 500, 500, offset, (batch,))
        )
        return next(each.ranges for each in taken if isinstance(each, RecordsAcquired))

    def say(self, first, last, kind=ACCEPT, member=M1, acquired_in=0, error=NONE, of=P, **more):
        batch = AcknowledgementBatch(first, last, (kind,), **more)
        effects = self.step(Acknowledge(7, member, (batch,), 0.0, acquired_in, of))
        for write in [each for each in effects if isinstance(each, WriteState)]:
            effects += self.step(StateWritten(write.write_id, error))
        return next(each for each in effects if isinstance(each, Answered)).error

    def hand_over(self, goes_on=lambda _: P):
        writes = self.step(HandOver(goes_on))
        return writes[0].hand_over if writes else ()

    def states(self):
        return {
            (each.first_offset, each.last_offset): (each.state, each.member_id, each.delivery_count)
            for each in self.machine.record_states()
        }


def lock(first, last, member=M1, count=1, epoch=3, *, remaining_ms=LOCK_MS, left=0, of=P):
    return HandedLock(member, first, last, count, remaining_ms, epoch, 0, left, of)


def test_what_is_held_goes_with_the_last_write_and_its_time_hnd_5_hnd_6():
    led = Led()
    led.acquire(4)
    led.now_ms += 1_000
    led.acquire(9, M2)
    led.say(0, 1)
    led.now_ms += 500
    (write,) = led.step(HandOver(lambda _: P))
    assert [(each[:5], each.leader_epoch) for each in write.hand_over] == [
        (("m1", 2, 4, 1, LOCK_MS - 1_500), 3),
        (("m2", 5, 9, 1, LOCK_MS - 500), 3),
    ]
    assert (write.start_offset, write.batches, write.cause) == (2, (), Cause.LEADER_CHANGE)
    assert write.hand_over[0].hand_backs_left == 1_000


def test_who_does_not_follow_and_what_is_in_transition_or_over_stays_behind_hnd_5():
    led = Led()
    led.acquire(4)
    led.acquire(9, M2)
    assert list(led.machine.holders(lambda _: True)) == [M1, M2]
    assert list(led.machine.holders(lambda member: member == M2)) == [M2]
    led.step(Acknowledge(7, M1, (AcknowledgementBatch(0, 1, (ACCEPT,)),)))
    assert [each[:3] for each in led.hand_over(lambda member: P if member == M1 else "")] == [
        ("m1", 2, 4)
    ]
    led = Led()
    led.acquire(4)
    led.now_ms += LOCK_MS
    assert led.hand_over() == (), "its lock is over, though no tick came"
    led = Led()
    led.acquire(4)
    led.step(ReleaseMember(6, M1))
    assert list(led.machine.holders(lambda _: True)) == []


def test_what_lies_below_the_start_offset_is_not_handed_over_hnd_5():
    led = Led()
    led.acquire(4)
    led.step(LogStartMoved(3))
    assert [each[1:3] for each in led.hand_over()] == [(3, 4)]
    led = Led()
    led.acquire(4)
    led.acquire(9)
    led.step(LogStartMoved(7))
    assert [each[1:3] for each in led.hand_over()] == [(7, 9)]


def test_who_handed_over_decides_nothing_more_hnd_4():
    led = Led()
    led.acquire(4)
    assert led.hand_over()
    assert led.machine.state is Lifecycle.FENCED
    assert led.acquire(9) == ()
    assert led.say(0, 4) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    (answer,) = led.step(ReleaseMember(8, M1))
    assert answer.error is ErrorCode.NOT_LEADER_OR_FOLLOWER
    led.now_ms += 2 * LOCK_MS
    assert not any(isinstance(each, WriteState | LocksExpired) for each in led.step(Tick()))
    assert led.step(HandOver(lambda _: P)) == ()


def test_no_more_locks_go_than_the_bound_hnd_8(monkeypatch):
    monkeypatch.setattr(hand_over, "HANDED_LOCKS_MAX", 2)
    led = Led()
    for last in (4, 9, 14):
        led.acquire(last)
    assert [each[1:3] for each in led.hand_over()] == [(0, 4), (5, 9)]


def test_no_more_locks_go_than_fit_into_a_request_hnd_8(monkeypatch):
    monkeypatch.setattr(hand_over, "HANDED_BYTES_MAX", 2 * (64 + len(M1) + len(P)))
    led = Led()
    for last in (4, 9, 14):
        led.acquire(last)
    assert [each[1:3] for each in led.hand_over()] == [(0, 4), (5, 9)]


@pytest.mark.parametrize("limit_type", list(InFlightLimitType))
def test_the_next_leader_goes_on_with_them_hnd_7(limit_type):
    old = Led(limit_type=limit_type)
    old.acquire(4)
    old.acquire(9, M2)
    old.say(0, 1)
    old.now_ms += 10_000
    locks = old.hand_over()
    new = Led(4, start=2, locks=locks, limit_type=limit_type)
    assert new.states() == {(2, 4): (ACQUIRED, "m1", 1), (5, 9): (ACQUIRED, "m2", 1)}
    assert (new.machine.held_count, new.machine.next_fetch_offset()) == (8, 10)
    assert new.acquire(12, M2) == ((10, 12, 1),)
    assert new.say(2, 4, acquired_in=3) is NONE
    assert new.machine.start_offset == 5
    new.now_ms += LOCK_MS - 10_000 - 1
    assert not any(isinstance(each, LocksExpired) for each in new.step(Tick()))
    new.now_ms += 1
    assert LocksExpired in [type(each) for each in new.step(Tick())]
    assert new.states()[5, 9] == (AVAILABLE, "", 1)
    assert new.say(5, 9, member=M2, acquired_in=3) is ErrorCode.INVALID_RECORD_STATE
    assert new.acquire(9, M1) == ((5, 9, 2),)


def test_an_acknowledgement_is_of_the_epoch_of_its_lock_hnd_10():
    new = Led(4, locks=[lock(0, 4)])
    new.acquire(9)
    assert new.say(0, 4) is ErrorCode.INVALID_RECORD_STATE
    assert new.say(0, 4, acquired_in=2) is ErrorCode.INVALID_RECORD_STATE
    assert new.say(0, 9, acquired_in=3) is ErrorCode.INVALID_RECORD_STATE, "all or nothing"
    assert new.say(0, 4, member=M2, acquired_in=3) is ErrorCode.INVALID_RECORD_STATE
    assert new.say(0, 4, acquired_in=3) is NONE
    assert new.say(0, 4, acquired_in=3) is ErrorCode.INVALID_RECORD_STATE, "once"
    assert new.say(5, 9) is NONE


def test_a_renewed_lock_stays_of_its_epoch_and_goes_on_hnd_10():
    new = Led(4, locks=[lock(0, 4, remaining_ms=10)])
    assert new.say(0, 4, RENEW, acquired_in=3) is NONE
    assert new.say(0, 1, acquired_in=3) is NONE, "a part of it, too"
    new.now_ms += LOCK_MS - 1
    (again,) = new.hand_over()
    assert (again.first_offset, again.leader_epoch, again.remaining_ms) == (2, 3, 1)
    third = Led(5, start=2, locks=[again])
    assert third.say(2, 4, acquired_in=4) is ErrorCode.INVALID_RECORD_STATE
    assert third.say(2, 4, acquired_in=3) is NONE


def test_uncounted_releases_are_counted_on_hnd_5():
    new = Led(4, locks=[lock(0, 4, count=2, left=1), lock(5, 9, left=0)])
    assert new.say(0, 4, RELEASE, acquired_in=3, uncounted=True) is NONE
    assert new.say(5, 9, RELEASE, acquired_in=3, uncounted=True) is NONE
    assert new.states() == {(0, 4): (AVAILABLE, "", 1), (5, 9): (AVAILABLE, "", 1)}


def test_what_the_durable_state_says_since_stands_hnd_7():
    stored = [
        StateBatch(2, 3, ACKNOWLEDGED, 1),
        StateBatch(4, 5, AVAILABLE, 2),
        StateBatch(6, 7, AVAILABLE, 1),
        StateBatch(12, 12, ACKNOWLEDGED, 1),
    ]
    new = Led(4, start=1, batches=stored, locks=[lock(0, 0), lock(1, 8), lock(11, 13, M2)])
    assert new.states() == {
        (1, 1): (ACQUIRED, "m1", 1),
        (2, 3): (ACKNOWLEDGED, "", 1),
        (4, 5): (AVAILABLE, "", 2),
        (6, 7): (ACQUIRED, "m1", 1),
        (8, 8): (ACQUIRED, "m1", 1),
        (11, 11): (ACQUIRED, "m2", 1),
        (12, 12): (ACKNOWLEDGED, "", 1),
        (13, 13): (ACQUIRED, "m2", 1),
    }
    assert new.machine.gap_window == (9, 13)


def test_the_state_is_cut_where_locks_begin_and_end_hnd_7():
    batches = (StateBatch(0, 9, AVAILABLE, 1), StateBatch(20, 29, AVAILABLE, 1))
    found = with_locks(batches, [lock(3, 4), lock(8, 22), lock(29, 31)], 0)
    assert [(first, last, type(piece)) for first, last, piece in found] == [
        (0, 2, StateBatch),
        (3, 4, HandedLock),
        (5, 7, StateBatch),
        (8, 9, HandedLock),
        (10, 19, HandedLock),
        (20, 22, HandedLock),
        (23, 28, StateBatch),
        (29, 29, HandedLock),
        (30, 31, HandedLock),
    ]
    found = with_locks(batches[:1], [lock(0, 1)], 0)
    assert [each[:2] for each in found] == [(0, 1), (2, 9)]


@pytest.mark.parametrize(
    "locks",
    [
        [lock(4, 3)],
        [lock(0, 4), lock(4, 5)],
        [lock(0, 4, member=MemberId(""))],
        [lock(0, 4, of="")],
        [lock(0, 4, count=0)],
        [lock(0, 4, remaining_ms=-1)],
        [lock(0, 4, epoch=0)],
        [lock(0, 4, epoch=4)],
    ],
)
def test_locks_that_cannot_be_are_told_hnd_7(locks):
    assert fault_in_locks(locks, 4)
    assert fault_in_locks([lock(0, 4), lock(5, 5)], 4) is None


def test_below_the_start_offset_nothing_of_before_is_taken_for_success_hnd_10():
    new = Led(4, locks=[lock(0, 4)])
    new.say(0, 1, acquired_in=3)
    assert new.machine.start_offset == 2
    assert new.say(0, 1, acquired_in=3) is ErrorCode.INVALID_RECORD_STATE


def test_a_lock_is_the_principal_s_who_had_it_hnd_10():
    new = Led(4, locks=[lock(0, 4), lock(5, 9)])
    new.acquire(14)
    assert new.say(0, 4, acquired_in=3, of=THIEF) is ErrorCode.INVALID_RECORD_STATE
    assert new.say(0, 4, RENEW, acquired_in=3, of=THIEF) is ErrorCode.INVALID_RECORD_STATE
    assert new.say(0, 4, RENEW, acquired_in=3) is NONE
    assert new.say(0, 4, acquired_in=3, of=THIEF) is ErrorCode.INVALID_RECORD_STATE, "still"
    new.step(ReleaseMember(8, M1, THIEF))
    assert [new.states()[at][0] for at in ((0, 4), (5, 9))] == [ACQUIRED, ACQUIRED]
    assert new.states()[10, 14][0] is AVAILABLE, "what the other session acquired itself"
    new.step(ReleaseMember(9, M1, P))
    assert {state for state, _, _ in new.states().values()} == {AVAILABLE}


def test_a_lock_goes_on_only_with_a_session_of_its_principal_hnd_10():
    new = Led(4, locks=[lock(0, 4), lock(5, 9, of=THIEF)])
    assert [each[1:3] for each in new.hand_over()] == [(0, 4)]


@pytest.mark.parametrize("limit_type", list(InFlightLimitType))
def test_locks_that_come_count_for_the_quota_of_their_principal_quo_12(limit_type):
    freed = []
    tallies = {P: HeldRecords(P, freed.append)}
    new = Led(
        4, locks=[lock(0, 4), lock(5, 9, of=THIEF)], limit_type=limit_type, tally_of=tallies.get
    )
    assert tallies[P].count == 5
    new.say(0, 1, acquired_in=3)
    assert tallies[P].count == 3
    tallies[P].is_awaited = True
    new.hand_over()
    assert (tallies[P].count, freed) == (0, [P])


def test_nobody_is_stalled_for_a_lock_that_was_handed_over_hbk_10():
    led = Led(4, locks=(lock(0, 2),))
    led.acquire(5, M2)
    led.now_ms += LOCK_MS
    expired = next(each for each in led.step(Tick()) if isinstance(each, LocksExpired))
    assert expired == LocksExpired(6, (Lapse(M2, 5_000),))
