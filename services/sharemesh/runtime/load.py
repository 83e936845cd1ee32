"""Replaying a shard log into a machine, without holding the loop up, and telling how far it is."""

import gc
import logging
from collections.abc import Iterator
from contextlib import contextmanager

from sharemesh.ports.clock import Clock
from sharemesh.ports.shard_log import ShardLog
from sharemesh.runtime.limits import RuntimeLimits
from sharemesh.runtime.shard_kind import Machine, Record, ShardDefinition


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
