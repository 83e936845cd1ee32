"""Events that come when nobody waits for them any more, and states that cannot be loaded."""

import pytest

from sharemesh.domain.delivery_state import AcknowledgeType, DeliveryState
from sharemesh.domain.errors import ErrorCode
from sharemesh.domain.group_config import GroupConfig, InFlightLimitType
from sharemesh.domain.ids import MemberId
from sharemesh.domain.share_partition.cache.indexes import (
    STALE_BATCHES_KEPT,
    STALE_OFFSETS_KEPT,
    AvailableOffsets,
    Holders,
)
from sharemesh.domain.share_partition.cache.record_status import RecordStatus
from sharemesh.domain.share_partition.effects import (
    Initialized,
    ReadState,
    RecordsAcquired,
    WriteState,
)
from sharemesh.domain.share_partition.events import (
    Acknowledge,
    AcknowledgementBatch,
    Acquire,
    AcquireMode,
    Initialize,
    LogBatch,
    LogHole,
    LogStartMoved,
    NothingAcquired,
    StartOffsetResolved,
    StateRead,
    StateWritten,
    Tick,
)
from sharemesh.domain.share_partition.machine import SharePartition
from sharemesh.domain.state_batch import StateBatch
from tests.domain.share_partition.partition_machine import KEY
from tests.domain.share_partition.test_locks import LOCK_MS, M1, M2, Locked

BATCH = StateBatch(0, 4, DeliveryState.AVAILABLE, 1)


@pytest.fixture
def machine():
    return SharePartition(KEY, 0, GroupConfig())


def fetch(member, first, last):
    batch = LogBatch(first, last)
    return Acquire(1, member, AcquireMode.BATCH_OPTIMIZED, 500, 500, first, (batch,))


def accept(member, first, last):
    return Acknowledge(1, member, (AcknowledgementBatch(first, last, (AcknowledgeType.ACCEPT,)),))


def step(machine, event):
    effects = machine.step(event, now_ms=0)
    machine.validate()
    return effects


def initialized(effects):
    return next(effect.error for effect in effects if isinstance(effect, Initialized))


def test_what_nobody_waits_for_changes_nothing(machine):
    for event in (
        StateRead(ErrorCode.NONE, state_epoch=1, start_offset=5),
        StartOffsetResolved(5),
        LogStartMoved(5),
        LogHole(0, 4),
        NothingAcquired(),
    ):
        assert not step(machine, event)
    (effect,) = step(machine, Initialize())
    assert isinstance(effect, ReadState)


def test_a_share_partition_is_initialized_once(machine):
    step(machine, Initialize())
    assert not step(machine, Initialize())
    step(machine, StateRead(ErrorCode.NONE, state_epoch=1, start_offset=5))
    assert initialized(step(machine, Initialize())) is ErrorCode.NONE
    assert machine.pending_write_count == 0


@pytest.mark.parametrize(
    ("start_offset", "batch"),
    [
        (-1, BATCH),  # batches without a start offset
        (0, BATCH._replace(delivery_state=DeliveryState.ACQUIRED)),  # never stored (INI-7)
        (3, BATCH),  # begins before the start offset
    ],
)
def test_a_stored_state_that_makes_no_sense_fails_the_share_partition(machine, start_offset, batch):
    step(machine, Initialize())
    read = StateRead(ErrorCode.NONE, state_epoch=1, start_offset=start_offset, batches=(batch,))
    assert initialized(step(machine, read)) is ErrorCode.UNKNOWN_SERVER_ERROR


def test_records_around_one_that_was_renewed_before_are_renewed_together():
    locked = Locked()
    locked.acquire(M1, 0, 4)
    locked.now_ms = LOCK_MS // 3
    locked.acknowledge(M1, 2, 2, AcknowledgeType.RENEW)
    locked.now_ms = LOCK_MS // 2
    locked.acknowledge(M1, 0, 4, AcknowledgeType.RENEW)
    deadlines = {locked.machine.state_at(offset).lock_deadline_ms for offset in range(5)}
    assert deadlines == {LOCK_MS + LOCK_MS // 2}
    assert locked.machine.lock_count == 2  # one for what was locked first, one for offset 2


def test_holes_that_the_log_lost_leave_the_window_while_all_locks_are_taken():
    held = 100
    config = GroupConfig(
        partition_max_record_locks=held, in_flight_limit_type=InFlightLimitType.SPAN
    )
    machine = SharePartition(KEY, 0, config)
    step(machine, Initialize())
    end = held + 10
    batches = (
        StateBatch(0, held - 1, DeliveryState.AVAILABLE, 1),
        StateBatch(end - 5, end - 1, DeliveryState.ACKNOWLEDGED, 1),
    )
    step(machine, StateRead(ErrorCode.NONE, state_epoch=1, start_offset=0, batches=batches))
    assert machine.gap_window == (held, end - 1)
    step(machine, fetch(M1, 0, held - 1))
    compacted = fetch(M2, held, end + 5)._replace(log_batches=(LogBatch(end, end + 5),))
    assert step(machine, LogHole(held, end - 1)) == ()  # OFF-23: what the read has shown
    assert machine.gap_window is None
    (effect,) = step(machine, compacted)
    assert effect.ranges == ()


def test_offsets_that_were_taken_since_leave_the_heap_of_available_ones():
    statuses = {}
    available = RecordStatus(DeliveryState.AVAILABLE, 1, MemberId(""), None)
    offsets = AvailableOffsets()
    for offset in range(2 * STALE_OFFSETS_KEPT):
        offsets.add(offset)
    last = 2 * STALE_OFFSETS_KEPT - 1
    statuses[last] = available
    assert offsets.first(statuses.get) == last
    assert len(offsets._offsets) == 1
    assert offsets.first({}.get) is None


def test_batches_that_left_the_cache_leave_the_index_of_holders():
    holders = Holders()
    for first in range(STALE_BATCHES_KEPT - 1):
        holders.add(M1, first, lambda _: True)
        holders.add(M1, first, lambda _: True)  # noted once
    assert len(holders.batches_of(M1)) == STALE_BATCHES_KEPT - 1
    holders.add(M2, STALE_BATCHES_KEPT, lambda first: first >= STALE_BATCHES_KEPT)
    assert holders.batches_of(M1) == []
    assert holders.batches_of(M2) == [STALE_BATCHES_KEPT]


def hand_back(locked, *ranges):
    batches = (
        AcknowledgementBatch(*each, (AcknowledgeType.RELEASE,), uncounted=True) for each in ranges
    )
    return locked.step(Acknowledge(1, M1, tuple(batches)))


def test_two_ranges_of_one_lock_are_handed_back_together():
    locked = Locked()
    locked.acquire(M1, 0, 9)
    hand_back(locked, (0, 2), (5, 7))
    counts = [locked.machine.state_at(offset).delivery_count for offset in (0, 3, 5, 8)]
    assert counts == [0, 1, 0, 1]


def test_neighbours_with_one_count_are_acquired_as_one_range_whatever_was_before():
    locked = Locked()
    locked.acquire(M1, 0, 9)
    hand_back(locked, (0, 4))
    locked.acknowledge(M1, 5, 9, AcknowledgeType.RELEASE)
    locked.acquire(M1, 0, 4)
    locked.acknowledge(M1, 0, 4, AcknowledgeType.RELEASE)
    (effect,) = [
        each
        for each in locked.machine.step(fetch(M2, 0, 9), now_ms=0)
        if isinstance(each, RecordsAcquired)
    ]
    assert [(each.first_offset, each.last_offset) for each in effect.ranges] == [(0, 9)]


def test_a_failed_write_leaves_what_lost_its_lock_on_both_sides_of_the_log_start():
    locked = Locked()
    locked.acquire(M1, 0, 9)
    (write,) = [
        each
        for each in locked.machine.step(accept(M1, 0, 9), now_ms=0)
        if isinstance(each, WriteState)
    ]
    locked.step(LogStartMoved(5))
    locked.now_ms = LOCK_MS
    locked.step(Tick())
    locked.step(StateWritten(write.write_id, ErrorCode.COORDINATOR_NOT_AVAILABLE))
    below, above = locked.machine.state_at(4), locked.machine.state_at(5)
    assert below is None or below.state is DeliveryState.ARCHIVED
    assert above.state is DeliveryState.AVAILABLE
