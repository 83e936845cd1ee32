"""A release of records that no application has seen does not count their delivery (HBK-1..10)."""

import pytest

from sharemesh.domain.delivery_state import AcknowledgeType, DeliveryState
from sharemesh.domain.errors import ErrorCode
from sharemesh.domain.group_config import GroupConfig
from sharemesh.domain.ids import MemberId
from sharemesh.domain.share_partition.cache.record_status import HAND_BACKS_MAX
from sharemesh.domain.share_partition.effects import (
    AcquiredRun,
    Answered,
    Lapse,
    LocksExpired,
    RecordsAcquired,
    WakeWaiters,
    WriteState,
)
from sharemesh.domain.share_partition.events import (
    Acknowledge,
    AcknowledgementBatch,
    Acquire,
    AcquireMode,
    Initialize,
    LogBatch,
    LogStartMoved,
    ReleaseMember,
    StateRead,
    StateWritten,
    Tick,
    WriteAgain,
)
from sharemesh.domain.share_partition.machine import SharePartition
from sharemesh.domain.state_batch import StateBatch
from tests.domain.share_partition.partition_machine import KEY

LIMIT = 3
LOCK_MS = 30_000
AWAY = ErrorCode.COORDINATOR_NOT_AVAILABLE
NONE = ErrorCode.NONE
M1, M2 = MemberId("m1"), MemberId("m2")
ACCEPT, RELEASE, REJECT, RENEW = (
    AcknowledgeType.ACCEPT,
    AcknowledgeType.RELEASE,
    AcknowledgeType.REJECT,
    AcknowledgeType.RENEW,
)
AVAILABLE = DeliveryState.AVAILABLE
ACQUIRED = DeliveryState.ACQUIRED
ARCHIVED = DeliveryState.ARCHIVED


class Driven:
    """A machine that leads ten records; what a step asks for lies in ``effects``."""

    def __init__(self):
        config = GroupConfig(record_lock_duration_ms=LOCK_MS, delivery_count_limit=LIMIT)
        self.machine = SharePartition(KEY, 3, config)
        self.now_ms = 0
        self.step(Initialize())
        self.step(StateRead(NONE, state_epoch=1, start_offset=0))

    def step(self, event):
        self.effects = self.machine.step(event, now_ms=self.now_ms)
        self.machine.validate()
        return self.effects

    def acquire(self, member=M1):
        offset = self.machine.next_fetch_offset()
        batch = LogBatch(offset, 9)
        self.step(Acquire(1, member, AcquireMode.BATCH_OPTIMIZED, 500, 500, offset, (batch,)))
        return next(each.ranges for each in self.effects if isinstance(each, RecordsAcquired))

    def say(self, *batches, member=M1):
        """Acknowledge; return the answer, or None if it waits for a write."""
        self.step(Acknowledge(7, member, batches))
        return next((each.error for each in self.effects if isinstance(each, Answered)), None)

    def hand_back(self, first=0, last=9, member=M1):
        return self.say(
            AcknowledgementBatch(first, last, (RELEASE,), uncounted=True), member=member
        )

    @property
    def writes(self):
        return [each for each in self.effects if isinstance(each, WriteState)]

    def written(self, error=NONE):
        (write,) = self.writes
        self.step(StateWritten(write.write_id, error))

    def at(self, offset):
        view = self.machine.state_at(offset)
        return view.state, view.delivery_count, view.member_id


def test_an_uncounted_release_gives_the_count_of_before_and_writes_nothing():
    driven = Driven()
    driven.acquire()
    assert driven.hand_back() is NONE
    assert driven.writes == []
    assert WakeWaiters() in driven.effects
    assert driven.at(0) == (AVAILABLE, 0, "")
    assert driven.machine.lock_count == 0
    assert driven.acquire(M2) == (AcquiredRun(0, 9, 1),)


def test_a_late_release_of_an_earlier_delivery_leaves_the_next_one_to_its_application():
    driven = Driven()
    driven.acquire()
    driven.now_ms += LOCK_MS
    driven.step(Tick())  # M1 was frozen: its locks end, which counts (LK-6)
    driven.acquire()  # the same member gets them again
    late = AcknowledgementBatch(0, 9, (RELEASE,), uncounted=True, delivery_count=1)
    assert driven.say(late) is ErrorCode.INVALID_RECORD_STATE  # spec HBK-7
    assert driven.at(0) == (ACQUIRED, 2, M1)
    this = AcknowledgementBatch(0, 9, (RELEASE,), uncounted=True, delivery_count=2)
    assert driven.say(this) is NONE
    assert driven.at(0) == (AVAILABLE, 1, "")


def test_a_part_of_a_batch_can_be_handed_back():
    driven = Driven()
    driven.acquire()
    assert driven.hand_back(3, 5) is NONE
    assert [driven.at(offset)[:2] for offset in (2, 3, 5, 6)] == [
        (ACQUIRED, 1),
        (AVAILABLE, 0),
        (AVAILABLE, 0),
        (ACQUIRED, 1),
    ]


def test_at_the_delivery_limit_an_uncounted_release_does_not_archive():
    driven = Driven()
    for _ in range(LIMIT - 1):
        driven.acquire()
        driven.say(AcknowledgementBatch(0, 9, (RELEASE,)))
        driven.written()
    assert driven.acquire() == (AcquiredRun(0, 0, LIMIT),)  # THR-5: a suspicious one goes alone
    assert driven.hand_back(0, 0) is NONE
    assert driven.at(0) == (AVAILABLE, LIMIT - 1, "")
    driven.acquire()
    assert driven.say(AcknowledgementBatch(0, 0, (RELEASE,))) is None
    assert driven.at(0)[:2] == (ARCHIVED, LIMIT)


@pytest.mark.parametrize(
    "types", [(ACCEPT,), (REJECT,), (RENEW,), (AcknowledgeType.GAP,), (RELEASE,) * 10, ()]
)
def test_it_needs_the_one_type_release(types):
    driven = Driven()
    driven.acquire()
    batch = AcknowledgementBatch(0, 9, types, uncounted=True)
    assert driven.say(batch) is ErrorCode.INVALID_REQUEST
    assert driven.at(0) == (ACQUIRED, 1, M1)


def test_only_the_holder_may_hand_back():
    driven = Driven()
    driven.acquire()
    assert driven.hand_back(member=M2) is ErrorCode.INVALID_RECORD_STATE
    driven.hand_back()
    driven.acquire(M2)
    assert driven.hand_back() is ErrorCode.INVALID_RECORD_STATE, "a copy that comes late"
    assert driven.at(0) == (ACQUIRED, 1, M2)


def test_after_its_lock_nothing_can_be_handed_back():
    driven = Driven()
    driven.acquire()
    driven.now_ms = LOCK_MS
    driven.step(Tick())
    assert driven.hand_back() is ErrorCode.INVALID_RECORD_STATE
    assert driven.at(0) == (AVAILABLE, 1, "")


def test_it_is_all_or_nothing_with_what_is_refused_beside_it():
    driven = Driven()
    driven.acquire()
    answer = driven.say(
        AcknowledgementBatch(0, 4, (RELEASE,), uncounted=True),
        AcknowledgementBatch(3, 9, (ACCEPT,)),
    )
    assert answer is ErrorCode.INVALID_RECORD_STATE
    assert driven.at(0) == driven.at(9) == (ACQUIRED, 1, M1)
    assert driven.machine.next_deadline_ms == LOCK_MS


def test_beside_an_acceptance_it_takes_effect_with_the_write_which_says_nothing_of_it():
    driven = Driven()
    driven.acquire()
    beside = (
        AcknowledgementBatch(0, 4, (ACCEPT,)),
        AcknowledgementBatch(5, 9, (RELEASE,), uncounted=True),
    )
    assert driven.say(*beside) is None
    (write,) = driven.writes
    assert write.batches == (StateBatch(0, 4, DeliveryState.ACKNOWLEDGED, 1),)
    driven.written(AWAY)
    assert driven.at(5) == (ACQUIRED, 1, M1)
    assert driven.hand_back(5, 9) is NONE, "no write of its count was begun"
    assert driven.at(5) == (AVAILABLE, 0, "")


def test_what_was_handed_back_with_a_failed_write_after_its_lock_ended_is_an_expired_lock():
    driven = Driven()
    driven.acquire()
    driven.say(
        AcknowledgementBatch(0, 4, (ACCEPT,)),
        AcknowledgementBatch(5, 9, (RELEASE,), uncounted=True),
    )
    (write,) = driven.writes
    driven.now_ms = LOCK_MS
    driven.step(Tick())
    driven.step(StateWritten(write.write_id, AWAY))
    assert driven.at(0) == driven.at(5) == (AVAILABLE, 1, "")
    driven.step(WriteAgain())
    assert driven.writes[0].batches == (StateBatch(0, 9, AVAILABLE, 1),)


@pytest.mark.parametrize("said", [ACCEPT, REJECT, RELEASE])
def test_after_a_write_of_its_count_that_failed_a_release_counts(said):
    driven = Driven()
    driven.acquire()
    driven.say(AcknowledgementBatch(0, 9, (said,)))
    driven.written(AWAY)
    assert driven.at(0) == (ACQUIRED, 1, M1)
    assert driven.hand_back() is None, "it waits for its write"
    assert driven.writes[0].batches == (StateBatch(0, 9, AVAILABLE, 1),)
    driven.written()
    driven.acquire()
    assert driven.hand_back() is NONE, "the next acquisition is a new one"
    assert driven.at(0) == (AVAILABLE, 1, "")


def test_after_a_release_of_the_session_that_failed_a_release_counts():
    driven = Driven()
    driven.acquire()
    driven.step(ReleaseMember(2, M1))
    driven.written(AWAY)
    assert driven.hand_back() is None
    assert driven.at(0)[:2] == (AVAILABLE, 1)


def test_a_refused_request_does_not_make_a_release_count():
    driven = Driven()
    driven.acquire()
    driven.say(AcknowledgementBatch(0, 4, (ACCEPT,)), AcknowledgementBatch(0, 4, (ACCEPT,)))
    assert driven.hand_back() is NONE
    assert driven.at(0) == (AVAILABLE, 0, "")


def test_a_renewed_record_can_be_handed_back():
    driven = Driven()
    driven.acquire()
    driven.say(AcknowledgementBatch(0, 9, (RENEW,)))
    assert driven.hand_back() is NONE
    assert driven.at(0) == (AVAILABLE, 0, "")


def test_a_record_does_not_circle_for_ever():
    driven = Driven()
    for _ in range(HAND_BACKS_MAX):
        assert driven.acquire() == (AcquiredRun(0, 9, 1),)
        assert driven.hand_back() is NONE
    driven.acquire()
    assert driven.hand_back() is None, "this one counts, and is written"
    driven.written()
    assert driven.at(0) == (AVAILABLE, 1, "")
    driven.acquire()
    assert driven.hand_back() is NONE, "and the count of them begins again"
    assert driven.at(0) == (AVAILABLE, 1, "")


def test_neither_a_renewal_nor_a_split_forgets_how_often_a_record_came_back():
    driven = Driven()
    for _ in range(HAND_BACKS_MAX - 1):
        driven.acquire()
        driven.hand_back()
    driven.acquire()
    driven.say(AcknowledgementBatch(0, 9, (RENEW,)))
    assert driven.hand_back(0, 3) is NONE
    assert driven.hand_back(4, 9) is NONE
    driven.acquire()
    assert driven.hand_back(2, 2) is None


def test_what_lies_below_the_start_offset_is_passed_over_and_archived_at_the_end_of_its_lock():
    driven = Driven()
    driven.acquire()
    driven.step(LogStartMoved(5))
    assert driven.hand_back() is NONE
    assert [driven.at(offset)[:2] for offset in (4, 5)] == [(ACQUIRED, 1), (AVAILABLE, 0)]
    driven.now_ms = LOCK_MS
    driven.step(Tick())
    assert driven.at(4)[:2] == (ARCHIVED, 1)


def test_what_an_expired_lock_left_unwritten_is_written_though_the_record_was_acquired_again():
    driven = Driven()
    driven.acquire()
    driven.now_ms = LOCK_MS
    driven.step(Tick())
    driven.written(AWAY)
    driven.acquire()
    driven.step(WriteAgain())
    assert driven.writes[0].batches == (StateBatch(0, 9, AVAILABLE, 1),)
    assert driven.at(0) == (ACQUIRED, 2, M1)
    driven.written()
    assert driven.hand_back() is NONE
    assert driven.at(0) == (AVAILABLE, 1, ""), "as it is stored"


def test_what_an_expired_lock_left_unwritten_is_written_while_the_record_is_being_handed_back():
    driven = Driven()
    driven.acquire()
    driven.now_ms = LOCK_MS
    driven.step(Tick())
    driven.written(AWAY)
    driven.acquire()
    driven.say(
        AcknowledgementBatch(0, 4, (ACCEPT,)),
        AcknowledgementBatch(5, 9, (RELEASE,), uncounted=True),
    )
    (beside,) = driven.writes
    driven.step(WriteAgain())
    assert driven.writes[0].batches == (StateBatch(5, 9, AVAILABLE, 1),)
    driven.written()
    driven.step(StateWritten(beside.write_id))
    assert driven.at(5) == (AVAILABLE, 1, ""), "as it is stored"


def test_the_end_of_a_lock_says_whose_it_was_and_since_when():
    driven = Driven()
    driven.now_ms = 500
    driven.acquire()
    driven.say(AcknowledgementBatch(0, 4, (RENEW,)))
    driven.now_ms = 800
    driven.say(AcknowledgementBatch(0, 1, (RENEW,)))
    driven.say(AcknowledgementBatch(8, 9, (ACCEPT,)))
    driven.now_ms = 500 + LOCK_MS
    driven.step(Tick())
    assert LocksExpired(6, (Lapse(M1, 500),)) in driven.effects
    driven.now_ms = 800 + LOCK_MS
    driven.step(Tick())
    assert LocksExpired(2, (Lapse(M1, 800),)) in driven.effects


def test_each_member_whose_lock_ended_is_named_once():
    driven = Driven()
    driven.acquire()
    driven.hand_back(0, 3)
    driven.now_ms = 100
    driven.acquire(M2)
    driven.now_ms = 100 + LOCK_MS
    driven.step(Tick())
    assert LocksExpired(10, (Lapse(M1, 0), Lapse(M2, 100))) in driven.effects
