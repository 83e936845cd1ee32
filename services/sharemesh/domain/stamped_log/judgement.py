"""What a batch of a stamped log is, from its own bytes and its offset alone (STL-2 to STL-4)."""

from enum import Enum
from typing import NamedTuple

from sharemesh.domain.stamped_log.stamp import (
    BrokenLogError,
    StampedBatch,
    StampKind,
    WriterIdentity,
)


class Judgement(Enum):
    """What a batch is to a reader; only units that count hold records of the log."""

    COUNTS = "counts"
    FENCE = "fence"
    VOID = "void"


def judge(batch: StampedBatch, log: int) -> Judgement:
    """Return what a batch is in the log that is called ``log``.

    Raises:
        BrokenLogError: It can be none of the three: records of it are missing.
    """
    if batch.is_foreign:
        return Judgement.VOID
    held = batch.end_offset - batch.base_offset
    if batch.record_count != held:
        raise BrokenLogError(
            f"the batch at offset {batch.base_offset} has {batch.record_count} records for "
            f"{held} offsets: records were removed, by compaction perhaps",
            batch.base_offset,
        )
    stamp = batch.stamp
    if stamp is None or stamp.log != log:
        return Judgement.VOID  # what a stamp of others says of itself is nothing of ours
    if stamp.record_count != held:
        raise BrokenLogError(
            f"the batch at offset {batch.base_offset} has {held} records, its writer gave it "
            f"{stamp.record_count}",
            batch.base_offset,
        )
    if stamp.kind is StampKind.FENCE:
        return Judgement.FENCE
    return Judgement.COUNTS if stamp.expected == batch.base_offset else Judgement.VOID


class OwnFence(NamedTuple):
    """Where a cluster said that the fence of a take-over lies, and what it found below."""

    own: WriterIdentity
    offset: int
    next_number: int


class ForwardReading:
    """Walks the batches of a log from one offset on, and finds what is missing (STL-4, STL-12).

    Args:
        log: Which log.
        begin: The offset asked for; the first batch holds it.
        fence: Is looked for at its place, if the walk comes there.
    """

    def __init__(self, log: int, begin: int, fence: OwnFence | None = None) -> None:
        self._log = log
        self._fence = fence
        self._begun = False
        self._number = 0 if begin == 0 else -1  # of the next unit; −1: not known
        self.position = begin
        """The offset that the next batch must have."""

    def take(self, batch: StampedBatch) -> Judgement:
        """Return what the next batch is.

        Raises:
            BrokenLogError: There is a hole, or records of it, a unit or the fence are missing.
        """
        base, end = batch.base_offset, batch.end_offset
        if base != self.position and (self._begun or not base < self.position < end):
            raise BrokenLogError(
                f"a batch begins at offset {base} where {self.position} was expected: records "
                "are missing",
                self.position,
            )
        self._begun = True
        found = judge(batch, self._log)
        if self._fence is not None and base <= self._fence.offset < end:
            self._check_fence(batch, self._fence)
        if found is Judgement.COUNTS and batch.stamp is not None:
            self._check_number(batch.stamp.number, base)
            self._number = batch.stamp.number + 1
        self.position = end
        return found

    def _check_fence(self, batch: StampedBatch, fence: OwnFence) -> None:
        if batch.base_offset != fence.offset or batch.stamp != fence.own.fence():
            raise BrokenLogError(
                f"the fence that was written at offset {fence.offset} is not there: the cluster "
                "changes records",
                fence.offset,
            )
        self._check_number(fence.next_number, fence.offset)

    def _check_number(self, number: int, offset: int) -> None:
        if self._number not in (-1, number):
            raise BrokenLogError(
                f"{self._number} units count below offset {offset} where there were {number}",
                offset,
            )
