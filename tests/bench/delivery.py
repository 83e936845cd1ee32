"""`make bench PART=delivery`: one held record, a million runs, and a million delayed records.

All but the first is the share partition's machine and the share coordinator's, without network
and disk.
"""

import asyncio
import gc
import time
import tracemalloc
from collections.abc import Callable

from sharemesh.codec.packed_batches import decode_packed, encode_packed
from sharemesh.codec.state_record import decode_updates
from sharemesh.domain.delivery_state import Cause, DeliveryState
from sharemesh.domain.errors import ErrorCode
from sharemesh.domain.group_config import GroupConfig, InFlightLimitType
from sharemesh.domain.ids import GroupId, MemberId, SharePartitionKey, TopicId
from sharemesh.domain.packed_batches import PackedBatches, StateBatches, combined
from sharemesh.domain.share_partition.effects import RecordsAcquired, WriteState
from sharemesh.domain.share_partition.events import (
    Acknowledge,
    AcknowledgementBatch,
    Acquire,
    AcquireMode,
    Event,
    Initialize,
    LogBatch,
    StateRead,
    StateWritten,
    Tick,
)
from sharemesh.domain.share_partition.machine import SharePartition
from sharemesh.domain.share_state.checks import WriteRequest
from sharemesh.domain.share_state.fold import Floors, ShareState
from sharemesh.domain.share_state.machine import ShareStateMachine
from sharemesh.domain.share_state.records import Origin
from sharemesh.domain.share_state.snapshot_parts import PART_BATCHES
from sharemesh.domain.state_batch import StateBatch
from sharemesh.share_coordinator.shard_kind import encode, load
from tests.bench.figures import Figure, alternate, write
from tests.bench.held_record import held_record_of_a_cluster

KEY = SharePartitionKey(GroupId("g"), TopicId(b"\1" * 16), 0)
HOLDER, OTHER = MemberId("holder"), MemberId("other")
RECORDS, RUNS, FEW = 1_000_000, 1_000_000, 10
BATCH = 500
STEPS = 400
LOCK_MS = 30_000
ACCEPT, RENEW = 1, 4
DELAYED_RUN = 10  # records
DELAYED_S = 40
DELAYED_FROM_S = 5
MIB = 1 << 20


class Leader:
    """A share partition whose limit counts locks; writes succeed at once."""

    def __init__(self, batches: StateBatches = ()) -> None:
        config = GroupConfig(
            in_flight_limit_type=InFlightLimitType.LOCKS,
            partition_max_runs=RUNS + 100_000,
            record_lock_duration_ms=LOCK_MS,
        )
        self.machine = SharePartition(KEY, 0, config)
        self.now_ms = 0
        self.step(Initialize())
        self.step(StateRead(ErrorCode.NONE, start_offset=0, batches=batches))

    def step(self, event: Event) -> int:
        """Take a step; return how many records it acquired."""
        count = 0
        for effect in self.machine.step(event, now_ms=self.now_ms):
            if isinstance(effect, WriteState):
                self.machine.step(StateWritten(effect.write_id), now_ms=self.now_ms)
            elif isinstance(effect, RecordsAcquired):
                count += effect.count
        return count

    def acquire(self, member: MemberId, first: int, size: int, most: int = BATCH) -> int:
        """Acquire one log batch, at most so many records of it."""
        log_batch = LogBatch(first, first + size - 1)
        mode = AcquireMode.BATCH_OPTIMIZED
        return self.step(Acquire(0, member, mode, most, BATCH, first, (log_batch,)))

    def acknowledge(self, member: MemberId, first: int, size: int, kind: int) -> None:
        """Acknowledge a range with one type."""
        self.step(Acknowledge(0, member, (AcknowledgementBatch(first, first + size - 1, (kind,)),)))


def finished(runs: int) -> StateBatches:
    """Return so many finished runs behind one record that is available."""
    batches = [StateBatch(0, 0, DeliveryState.AVAILABLE, 1)]
    ended = (DeliveryState.ACKNOWLEDGED, DeliveryState.ARCHIVED)
    batches += [StateBatch(each, each, ended[each % 2], 1) for each in range(1, runs)]
    return combined(batches, (), start_offset=-1)


def past_a_record(*, is_held: bool) -> float:
    """Return records per second of processor time past a record that is held, or past none."""
    leader = Leader()
    leader.acquire(HOLDER, 0, 1)
    if not is_held:
        leader.acknowledge(HOLDER, 0, 1, ACCEPT)
    gc.collect()
    began = time.process_time()
    for first in range(1, RECORDS, BATCH):
        leader.now_ms += 10
        if is_held and leader.now_ms % (LOCK_MS // 2) == 0:
            leader.acknowledge(HOLDER, 0, 1, RENEW)
        assert leader.acquire(OTHER, first, BATCH) == BATCH
        leader.acknowledge(OTHER, first, BATCH, ACCEPT)
    spent = time.process_time() - began
    assert (leader.machine.start_offset == 0) == is_held
    return RECORDS / spent


def held_record_of_the_machine() -> Figure:
    """The same of the share partition's machine alone, in processor time."""
    medians = alternate(lambda: past_a_record(is_held=False), lambda: past_a_record(is_held=True))
    return Figure(
        "delivery.held_record.machine",
        medians.measured,
        "records/s",
        medians.baseline,
        medians.ratio,
    )


def traced(work: Callable[[], object]) -> float:
    """Return the bytes of what ``work`` returns and keeps."""
    gc.collect()
    tracemalloc.start()
    kept = work()
    size = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    del kept
    return size


def coordinator(batches: StateBatches) -> ShareStateMachine:
    """Return a share coordinator's shard with one state."""
    machine = ShareStateMachine(decode_updates=decode_updates)
    machine.restore([(KEY, ShareState(0, 0, 0, 0, 0, 0, 1, 1, batches))], Floors(), 0)
    return machine


def runs_bytes(batches: StateBatches) -> list[Figure]:
    """Memory of a million finished runs in a leader, and in a share coordinator."""
    assert isinstance(batches, PackedBatches)
    stored = [encode(part) for part in coordinator(batches).cold_snapshot(KEY, now_ms=1)]

    def loaded() -> ShareStateMachine:
        machine = ShareStateMachine(decode_updates=decode_updates)
        load(machine, stored, backlog_max_bytes=MIB)
        return machine

    found = {"leader": traced(lambda: Leader(batches)), "coordinator": traced(loaded)}
    figures = [
        Figure(f"delivery.runs_bytes.{name}", size / RUNS, "bytes") for name, size in found.items()
    ]
    most = max(figure.value for figure in figures)
    log_bytes = sum(len(each.value or b"") for each in stored) / RUNS
    return [
        Figure("delivery.runs_bytes", most, "bytes", floor=64, at_most=True),
        *figures,
        Figure("delivery.runs_log_bytes", log_bytes, "bytes"),
    ]


def step_us(batches: StateBatches) -> Callable[[], float]:
    """Return a round: a batch acquired and acknowledged, and its state write, in microseconds."""
    leader, shard = Leader(batches), coordinator(batches)
    leader.acquire(HOLDER, 0, 1)
    first = batches[-1].last_offset + 1

    def once() -> float:
        nonlocal first
        gc.collect()
        began = time.process_time()
        for number in range(STEPS):
            leader.acquire(OTHER, first, 10)
            leader.acknowledge(OTHER, first, 10, ACCEPT)
            done = StateBatch(first, first + 9, DeliveryState.ACKNOWLEDGED, 1, Cause.ACCEPT)
            request = WriteRequest(0, 0, 0, 0, (done,), Origin(Cause.ACCEPT, OTHER))
            record = shard.write(KEY, request, in_metadata=True, now_ms=number).record
            assert record is not None
            encode(record)
            shard.apply(record, number)
            first += 10
        return (time.process_time() - began) / STEPS * 1e6

    return once


def million_runs(batches: StateBatches) -> list[Figure]:
    """What a step costs with a million runs, over what it costs with ten; and their load."""
    medians = alternate(step_us(finished(FEW)), step_us(batches))
    return [
        Figure(
            "delivery.million_runs",
            medians.measured,
            "us",
            medians.baseline,
            medians.ratio,
            floor=3,
            at_most=True,
        ),
        *_load(batches),
    ]


def _load(batches: StateBatches) -> list[Figure]:
    """A failover of both: the shard is loaded, its state read in parts, the leader filled.

    In processor time, so that neighbours do not count.
    """
    stored = [encode(part) for part in coordinator(batches).cold_snapshot(KEY, now_ms=1)]
    gc.collect()
    began = time.process_time()
    machine = ShareStateMachine(decode_updates=decode_updates)
    load(machine, stored, backlog_max_bytes=MIB)
    of_shard = time.process_time() - began
    state = machine.state(KEY)
    assert state is not None
    assert isinstance(state.batches, PackedBatches)
    parts: list[PackedBatches] = []
    following: int | None = 0
    while following is not None:
        part, following = state.batches.part_from(following, PART_BATCHES)
        parts.append(decode_packed(encode_packed(part)))
    of_read = time.process_time() - began - of_shard
    leader = Leader(PackedBatches.joined(parts))
    took = time.process_time() - began
    assert leader.machine.run_count == RUNS
    return [
        Figure("delivery.million_load_s", took, "s", at_most=True, goal=2),
        Figure("delivery.million_load_s.shard", of_shard, "s"),
        Figure("delivery.million_load_s.read", of_read, "s"),
    ]


async def delayed() -> list[Figure]:
    """A million delayed records become available over some time: how late, and how many early."""
    runs = RECORDS // DELAYED_RUN
    begin_ms = time.monotonic_ns() // 1_000_000
    from_ms, span_ms = begin_ms + DELAYED_FROM_S * 1_000, (DELAYED_S - DELAYED_FROM_S) * 1_000
    due_ms = [from_ms + (each * 7_919 % runs) * span_ms // runs for each in range(runs)]
    leader = Leader(
        tuple(
            StateBatch(
                each * DELAYED_RUN,
                each * DELAYED_RUN + DELAYED_RUN - 1,
                DeliveryState.AVAILABLE,
                1,
                not_before_ms=at_ms,
            )
            for each, at_ms in enumerate(due_ms)
        )
    )
    late_ms: list[int] = []
    early = 0
    while len(late_ms) < runs:
        leader.now_ms = time.monotonic_ns() // 1_000_000
        leader.step(Tick())
        first = leader.machine.next_fetch_offset()
        if first >= RECORDS:
            await asyncio.sleep(0.002)
            continue
        run = first // DELAYED_RUN
        assert leader.acquire(OTHER, first, DELAYED_RUN) == DELAYED_RUN
        leader.acknowledge(OTHER, first, DELAYED_RUN, ACCEPT)
        late = time.monotonic_ns() // 1_000_000 - due_ms[run]
        early += late < 0
        late_ms.append(late)
    late_ms.sort()
    return [
        Figure("delivery.delayed", early * DELAYED_RUN, "early", floor=0, at_most=True),
        Figure("delivery.delayed_p99_ms", late_ms[runs * 99 // 100], "ms", at_most=True, goal=100),
    ]


def main() -> int:
    """Measure, write build/bench/delivery.json, and return 1 if a floor is missed."""
    batches = finished(RUNS)
    figures = [
        held_record_of_a_cluster(),
        held_record_of_the_machine(),
        *runs_bytes(batches),
        *million_runs(batches),
    ]
    figures += asyncio.run(delayed())
    return write("delivery", figures)
