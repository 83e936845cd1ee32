"""Writing one unit after the other into a log that was taken over (STL-5 to STL-8)."""

import logging
from collections.abc import Sequence

from sharemesh.backends.kafka.shard_logs.log_partition import LogPartition, LogStartMovedError
from sharemesh.codec.log_stamp import build_stamped_batch
from sharemesh.domain.stamped_log.stamp import BrokenLogError, Stamp, StampedBatch
from sharemesh.domain.stamped_log.writing import (
    FencedAbove,
    StampAnew,
    UnitCounts,
    WriterPosition,
    after_answer,
    after_reading,
)
from sharemesh.ports.shard_log import FencedError

_log = logging.getLogger(__name__)

_TOLD_NEXT = "its next take-over says what is lost, and what to do"  # a loss, or damage

PlainRecord = tuple[bytes | None, bytes | None, int]
"""Key, value and timestamp in ms."""


class UnitWriter:
    """The one writer of a log; ``write`` is never called while it runs (STL-5)."""

    def __init__(self, partition: LogPartition, position: WriterPosition, limit_ms: int) -> None:
        self._partition = partition
        self._limit_ms = limit_ms
        self.position = position

    async def write(self, records: Sequence[PlainRecord], start: int) -> None:
        """Write records as one unit; return once it counts.

        Raises:
            FencedError: A writer of a higher epoch took over, or a look says so. The outcome of
                what was sent is unknown: it counts if it came before the successor's fence.
            CorruptLogError: The log is not what its writers made of it.
            LogFailedError: The cluster refused or did not answer; the outcome is unknown.
        """
        while True:
            stamp = self.position.stamp(len(records), start)
            base = await self._partition.produce(
                build_stamped_batch(records, stamp), self._limit_ms
            )
            try:
                step = await self._settle(stamp, base)
            except BrokenLogError as error:
                raise self._partition.corrupt(error, _TOLD_NEXT) from error
            if isinstance(step, UnitCounts):
                self.position.confirmed(stamp, step.end)
                return
            if isinstance(step, FencedAbove):
                raise FencedError(
                    f"{self._partition.name}: epoch {step.epoch} took over at offset "
                    f"{step.offset}, epoch {stamp.epoch} has ended",
                    fence_epoch=step.epoch,
                )
            _log.debug("%s: offset %d was taken", self._partition.name, stamp.expected)
            self.position.end = step.end
            self._partition.counts.restamps += 1

    async def _settle(self, stamp: Stamp, base: int) -> UnitCounts | StampAnew | FencedAbove:
        answer = after_answer(stamp, base)
        if isinstance(answer, UnitCounts):
            return answer
        batches: list[StampedBatch] = []
        try:
            async for chunk in self._partition.read(stamp.expected, answer.end, self._limit_ms):
                batches += [each.header for each in chunk]
        except LogStartMovedError as moved:  # only a successor deletes above our end
            raise FencedError(
                f"{self._partition.name}: records up to offset {moved.start} were deleted, which "
                f"only a writer after epoch {stamp.epoch} does"
            ) from moved
        return after_reading(stamp, batches, answer.end)
