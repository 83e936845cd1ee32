"""What expired locks left is written again until it is stored (spec LK-6, RS-11)."""

from sharemesh.domain.delivery_state import AcknowledgeType, Cause, DeliveryState
from sharemesh.domain.errors import ErrorCode
from sharemesh.domain.group_config import GroupConfig, InFlightLimitType
from sharemesh.domain.ids import MemberId
from sharemesh.domain.share_partition.effects import WriteState
from sharemesh.domain.share_partition.events import (
    Acknowledge,
    AcknowledgementBatch,
    Acquire,
    AcquireMode,
    Initialize,
    LogBatch,
    StateRead,
    StateWritten,
    Tick,
    WriteAgain,
)
from sharemesh.domain.share_partition.machine import SharePartition
from sharemesh.domain.share_state.checks import MAX_BATCHES
from sharemesh.domain.state_batch import StateBatch
from tests.domain.share_partition.partition_machine import KEY

LIMIT = 2
LOCK_MS = 30_000
AWAY = ErrorCode.COORDINATOR_NOT_AVAILABLE
M1 = MemberId("m1")


class Driven:
    """A machine that leads ten records."""

    def __init__(self):
        config = GroupConfig(record_lock_duration_ms=LOCK_MS, delivery_count_limit=LIMIT)
        self.machine = SharePartition(KEY, 3, config)
        self.now_ms = 0
        self.step(Initialize())
        self.step(StateRead(ErrorCode.NONE, state_epoch=1, start_offset=0))

    def step(self, event):
        return self.machine.step(event, now_ms=self.now_ms)

    def acquire(self):
        offset = self.machine.next_fetch_offset()
        batch = LogBatch(offset, 9)
        self.step(Acquire(1, M1, AcquireMode.BATCH_OPTIMIZED, 500, 500, offset, (batch,)))

    def expire(self):
        self.now_ms += LOCK_MS
        return self.writes(Tick())

    def unwritten_cause(self, offset):
        return self.machine.unwritten_cause(self.machine.state_at(offset))

    def writes(self, event):
        return [each for each in self.step(event) if isinstance(each, WriteState)]


def test_a_failed_write_of_expired_locks_is_written_again():
    driven = Driven()
    driven.acquire()
    (write,) = driven.expire()
    driven.step(StateWritten(write.write_id, AWAY))
    assert driven.machine.is_behind
    (again,) = driven.writes(WriteAgain())
    assert again.batches == write.batches == (StateBatch(0, 9, DeliveryState.AVAILABLE, 1),)
    assert (again.start_offset, again.state_epoch, again.leader_epoch) == (0, 1, 3)
    assert not driven.machine.is_behind
    driven.step(StateWritten(again.write_id))
    driven.machine.validate()
    assert driven.writes(WriteAgain()) == []


def test_what_the_limit_archived_is_told_to_the_store_with_the_start_offset_behind_it():
    driven = Driven()
    for _ in range(LIMIT):
        driven.acquire()
        (write,) = driven.expire()
        driven.step(StateWritten(write.write_id, AWAY))
    assert driven.machine.start_offset == 10
    (again,) = driven.writes(WriteAgain())
    assert (again.start_offset, again.delivery_complete_count) == (10, 0)
    assert again.batches == (StateBatch(0, 9, DeliveryState.ARCHIVED, LIMIT),)
    assert [batch.cause for batch in again.batches] == [Cause.DELIVERY_LIMIT]
    driven.step(StateWritten(again.write_id, AWAY))
    (third,) = driven.writes(WriteAgain())
    assert third.batches == again.batches


def test_it_is_known_why_until_it_is_written_again():
    driven = Driven()
    for _ in range(LIMIT):
        driven.acquire()
        accept = AcknowledgementBatch(0, 4, (AcknowledgeType.ACCEPT,))
        (acknowledging,) = driven.writes(Acknowledge(2, M1, (accept,)))
        (expired,) = driven.expire()
        driven.step(StateWritten(expired.write_id))
        driven.step(StateWritten(acknowledging.write_id, AWAY))
    assert driven.unwritten_cause(0) is Cause.DELIVERY_LIMIT
    assert driven.unwritten_cause(5) is Cause.UNSPECIFIED
    driven.writes(WriteAgain())
    assert driven.unwritten_cause(0) is Cause.UNSPECIFIED


def test_what_has_changed_since_an_unwritten_change_says_itself_why():
    """EXP-6: a record whose lock had ended, delivered again and rejected, is REJECTED."""
    driven = Driven()
    driven.acquire()
    (expired,) = driven.expire()
    driven.step(StateWritten(expired.write_id, AWAY))
    assert driven.unwritten_cause(3) is Cause.LOCK_EXPIRY
    driven.acquire()
    reject = AcknowledgementBatch(3, 3, (AcknowledgeType.REJECT,))
    (rejecting,) = driven.writes(Acknowledge(2, M1, (reject,)))
    driven.step(StateWritten(rejecting.write_id))
    assert driven.machine.is_behind
    assert driven.unwritten_cause(3) is Cause.UNSPECIFIED


def test_a_write_that_fails_again_is_still_due():
    driven = Driven()
    driven.acquire()
    (write,) = driven.expire()
    for _ in range(3):
        driven.step(StateWritten(write.write_id, AWAY))
        assert driven.machine.is_behind
        (write,) = driven.writes(WriteAgain())
    assert write.batches == (StateBatch(0, 9, DeliveryState.AVAILABLE, 1),)


def test_what_was_acquired_again_is_written_as_it_was_before():
    driven = Driven()
    driven.acquire()
    (write,) = driven.expire()
    driven.step(StateWritten(write.write_id, AWAY))
    driven.acquire()
    (again,) = driven.writes(WriteAgain())
    assert again.batches == (StateBatch(0, 9, DeliveryState.AVAILABLE, 1),)
    assert [batch.cause for batch in again.batches] == [Cause.LOCK_EXPIRY]


def test_what_was_acquired_again_and_lost_again_is_left_to_the_write_of_that():
    driven = Driven()
    driven.acquire()
    (write,) = driven.expire()
    driven.step(StateWritten(write.write_id, AWAY))
    driven.acquire()
    (second,) = driven.expire()
    assert second.batches == (StateBatch(0, 9, DeliveryState.ARCHIVED, 2),)
    (again,) = driven.writes(WriteAgain())
    assert again.batches == ()


def test_a_lock_that_fired_while_a_failing_acknowledgement_was_written_is_written_too():
    driven = Driven()
    driven.acquire()
    accept = AcknowledgementBatch(0, 4, (AcknowledgeType.ACCEPT,))
    (acknowledging,) = driven.writes(Acknowledge(2, M1, (accept,)))
    (expired,) = driven.expire()
    driven.step(StateWritten(expired.write_id))
    driven.step(StateWritten(acknowledging.write_id, AWAY))
    assert driven.machine.is_behind
    (again,) = driven.writes(WriteAgain())
    assert again.batches == (StateBatch(0, 4, DeliveryState.AVAILABLE, 1),)
    assert [batch.cause for batch in again.batches] == [Cause.LOCK_EXPIRY]


def test_what_was_rejected_since_keeps_its_own_cause():
    driven = Driven()
    driven.acquire()
    (write,) = driven.expire()
    driven.step(StateWritten(write.write_id, AWAY))
    driven.acquire()
    reject = AcknowledgementBatch(3, 5, (AcknowledgeType.REJECT,))
    (rejecting,) = driven.writes(Acknowledge(2, M1, (reject,)))
    driven.step(StateWritten(rejecting.write_id))
    (again,) = driven.writes(WriteAgain())
    available = DeliveryState.AVAILABLE
    assert again.batches == (StateBatch(0, 2, available, 1), StateBatch(6, 9, available, 1))


def test_lk_6_what_many_ended_locks_left_is_written_in_parts_that_a_coordinator_takes():
    """LK-6, WIN-13: a long outage under many delays leaves more runs than a write has."""
    stored = tuple(StateBatch(2 * n, 2 * n, DeliveryState.AVAILABLE, 1) for n in range(25_000))
    machine = SharePartition(KEY, 3, GroupConfig(in_flight_limit_type=InFlightLimitType.LOCKS))
    machine.step(Initialize(), now_ms=0)
    machine.step(StateRead(ErrorCode.NONE, 1, 0, stored), now_ms=0)
    machine._unwritten = [(*each[:4], Cause.LOCK_EXPIRY, 0, 0) for each in stored]
    writes = machine.step(WriteAgain(), now_ms=1)
    assert all(len(each.batches) <= MAX_BATCHES // 2 for each in writes)
    assert tuple(batch for each in writes for batch in each.batches) == stored
    assert not machine.is_behind
    machine.step(StateWritten(writes[1].write_id, AWAY), now_ms=2)
    machine.step(StateWritten(writes[0].write_id), now_ms=2)
    (again,) = (each for each in machine.step(WriteAgain(), now_ms=3))
    assert again.batches == writes[1].batches
    machine.validate()
