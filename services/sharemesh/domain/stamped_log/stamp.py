"""What a batch of a stamped log says of itself, and the words for reading one."""

from enum import IntEnum
from typing import NamedTuple


class BrokenLogError(Exception):
    """The log is not what its writers made of it; ``offset`` is where (STL-4)."""

    def __init__(self, message: str, offset: int) -> None:
        super().__init__(message)
        self.offset = offset


class StampKind(IntEnum):
    """What a stamped batch is."""

    UNIT = 1  # records of the log, all or none of which count
    FENCE = 2  # the mark of a take-over


class Stamp(NamedTuple):
    """What stands in a batch about itself (STL-1)."""

    kind: StampKind
    log: int
    """Which log: a copy of another one does not count here."""
    expected: int
    """The offset at which its writer expects the batch; −1 in a fence."""
    record_count: int
    """Records in the batch."""
    epoch: int
    """The shard epoch of its writer."""
    writer: int
    """Random, made anew at each take-over."""
    number: int
    """How many units count below this one."""
    start: int
    """The log start that its writer declares."""


class StampedBatch(NamedTuple):
    """One batch as it lies in the log, whatever wrote it."""

    base_offset: int
    end_offset: int
    """One past its last offset."""
    record_count: int
    is_foreign: bool
    """Control batches and batches of transactions, which no writer of ours makes."""
    stamp: Stamp | None


class WriterIdentity(NamedTuple):
    """What all stamps of one writer have in common."""

    log: int
    epoch: int
    writer: int

    def fence(self) -> Stamp:
        """Return the stamp of this writer's fence."""
        return Stamp(StampKind.FENCE, self.log, -1, 1, self.epoch, self.writer, 0, 0)
