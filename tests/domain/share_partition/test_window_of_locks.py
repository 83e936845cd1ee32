"""A limit that counts locks: nothing stands still behind one slow record (spec WIN)."""

import tracemalloc
from dataclasses import replace

import pytest

from sharemesh.domain.delivery_state import AcknowledgeType, DeliveryState
from sharemesh.domain.errors import ErrorCode
from sharemesh.domain.group_config import GroupConfig, InFlightLimitType
from sharemesh.domain.ids import MemberId
from sharemesh.domain.share_partition.cache.cached_batches import BLOCK_ENTRIES_MAX
from sharemesh.domain.share_partition.cache.in_flight import InFlightBar
from sharemesh.domain.share_partition.effects import (
    Answered,
    RecordsAcquired,
    WakeWaiters,
    WriteState,
)
from sharemesh.domain.share_partition.events import (
    Acknowledge,
    AcknowledgementBatch,
    Acquire,
    AcquireMode,
    Configure,
    Initialize,
    LogBatch,
    LogStartMoved,
    ReleaseMember,
    StateRead,
    StateWritten,
    Tick,
)
from sharemesh.domain.share_partition.machine import SharePartition
from sharemesh.domain.state_batch import StateBatch
from tests.domain.share_partition.partition_machine import KEY

M1, M2 = MemberId("m1"), MemberId("m2")
LOCK_MS = 30_000
ACCEPT, RELEASE, REJECT = AcknowledgeType.ACCEPT, AcknowledgeType.RELEASE, AcknowledgeType.REJECT
ACKNOWLEDGED, ARCHIVED = DeliveryState.ACKNOWLEDGED, DeliveryState.ARCHIVED
LOCKS, SPAN = InFlightLimitType.LOCKS, InFlightLimitType.SPAN


class Window:
    """An active share partition; writes are confirmed at once unless they are held back."""

    def __init__(self, *, batches=(), start=0, max_locks=10, max_runs=1_000, kind=LOCKS):
        self.config = GroupConfig(
            record_lock_duration_ms=LOCK_MS,
            partition_max_record_locks=max_locks,
            partition_max_runs=max_runs,
            in_flight_limit_type=kind,
        )
        self.machine = SharePartition(KEY, 0, self.config)
        self.now_ms = 0
        self.validates = True
        self.holds_writes = False
        self.written: list[StateBatch] = []
        self.outstanding: list[int] = []
        self.step(Initialize())
        self.step(StateRead(ErrorCode.NONE, 1, start, tuple(batches)))

    def step(self, event):
        effects = list(self.machine.step(event, now_ms=self.now_ms))
        for effect in tuple(effects):
            if isinstance(effect, WriteState):
                self.written += effect.batches
                if self.holds_writes:
                    self.outstanding.append(effect.write_id)
                else:
                    effects += self.step(StateWritten(effect.write_id))
        if self.validates:
            self.machine.validate()
        return effects

    def acquire(self, first, last, member=M1, mode=AcquireMode.RECORD_LIMIT, step=1):
        log = tuple(
            LogBatch(each, min(last, each + step - 1)) for each in range(first, last + 1, step)
        )
        effects = self.step(Acquire(1, member, mode, 500, 500, first, log))
        (acquired,) = (each for each in effects if isinstance(each, RecordsAcquired))
        return [(each.first_offset, each.last_offset) for each in acquired.ranges]

    def acknowledge(self, first, last, kind=ACCEPT, member=M1):
        return self.step(Acknowledge(1, member, (AcknowledgementBatch(first, last, (kind,)),)))

    def wakes(self, event):
        return any(isinstance(each, WakeWaiters) for each in self.step(event))


def test_one_held_record_keeps_nothing_back():
    """WIN-1: with a limit of 10 locks a hundred times as many pass the one that is held."""
    window = Window()
    assert window.acquire(0, 0, M2) == [(0, 0)]
    for first in range(1, 1_000, 9):
        assert window.acquire(first, first + 8) == [(first, first + 8)]
        assert window.machine.held_count == 10
        window.acknowledge(first, first + 8)
    machine = window.machine
    assert (machine.start_offset, machine.end_offset, machine.run_count) == (0, 999, 2)
    window.acknowledge(0, 0, member=M2)
    assert (machine.start_offset, machine.in_flight_count, machine.run_count) == (1_000, 0, 0)


def test_a_span_stops_where_kafka_stops():
    """WIN-1: the same under ``span`` ends 10 offsets behind the held record."""
    window = Window(kind=SPAN)
    window.acquire(0, 0, M2)
    assert window.acquire(1, 20) == [(1, 9)]
    window.acknowledge(1, 9)
    assert window.acquire(10, 20) == []
    assert not window.machine.can_acquire()


def test_a_change_of_the_type_takes_nothing_back():
    """WIN-1: what is wider than the new limit gets nothing new, and loses nothing."""
    window = Window()
    window.acquire(0, 0, M2)
    window.acquire(1, 9)
    window.acknowledge(1, 9)
    window.acquire(10, 14)
    window.step(Configure(replace(window.config, in_flight_limit_type=SPAN)))
    assert window.acquire(15, 20) == []
    window.acknowledge(10, 14)
    window.acknowledge(0, 0, member=M2)
    assert window.acquire(15, 20) == [(15, 20)]
    window.step(Configure(window.config))
    window.acknowledge(15, 20)
    assert window.machine.start_offset == 21


def test_a_record_counts_until_its_write_ends():
    """WIN-2, WIN-3, WIN-7: at the limit nothing goes out, redeliveries neither."""
    window = Window()
    window.acquire(0, 9)
    assert (window.machine.bar, window.machine.can_acquire()) == (InFlightBar.LOCKS, False)
    window.holds_writes = True
    window.acknowledge(5, 5, RELEASE)
    assert window.machine.held_count == 10
    assert window.acquire(10, 12) == []
    assert window.wakes(StateWritten(window.outstanding[0]))
    assert window.machine.next_fetch_offset() == 5
    assert window.acquire(5, 12) == [(5, 5)]
    assert window.acquire(10, 12) == []


def test_an_acknowledgement_in_the_middle_wakes_those_who_wait_for_a_lock():
    """WIN-7: the start offset does not move, but there is room."""
    window = Window()
    window.acquire(0, 9)
    window.holds_writes = True
    window.acknowledge(5, 6)
    assert window.machine.start_offset == 0
    assert window.wakes(StateWritten(window.outstanding[0]))
    assert window.acquire(10, 12) == [(10, 11)]
    window.acknowledge(0, 0, REJECT)
    assert not window.wakes(StateWritten(window.outstanding[1], ErrorCode.UNKNOWN_SERVER_ERROR))
    assert window.machine.held_count == 10  # as the write failed


def test_a_log_batch_is_acquired_whole_past_the_limit():
    """WIN-3: as under ``span`` in the mode ``batch_optimized``."""
    window = Window()
    mode = AcquireMode.BATCH_OPTIMIZED
    assert window.acquire(0, 19, mode=mode, step=8) == [(0, 15)]
    assert window.acquire(16, 19, mode=mode, step=8) == []


def test_at_the_bound_of_runs_only_what_was_delivered_goes_out():
    """WIN-4, WIN-5, WIN-7: each held record counts as a run that it may become."""
    window = Window(max_locks=40, max_runs=60)
    window.acquire(0, 0, M2)
    first = 1
    while granted := window.acquire(first, first + 9):
        for offset in range(first, granted[-1][1] + 1):
            window.acknowledge(offset, offset, (ACCEPT, REJECT)[offset % 2])
        first = granted[-1][1] + 1
    machine = window.machine
    assert machine.bar is InFlightBar.END
    assert 50 < machine.run_count + machine.held_count <= 60
    assert not machine.can_acquire()
    window.acknowledge(0, 0, RELEASE, M2)
    assert machine.can_acquire()
    assert window.acquire(0, first + 9) == [(0, 0)]
    window.holds_writes = True
    window.acknowledge(0, 0)
    assert window.wakes(StateWritten(window.outstanding[0]))
    assert machine.run_count == 0
    assert window.acquire(first, first + 9) == [(first, first + 9)]


def ended_in_turns(window, last, step):
    """Acquire all up to ``last`` that goes out, and accept and reject it in turns."""
    machine = window.machine
    while machine.can_acquire() and (first := machine.next_fetch_offset()) <= last:
        base = first - first % step
        for begin, end in window.acquire(base, last, step=step):
            for offset in range(begin, end + 1):
                window.acknowledge(offset, offset, (ACCEPT, REJECT)[offset % 2])
    return machine.run_count


@pytest.mark.parametrize("mode", list(AcquireMode))
def test_a_log_batch_is_cached_whole_past_the_bound_of_runs_win_4(mode):
    window = Window(max_locks=300, max_runs=20)
    window.acquire(0, 0, M2)
    granted = window.acquire(1, 200, mode=mode, step=200)
    assert granted == [(1, 200 if mode is AcquireMode.BATCH_OPTIMIZED else 18)]
    assert window.machine.end_offset == 200
    for begin, end in granted:
        for offset in range(begin, end + 1):
            window.acknowledge(offset, offset, (ACCEPT, REJECT)[offset % 2])
    assert ended_in_turns(window, 220, 1) == 201
    assert window.machine.is_full_of_runs
    assert window.machine.end_offset == 200, "nothing behind the log batch went out"


def test_what_was_released_together_may_end_in_turns_past_the_bound_of_runs_win_4():
    window = Window(max_locks=300, max_runs=20)
    window.acquire(0, 0, M2)
    for first in range(1, 80, 10):
        assert window.acquire(first, first + 9) == [(first, first + 9)]
        batches = (AcknowledgementBatch(first, first + 9, (RELEASE,), delay_ms=1_000),)
        window.step(Acknowledge(1, M1, batches))
    assert window.machine.run_count < 20
    window.now_ms = 2_000
    window.step(Tick())
    assert ended_in_turns(window, 110, 1) == 81
    assert window.machine.end_offset == 80


def test_holes_that_a_failover_left_are_filled_at_the_bound_of_runs():
    """WIN-5: they lie below the end offset, and the start offset waits for them."""
    held = [StateBatch(each, each, ACKNOWLEDGED, 1) for each in range(1, 61, 2)]
    window = Window(batches=held, max_locks=20, max_runs=25)
    assert window.machine.bar is InFlightBar.END
    taken = []
    while len(taken) < 30:
        at = window.machine.next_fetch_offset()
        granted = window.acquire(at, 59)
        taken += granted
        for first, last in granted:
            window.acknowledge(first, last)
    assert taken == [(each, each) for each in range(0, 60, 2)]
    assert window.machine.start_offset == 60


def test_the_gap_window_is_over_with_its_last_hole():
    """WIN-6, OFF-25: the start offset would wait for an acquisition that the bound forbids."""
    held = [StateBatch(each, each, (ACKNOWLEDGED, ARCHIVED)[each % 2], 1) for each in range(1, 60)]
    for kind, limit, start in ((LOCKS, 20, 60), (SPAN, 20, 60), (SPAN, 100, 1)):
        window = Window(batches=held, max_runs=20, max_locks=limit, kind=kind)
        assert window.acquire(0, 59) == [(0, 0)]
        window.acknowledge(0, 0)
        assert window.machine.start_offset == start
        assert window.machine.can_acquire()


def test_packed_batches_answer_as_batches_do():
    """WIN-8: acknowledged once, over their ends, at expiry, at a release, at a moved log start."""
    window = Window(max_locks=100)
    window.acquire(0, 0, M2)
    window.acquire(1, 9, mode=AcquireMode.BATCH_OPTIMIZED, step=3)
    window.acquire(10, 12)
    for first, kind in ((1, ACCEPT), (4, REJECT), (7, ACCEPT)):
        window.acknowledge(first, first + 2, kind)
    assert [(b.first_offset, b.last_offset) for b in window.machine.cached_batches()] == [
        (0, 0),
        (1, 3),
        (4, 6),
        (7, 9),
        (10, 12),
    ]
    for first, last in ((1, 1), (2, 8), (7, 12)):
        (answer,) = window.acknowledge(first, last)
        assert isinstance(answer, Answered)
        assert answer.error is ErrorCode.INVALID_RECORD_STATE
    assert window.machine.state_at(5).state is ARCHIVED
    window.step(ReleaseMember(1, M1))
    assert window.machine.next_fetch_offset() == 10
    window.now_ms = LOCK_MS
    window.step(Tick())
    assert window.machine.next_fetch_offset() == 0
    window.step(LogStartMoved(5))
    assert (window.machine.start_offset, window.machine.delivery_complete_count) == (5, 5)
    window.acquire(10, 12)
    window.acknowledge(10, 12)
    assert window.machine.start_offset == 13


def test_state_records_carry_changes_only_under_both_types():
    """WIN-11: a finished record is written once, whatever lies above the start offset."""
    written = []
    for kind in (LOCKS, SPAN):
        window = Window(kind=kind, max_locks=2_000)
        window.acquire(0, 0, M2)
        window.acquire(1, 200)
        for offset in range(1, 201):
            window.acknowledge(offset, offset, (ACCEPT, REJECT)[offset % 2])
        written.append(window.written)
    assert written[0] == written[1]
    assert len(written[0]) == 200


def loaded(runs, *, with_holes):
    """Return a partition of so many finished runs behind one that is available."""
    step = 2 if with_holes else 1
    batches = [StateBatch(0, 0, DeliveryState.AVAILABLE, 1)]
    batches += [
        StateBatch(each * step, each * step, (ACKNOWLEDGED, ARCHIVED)[each % 2], 1)
        for each in range(1, runs)
    ]
    return batches


@pytest.mark.parametrize("with_holes", [False, True])
def test_a_run_takes_at_most_64_bytes(with_holes):
    """WIN-8: loaded from durable state, with holes or without."""
    runs = 20_000
    batches = loaded(runs, with_holes=with_holes)
    tracemalloc.start()
    try:
        window = Window.__new__(Window)
        window.machine = SharePartition(KEY, 0, GroupConfig(in_flight_limit_type=LOCKS))
        window.machine.step(Initialize(), now_ms=0)
        before = tracemalloc.get_traced_memory()[0]
        window.machine.step(StateRead(ErrorCode.NONE, 1, 0, tuple(batches)), now_ms=0)
        spent = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert window.machine.run_count == runs
    assert spent / runs <= 64


def test_blocks_are_cut_and_emptied():
    """WIN-9: far more batches than a block holds, filled at its end and in its middle."""
    window = Window(max_locks=8 * BLOCK_ENTRIES_MAX, max_runs=100_000)
    window.acquire(0, 0, M2)
    window.validates = False
    total = 2 * BLOCK_ENTRIES_MAX
    for first in range(1, total, 2):
        window.acquire(first, first)
        window.acquire(first + 1, first + 1)
        window.acknowledge(first, first)
    for first in range(2, total, 2):
        window.acknowledge(first, first, REJECT)
    window.machine.validate()
    assert window.machine.run_count == total + 1
    assert window.machine.state_at(total - 1).state is ACKNOWLEDGED
    window.step(ReleaseMember(1, M1))
    window.acknowledge(0, 0, member=M2)
    assert window.machine.start_offset == total
