"""The log of one coordinator shard: share state log and group log."""

from collections.abc import AsyncIterator, Sequence
from typing import NamedTuple, Protocol


class FencedError(Exception):
    """A higher epoch owns this log: nothing of the failed call was confirmed, nor will be.

    The outcome of what was sent before is unknown: the next owner's load says whether it counts.
    ``fence_epoch`` is the highest fence that was seen, -1 if that is not known.
    """

    def __init__(self, *args: object, fence_epoch: int = -1) -> None:
        super().__init__(*args)
        self.fence_epoch = fence_epoch


class LogFailedError(Exception):
    """The epoch of this log ended: an append or a sync failed. Open it again with a new epoch."""


class LogFullError(LogFailedError):
    """Refused before anything was written: too little space is left. The epoch stays in force."""


class CorruptLogError(Exception):
    """Bytes that must be whole are not; the message names the place and the offset.

    ``file`` is a file of the log or the partition that holds it; ``position`` is −1 without one.
    """

    def __init__(
        self, message: str, *, file: str = "", position: int = -1, offset: int = -1
    ) -> None:
        super().__init__(message)
        self.file = file
        self.position = position
        self.offset = offset


class LossFoundError(CorruptLogError):
    """Confirmed records are missing at the end; what remembers the loss tells it (STL-25)."""


class LogRecord(NamedTuple):
    """One record of a shard log; an absent value is a tombstone of the key.

    A named tuple, because a replay makes millions of them.
    """

    key: bytes
    value: bytes | None
    offset: int = -1
    timestamp_ms: int = 0


class ShardLog(Protocol):
    """An open shard log: its one writer of one epoch."""

    @property
    def epoch(self) -> int:
        """The epoch under which this log was taken over."""
        ...

    @property
    def start_offset(self) -> int:
        """The first offset that still counts; what lies below is pruned."""
        ...

    @property
    def end_offset(self) -> int:
        """The offset that the next record gets."""
        ...

    @property
    def committed_end_offset(self) -> int:
        """Everything below is durable and confirmed."""
        ...

    def replay(self, from_offset: int | None = None) -> AsyncIterator[Sequence[LogRecord]]:
        """Yield what is committed, oldest first, in chunks (whole record batches)."""
        ...

    def append(self, records: Sequence[LogRecord]) -> int:
        """Queue records as one atomic batch and return the offset of the last one.

        They are not durable yet: wait with ``committed(offset + 1)``. Appends of one tick are
        synced together (group commit). A log may put them higher, never lower (STL-14).

        Raises:
            FencedError, LogFailedError: The log is no longer ours.
        """
        ...

    def has_room(self, more_bytes: int) -> bool:
        """Whether an append of that many bytes would be taken, as far as is known now.

        A machine that is ahead of its log asks before it changes.
        """
        ...

    def why_no_room(self) -> str:
        """Return why ``has_room`` says no, and what to do."""
        ...

    async def refresh_room(self) -> None:
        """Ask again whether there is room, where that can be asked."""
        ...

    async def committed(self, end_offset: int) -> None:
        """Return once everything below ``end_offset`` is durable and no higher fence was seen.

        That includes all that was appended before this call. Also for answers that only read: the
        check happens after this call (LOG-8, STL-17).

        Raises:
            FencedError, LogFailedError: It never will be, by this writer.
        """
        ...

    async def delete_before(self, offset: int) -> None:
        """Move the log start (a committed record first, then what lies below may go)."""
        ...

    async def close(self) -> None:
        """Stop writing; queued records are committed first if that is still possible."""
        ...


class ShardLogs(Protocol):
    """All shard logs of one kind; ``name`` is for example ``state`` or ``group``."""

    async def open(self, name: str, shard: int, epoch: int) -> ShardLog:
        """Take the log over under ``epoch`` (LOG-5, STL-9).

        Raises:
            FencedError: A fence at or above ``epoch`` exists.
            CorruptLogError: Committed bytes cannot be read.
            LogFailedError: The storage refused or did not answer.
        """
        ...
