"""Taking the log of a shard over: write a fence, read what lies below it (STL-9 to STL-11)."""

from sharemesh.backends.kafka.shard_logs.log_partition import LogPartition, LogStartMovedError
from sharemesh.codec.log_stamp import build_stamped_batch
from sharemesh.domain.stamped_log.stamp import BrokenLogError, StampedBatch, WriterIdentity
from sharemesh.domain.stamped_log.take_over import (
    FIRST_WINDOW,
    NO_UNIT,
    FencedBelow,
    NewestUnit,
    check_start,
    newest_in,
)
from sharemesh.domain.stamped_log.writing import WriterPosition
from sharemesh.ports.shard_log import FencedError, LogFailedError

READ_BACKS_MAX = 20  # each further one means that records were deleted meanwhile


async def take_over(
    partition: LogPartition, own: WriterIdentity, *, label: str, timestamp_ms: int, limit_ms: int
) -> WriterPosition:
    """Return the position of the new writer; ``label`` says in the fence who it is.

    Raises:
        FencedError: A writer of an epoch at least as high was here before.
        CorruptLogError: The log is not what its writers made of it.
        LogFailedError: The cluster refused, or did not answer in time.
    """
    await partition.check_topic()
    fence = build_stamped_batch([(None, label.encode(), timestamp_ms)], own.fence())
    offset = await partition.produce(fence, limit_ms)
    for _ in range(READ_BACKS_MAX):
        try:
            newest = await _read_back(partition, own, offset, limit_ms)
        except LogStartMovedError:
            continue
        except BrokenLogError as error:
            await partition.look()  # a successor deletes what a sleeper has not read: no damage
            raise partition.corrupt(error) from error
        return WriterPosition.taken_over(own, offset, newest)
    raise LogFailedError(f"{partition.name}: records are deleted while the log is taken over")


async def _read_back(
    partition: LogPartition, own: WriterIdentity, fence: int, limit_ms: int
) -> NewestUnit:
    """Read windows below the fence, each wider than the one above it."""
    log_start = await partition.log_start(limit_ms)
    newest, end, width = NO_UNIT, fence, FIRST_WINDOW
    while end > log_start:
        begin = max(log_start, end - width)
        window: list[StampedBatch] = []
        async for chunk in partition.read(begin, end, limit_ms):
            window += [each.header for each in chunk]
        found = newest_in(window, own)
        if isinstance(found, FencedBelow):
            raise FencedError(
                f"{partition.name}: epoch {found.epoch} wrote at offset {found.offset}, so epoch "
                f"{own.epoch} may not",
                fence_epoch=found.epoch,
            )
        if found is not None:
            newest = found
            break
        end, width = window[0].base_offset, 2 * width
    check_start(newest, log_start)
    return newest
