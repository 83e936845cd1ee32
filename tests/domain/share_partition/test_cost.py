"""What a step costs follows what it touches: neither records in a batch nor runs in the cache.

Calls of functions are counted, so that no clock and no neighbour can disturb the figures.
"""

import sys
from collections.abc import Callable

import pytest

from sharemesh.domain.delivery_state import DeliveryState
from sharemesh.domain.errors import ErrorCode
from sharemesh.domain.group_config import GroupConfig, InFlightLimitType
from sharemesh.domain.ids import GroupId, MemberId, SharePartitionKey, TopicId
from sharemesh.domain.share_partition.effects import WriteState
from sharemesh.domain.share_partition.events import (
    Acknowledge,
    AcknowledgementBatch,
    Acquire,
    AcquireMode,
    Initialize,
    LogBatch,
    ReleaseMember,
    StateRead,
    StateWritten,
    Tick,
)
from sharemesh.domain.share_partition.machine import SharePartition
from sharemesh.domain.state_batch import StateBatch

M1, M2 = MemberId("m1"), MemberId("m2")
LOCK_MS = 30_000
ACCEPT, RELEASE, RENEW = 1, 2, 4
FEW, MANY = 10, 10_000
SLACK = 1.5  # heaps and binary searches may grow with the logarithm


class Bed:
    """A partition with so many runs in flight, and one fresh batch of m2 behind them."""

    def __init__(self, runs: int, batch: int = 500) -> None:
        key = SharePartitionKey(GroupId("g"), TopicId(bytes(16)), 0)
        config = GroupConfig(partition_max_record_locks=10 * MANY + 1_000)
        self.machine = SharePartition(key, 0, config)
        self.now_ms = 0
        self.step(Initialize())
        self.step(StateRead(ErrorCode.NONE, start_offset=0))
        offset = 0
        while self.machine.run_count < runs:
            size = min(500, max(10, runs - self.machine.run_count + 10))
            self.acquire(M1, offset, size)
            types = tuple(ACCEPT if each % 2 else RENEW for each in range(size))
            self.acknowledge(M1, offset, offset + size - 1, types)
            offset += size
        self.batch, self.first = batch, offset
        self.machine.next_fetch_offset()

    def step(self, event) -> None:
        for effect in self.machine.step(event, now_ms=self.now_ms):
            if isinstance(effect, WriteState):
                self.machine.step(StateWritten(effect.write_id), now_ms=self.now_ms)

    def acquire(self, member, first, size) -> None:
        log_batch = LogBatch(first, first + size - 1)
        mode = AcquireMode.BATCH_OPTIMIZED
        self.step(Acquire(1, member, mode, 500, 500, first, (log_batch,)))

    def acknowledge(self, member, first, last, types) -> None:
        self.step(Acknowledge(1, member, (AcknowledgementBatch(first, last, types),)))

    # ---- what is measured

    def acquire_batch(self) -> int:
        return calls(lambda: self.acquire(M2, self.first, self.batch))

    def acknowledge_batch(self) -> int:
        self.acquire(M2, self.first, self.batch)
        last = self.first + self.batch - 1
        return calls(lambda: self.acknowledge(M2, self.first, last, (ACCEPT,)))

    def acknowledge_record(self) -> int:
        self.acquire(M2, self.first, self.batch)
        middle = self.first + self.batch // 2
        return calls(lambda: self.acknowledge(M2, middle, middle, (ACCEPT,)))

    def release_member(self) -> int:
        self.acquire(M2, self.first, self.batch)
        return calls(lambda: self.step(ReleaseMember(1, M2)))

    def release_nobody(self) -> int:
        return calls(lambda: self.step(ReleaseMember(1, MemberId("m3"))))

    def find_next_offset(self) -> int:
        self.acquire(M2, self.first, self.batch)
        self.acknowledge(M2, self.first, self.first + self.batch - 1, (RELEASE,))
        assert self.machine.next_fetch_offset() == self.first
        return calls(self.machine.next_fetch_offset)

    def expire_batch(self) -> int:
        """The lock of m2 began before those of m1 were renewed: it alone is due."""
        self.acquire(M2, self.first, self.batch)
        batches = [(b.first_offset, b.last_offset) for b in self.machine.cached_batches()]
        self.now_ms = LOCK_MS - 1
        for first, last in batches[:-1]:
            types = tuple(
                RENEW if self.machine.state_at(each).member_id else None
                for each in range(first, last + 1)
            )
            for each, kind in enumerate(types, first):
                if kind is not None:
                    self.acknowledge(M1, each, each, (kind,))
        self.now_ms = LOCK_MS
        spent = calls(lambda: self.step(Tick()))
        assert self.machine.state_at(self.first).state.name == "AVAILABLE"
        return spent

    def look_at_the_clock(self) -> int:
        return calls(lambda: self.step(Tick()))


OPERATIONS = (
    Bed.acquire_batch,
    Bed.acknowledge_batch,
    Bed.acknowledge_record,
    Bed.release_member,
    Bed.release_nobody,
    Bed.find_next_offset,
    Bed.expire_batch,
    Bed.look_at_the_clock,
)


def calls(work: Callable[[], object]) -> int:
    """Return how many functions, ours and built-in ones, are called."""
    count = 0

    def called(frame, event, argument):
        nonlocal count
        count += event in {"call", "c_call"}

    sys.setprofile(called)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda each: each.__name__)
def test_ten_thousand_runs_in_flight_cost_no_more_than_ten(operation):
    few, many = operation(Bed(FEW)), operation(Bed(MANY))
    assert many <= SLACK * few, (few, many)


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda each: each.__name__)
def test_a_batch_of_500_records_costs_what_one_of_5_costs(operation):
    small, large = operation(Bed(FEW, batch=5)), operation(Bed(FEW, batch=500))
    assert large <= SLACK * small, (small, large)


def test_moving_the_start_offset_costs_what_it_passes():
    """The start offset moves batch by batch while 10,000 runs wait behind."""
    spent = []
    for runs in (FEW, MANY):
        bed = Bed(0)
        bed.acquire(M2, 0, 500)
        behind = 500
        while bed.machine.run_count < runs:
            bed.acquire(M1, behind, 500)
            types = tuple(ACCEPT if each % 2 else RENEW for each in range(500))
            bed.acknowledge(M1, behind, behind + 499, types)
            behind += 500
        spent.append(calls(lambda bed=bed: bed.acknowledge(M2, 0, 499, (ACCEPT,))))
        assert bed.machine.start_offset == 500
    assert spent[1] <= SLACK * spent[0], spent


class HeldBed(Bed):
    """Durable state of so many finished runs, packed, behind one record that m1 holds (WIN-9)."""

    def __init__(self, runs: int, batch: int = 500) -> None:
        key = SharePartitionKey(GroupId("g"), TopicId(bytes(16)), 0)
        config = GroupConfig(
            in_flight_limit_type=InFlightLimitType.LOCKS, partition_max_runs=1_000_000
        )
        self.machine = SharePartition(key, 0, config)
        self.now_ms = 0
        finished = (DeliveryState.ACKNOWLEDGED, DeliveryState.ARCHIVED)
        batches = tuple(StateBatch(each, each, finished[each % 2], 1) for each in range(1, runs))
        self.step(Initialize())
        self.step(StateRead(ErrorCode.NONE, start_offset=0, batches=batches))
        self.batch, self.first = batch, runs
        self.acquire(M1, 0, 1)
        self.machine.next_fetch_offset()

    def acknowledge_in_the_middle(self) -> int:
        """Of a record between the finished ones, which a failover gave back."""
        self.now_ms += 1
        return calls(lambda: self.acknowledge(M1, 0, 0, (RENEW,)))

    def expire_held(self) -> int:
        self.now_ms = LOCK_MS
        spent = calls(lambda: self.step(Tick()))
        assert self.machine.next_fetch_offset() == 0
        return spent

    def acquire_and_finish(self) -> int:
        """Batch after batch, each acknowledged whole, is packed behind the held record."""

        def work():
            for first in range(self.first, self.first + 40, 4):
                self.acquire(M2, first, 4)
                self.acknowledge(M2, first, first + 3, (ACCEPT,))

        return calls(work)


HELD_OPERATIONS = (
    Bed.acquire_batch,
    Bed.acknowledge_batch,
    Bed.acknowledge_record,
    Bed.release_member,
    Bed.release_nobody,
    Bed.find_next_offset,
    Bed.look_at_the_clock,
    HeldBed.acknowledge_in_the_middle,
    HeldBed.expire_held,
    HeldBed.acquire_and_finish,
)


@pytest.mark.parametrize("operation", HELD_OPERATIONS, ids=lambda each: each.__name__)
def test_a_hundred_thousand_finished_runs_cost_no_more_than_ten(operation):
    """WIN-9, in calls; ``make bench PART=delivery`` takes the time with a million."""
    few, many = operation(HeldBed(FEW)), operation(HeldBed(100_000))
    assert many <= SLACK * few, (few, many)


def test_a_start_offset_that_passes_finished_runs_calls_nothing_for_each():
    """WIN-9: they leave by blocks."""
    bed = HeldBed(100_000)
    spent = calls(lambda: bed.acknowledge(M1, 0, 0, (ACCEPT,)))
    assert bed.machine.start_offset == 100_000
    assert spent <= 10_000
