"""What makes one kind of coordinator shard: machine, records, bytes, bounds, and loading it.

How a coordinator is built on the runtime:

1. Write a pure machine with ``apply(record, offset)`` (record in, state changed) and pure functions
   that turn (machine, request) into a ``Decision`` (request in, records and response out).
2. Describe it with a ``ShardDefinition``; ``replaying(decode)`` makes the usual ``load``.
3. Give the kind to a ``ShardSet``: it is the ``ports.cluster.ShardHost`` of the service.
4. In a handler: ``shard = shards.shard(index)`` (raises what the client must hear), then
   ``await shard.write(lambda machine: machine.decide(request, now))`` or ``await shard.read(...)``.
"""

import gc
import logging
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from sharemesh.ports.clock import Clock
from sharemesh.ports.shard_log import LogRecord, ShardLog

Record = TypeVar("Record")

Record_contra = TypeVar("Record_contra", contravariant=True)

Response_co = TypeVar("Response_co", covariant=True)

Record_co = TypeVar("Record_co", covariant=True)


class ShardMachine(Protocol[Record_contra]):
    """State of one shard that only records change."""

    def apply(self, record: Record_contra, offset: int) -> None:
        """Change the state as this record says; used for new records and on load alike.

        ``offset`` is where the record lies in the log. For a record of this very moment it may be
        a little lower than that, never higher (the log may put a record of its own in between).
        """
        ...


Machine = TypeVar("Machine", bound=ShardMachine[Any])


@dataclass(frozen=True, slots=True)
class Decision(Generic[Record_co, Response_co]):
    """What a request comes to: records, all or none of which are kept, and the answer.

    If they are ``divisible`` they may be more than one batch holds, and a crash may keep the first
    of them without the others.
    """

    records: Sequence[Record_co]
    response: Response_co
    divisible: bool = False


@dataclass(frozen=True, slots=True)
class ShardDefinition(Generic[Machine, Record]):
    """One kind of shard; ``name`` is the log's name (``state``, ``group``)."""

    name: str
    new_machine: Callable[[int], Machine]
    """Returns an empty machine for a shard number."""
    encode: Callable[[Record], LogRecord]
    """Returns key, value and timestamp; raises if the record cannot be stored."""
    load: Callable[[Machine, Sequence[LogRecord]], None]
    """Applies stored records, oldest first; unknown kinds and versions are passed over."""
    restore: Callable[[Machine, int, ShardLog], Awaitable[int | None]] | None = None
    """Fills a shard's machine from outside the log; returns where to replay from (None: start)."""


def replaying(
    decode: Callable[[LogRecord], Record | None],
) -> Callable[[ShardMachine[Record], Sequence[LogRecord]], None]:
    """Return a ``load`` that decodes and applies one record after the other (None: skip it)."""

    def load(machine: ShardMachine[Record], chunk: Sequence[LogRecord]) -> None:
        for stored in chunk:
            record = decode(stored)
            if record is not None:
                machine.apply(record, stored.offset)

    return load


ADAPTIVE_LINGER = -1
"""Wait before a commit for as many requests as joined of late, while they keep coming."""


@dataclass(frozen=True, slots=True)
class RuntimeLimits:
    """Every wait and queue of a shard; times in ms, sizes in bytes."""

    write_timeout_ms: int = 5_000  # share.coordinator.write.timeout.ms (spec SC-5)
    max_batch_bytes: int = 1_000_000  # of one log batch; a decision must fit into one
    max_pending_bytes: int = 8_000_000  # decided, not yet handed to the log; then requests wait
    max_waiting_requests: int = 10_000  # beyond this a request is refused at once
    linger_ms: int = ADAPTIVE_LINGER  # share.coordinator.append.linger.ms; 0 never waits
    load_slice_records: int = 2_000  # replayed between two turns of the loop
    load_report_interval_ms: int = 5_000
    stop_timeout_ms: int = 5_000  # for pending responses when a shard is relinquished


async def load_machine(
    kind: ShardDefinition[Machine, Record],
    index: int,
    machine: Machine,
    log: ShardLog,
    clock: Clock,
    limits: RuntimeLimits,
) -> int:
    """Apply what is committed and return how many records that were."""
    logger = logging.getLogger(f"sharemesh.{kind.name}-{index}")
    from_offset = None if kind.restore is None else await kind.restore(machine, index, log)
    begin = log.start_offset if from_offset is None else from_offset
    end = log.committed_end_offset
    began_ms = reported_ms = clock.now_ms()
    count = 0
    with _without_cycle_search():
        async for chunk in log.replay(from_offset):
            for at in range(0, len(chunk), limits.load_slice_records):
                part = chunk[at : at + limits.load_slice_records]
                kind.load(machine, part)
                count += len(part)
                await clock.sleep_ms(0)
                now_ms = clock.now_ms()
                if now_ms - reported_ms >= limits.load_report_interval_ms:
                    reported_ms = now_ms
                    share = (part[-1].offset + 1 - begin) / max(1, end - begin)
                    logger.info("loading: %d records, %.0f %%", count, 100 * share)
    logger.info(
        "loaded %d records, offsets %d to %d, in %d ms",
        count,
        begin,
        end,
        clock.now_ms() - began_ms,
    )
    return count


@contextmanager
def _without_cycle_search() -> Iterator[None]:
    """Keep Python's search for reference cycles off: a load makes none.

    Each search would walk all that was loaded so far, again and again: half of a load's time. Of
    loads that overlap, the one that found it on switches it on again; the others only take longer.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
