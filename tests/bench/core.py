"""`make bench PART=core`: the share partition alone, against a plain dict of records."""

import gc
import random
import sys
import time
import tracemalloc
from collections.abc import Callable

from sharemesh.domain.delivery_state import DeliveryState
from sharemesh.domain.errors import ErrorCode
from sharemesh.domain.group_config import GroupConfig
from sharemesh.domain.ids import GroupId, MemberId, SharePartitionKey, TopicId
from sharemesh.domain.share_partition.effects import Effect, WriteState
from sharemesh.domain.share_partition.events import (
    Acknowledge,
    AcknowledgementBatch,
    Acquire,
    AcquireMode,
    Initialize,
    LogBatch,
    StateRead,
    StateWritten,
)
from sharemesh.domain.share_partition.machine import SharePartition
from sharemesh.domain.state_batch import StateBatch
from tests.bench.figures import Figure, Medians, alternate, write

BATCH = 500
CYCLES = 400
MEMBER = MemberId("m1")
ACCEPT, RELEASE, REJECT, RENEW = 1, 2, 3, 4
_RNG = random.Random(7)
MIXES = [tuple(_RNG.choices((ACCEPT, RELEASE, REJECT), k=BATCH)) for _ in range(20)]
AVAILABLE, ACKNOWLEDGED = DeliveryState.AVAILABLE, DeliveryState.ACKNOWLEDGED
ARCHIVED = DeliveryState.ARCHIVED


def partition(max_locks: int = 2_000) -> SharePartition:
    """Return an active, empty share partition."""
    key = SharePartitionKey(GroupId("g"), TopicId(bytes(16)), 0)
    config = GroupConfig(partition_max_record_locks=max_locks)
    machine = SharePartition(key, 0, config)
    machine.step(Initialize(), now_ms=0)
    machine.step(StateRead(ErrorCode.NONE, start_offset=0), now_ms=0)
    return machine


def acquire(machine: SharePartition, first: int, last: int) -> None:
    """Acquire one log batch."""
    request = Acquire(
        0, MEMBER, AcquireMode.BATCH_OPTIMIZED, BATCH, BATCH, first, (LogBatch(first, last),)
    )
    machine.step(request, now_ms=0)


def acknowledge(machine: SharePartition, first: int, last: int, types: tuple[int, ...]) -> None:
    """Acknowledge a range; the write succeeds at once."""
    request = Acknowledge(0, MEMBER, (AcknowledgementBatch(first, last, types),))
    written(machine, machine.step(request, now_ms=0))


def written(machine: SharePartition, effects: tuple[Effect, ...]) -> None:
    """Confirm the write that an acknowledgement asked for."""
    for effect in effects:
        if isinstance(effect, WriteState):
            machine.step(StateWritten(effect.write_id), now_ms=0)


def rate(work: Callable[[], int]) -> float:
    """Return records per second of processor time, so that neighbours do not count."""
    gc.collect()
    started = time.process_time()
    records = work()
    return records / (time.process_time() - started)


# ---- the baseline: what one would write first


class DictLoop:
    """A plain dict of offset to (state, count, member), set and deleted record by record.

    It gives what the machine gives: which records were acquired, how often, and the batches to be
    written, as the same values, one a record.
    """

    def __init__(self) -> None:
        self.records: dict[int, tuple[int, int, str]] = {}
        self.start = 0
        self.limit = 5

    def acquire(self, offset: int, member: str) -> tuple[int, int] | None:
        """Lock a record if it is available; return (offset, delivery count)."""
        state, count, _ = self.records.get(offset, (0, 0, ""))
        if state != 0 or count >= self.limit:
            return None
        self.records[offset] = (1, count + 1, member)
        return offset, count + 1

    def acknowledge(self, offset: int, kind: int, member: str) -> StateBatch:
        """Finish or free a record of the member; return what to write."""
        state, count, owner = self.records[offset]
        if state != 1 or owner != member:
            raise ValueError(offset)
        target = ARCHIVED
        if kind == ACCEPT:
            target = ACKNOWLEDGED
        elif kind == RELEASE and count < self.limit:
            target = AVAILABLE
        self.records[offset] = (target, count, "")
        return StateBatch(offset, offset, target, count)

    def move_start(self) -> None:
        """Delete finished records from the start on."""
        records = self.records
        while self.start in records and records[self.start][0] >= 2:
            del records[self.start]
            self.start += 1


def dict_batches() -> int:
    """Acquire and accept 500 records, one after the other, again and again."""
    loop = DictLoop()
    for first in range(0, CYCLES * BATCH, BATCH):
        offsets = range(first, first + BATCH)
        acquired = [loop.acquire(offset, MEMBER) for offset in offsets]
        written = [loop.acknowledge(offset, ACCEPT, MEMBER) for offset in offsets]
        loop.move_start()
        if len(acquired) != len(written):
            raise AssertionError(first)
    return CYCLES * BATCH


def bare_dict() -> int:
    """Only the dict: set, set and delete a tuple a record, inline; no owner, no limit, no write."""
    records: dict[int, tuple[int, int, str]] = {}
    start = 0
    for first in range(0, CYCLES * BATCH, BATCH):
        offsets = range(first, first + BATCH)
        for offset in offsets:
            records[offset] = (1, 1, MEMBER)
        for offset in offsets:
            records[offset] = (2, 1, "")
        while start in records:
            del records[start]
            start += 1
    if start != CYCLES * BATCH:
        raise AssertionError(start)
    return start


# ---- the machine


def batch_cycle() -> int:
    """Acquire and accept whole 500-record batches; the start offset moves."""
    machine = partition()
    for first in range(0, CYCLES * BATCH * 4, BATCH):
        acquire(machine, first, first + BATCH - 1)
        acknowledge(machine, first, first + BATCH - 1, (ACCEPT,))
    if machine.start_offset != CYCLES * BATCH * 4:
        raise AssertionError(machine.start_offset)
    return CYCLES * BATCH * 4


def mixed_ack() -> int:
    """Acquire 500, one acknowledge with 500 mixed per-offset types."""
    cycles = CYCLES // 10
    for cycle in range(cycles):
        machine = partition()
        acquire(machine, 0, BATCH - 1)
        acknowledge(machine, 0, BATCH - 1, MIXES[cycle % len(MIXES)])
    return cycles * BATCH


def single_ack() -> int:
    """Acquire 500, one call for each record."""
    machine = partition()
    cycles = CYCLES // 20
    for first in range(0, cycles * BATCH, BATCH):
        acquire(machine, first, first + BATCH - 1)
        for offset in range(first, first + BATCH):
            acknowledge(machine, offset, offset, (ACCEPT,))
    return cycles * BATCH


def fragmented(runs: int) -> float:
    """Return microseconds for one more acknowledgement with so many runs in flight."""
    machine = partition(max_locks=10 * runs + 10 * BATCH)
    offset = 0
    while machine.run_count < runs:
        size = min(BATCH, max(10, runs - machine.run_count + 10))
        acquire(machine, offset, offset + size - 1)
        types = tuple(RELEASE if each % 2 else RENEW for each in range(size))
        acknowledge(machine, offset, offset + size - 1, types)
        offset += size
    samples = 300
    acquire(machine, offset, offset + samples - 1)
    acknowledge(machine, offset + samples - 1, offset + samples - 1, (ACCEPT,))
    gc.collect()
    started = time.process_time()
    for each in range(offset, offset + samples - 1):
        acknowledge(machine, each, each, (ACCEPT,))
    return (time.process_time() - started) / samples * 1e6


def bytes_per_record() -> float:
    """Return memory for each in-flight record, every second one acknowledged."""
    count = 100_000
    gc.collect()
    tracemalloc.start()
    machine = partition(max_locks=count)
    types = (ACCEPT, RENEW) * (BATCH // 2)
    for first in range(0, count, BATCH):
        acquire(machine, first, first + BATCH - 1)
        acknowledge(machine, first, first + BATCH - 1, tuple(reversed(types)))
    gc.collect()
    used = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    if machine.in_flight_count < count - BATCH:
        raise AssertionError(machine.in_flight_count)
    return used / count


def _row(
    name: str, medians: Medians, floor: float | None = None, goal: float | None = None
) -> Figure:
    return Figure(
        name, medians.measured, "records/s", medians.baseline, medians.ratio, floor, goal=goal
    )


def figures() -> list[Figure]:
    """Measure everything."""
    result = []
    for name, work, floor, goal in (
        ("core.batch_cycle", batch_cycle, 8, 15),
        ("core.mixed_ack", mixed_ack, 0.7, 1.5),
        ("core.single_ack", single_ack, 0.08, 0.2),
    ):
        medians = alternate(lambda: rate(dict_batches), lambda work=work: rate(work))
        result.append(_row(name, medians, floor, goal))
        bare = alternate(lambda: rate(bare_dict), lambda work=work: rate(work))
        result.append(_row(f"{name}.bare_dict", bare))
    medians = alternate(lambda: fragmented(10), lambda: fragmented(10_000))
    result.append(
        Figure(
            "core.fragmented_ack",
            medians.measured,
            "us",
            medians.baseline,
            medians.ratio,
            3,
            at_most=True,
            goal=1.5,
        )
    )
    result.append(
        Figure("core.bytes_per_record", bytes_per_record(), "B", floor=200, at_most=True, goal=40)
    )
    return result


def main() -> int:
    """Measure, write build/bench/core.json, return the exit code."""
    return write("core", figures())


if __name__ == "__main__":
    sys.exit(main())
