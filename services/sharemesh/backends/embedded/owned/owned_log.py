"""A log as its owner writes it: commit, check the fence, roll, prune (LOG-7, LOG-16).

All calls block.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import NamedTuple

from sharemesh.backends.embedded.owned.fences import Fences
from sharemesh.backends.embedded.owned.segments import Segment
from sharemesh.backends.embedded.owned.take_over import create_segment, take_over
from sharemesh.backends.embedded.settings import LogSettings
from sharemesh.codec.segment import (
    SEGMENT_HEADER_BYTES,
    CommittedEnd,
    SegmentHeader,
    encode_committed_end,
)
from sharemesh.ports.disk import Disk
from sharemesh.ports.shard_log import CorruptLogError, FencedError, LogFailedError


class LogPosition(NamedTuple):
    """Where a commit put its bytes."""

    segment: Segment
    position: int


class OwnedLog:
    """One log under one epoch; jobs must come one after the other.

    Any failed or short append or sync ends the epoch; it is neither retried nor truncated.
    """

    def __init__(
        self, disk: Disk, path: str, epoch: int, settings: LogSettings, *, salvage: bool = False
    ) -> None:
        """Take the log over; see ``take_over`` for ``salvage``.

        Raises:
            FencedError: A fence at or above ``epoch`` exists.
            LogFailedError: The disk refused.
        """
        self.path = path
        self.epoch = epoch
        self.segment_bytes = settings.segment_bytes
        self._disk = disk
        self._settings = settings
        self._fences = Fences(disk, path, epoch)
        taken = take_over(disk, path, epoch, self._fences, salvage=salvage)
        self.segments = taken.segments
        self.committed_end_offset = taken.end_offset
        self.log_start_offset = taken.log_start_offset
        self.corruption: CorruptLogError | None = taken.corruption
        self.free_bytes = disk.free_bytes()
        self.asks_for_room = True
        """Whether fence checks also read the free space; else appended bytes are subtracted."""
        self.before_change: Callable[[Segment], None] | None = None
        """Called in the job that ends a segment, or deletes some, with the newest segment."""
        self._file = taken.file
        self._slots = taken.slots
        self._sequence = 1
        self._ended: FencedError | LogFailedError | None = None

    def file_of(self, segment: Segment) -> str:
        """Return the path of a segment."""
        return f"{self.path}/{segment.name.file_name}"

    def look(self) -> None:
        """Check that this epoch still owns the log, else end it."""
        self._go_on()
        try:
            self._fences.look()
        except FencedError as error:
            self._ended = error
            raise
        if self.asks_for_room:
            with suppress(OSError):  # then the last answer stands
                self.free_bytes = self._disk.free_bytes()

    def commit(
        self,
        data: Sequence[bytes | bytearray | memoryview],
        end_offset: int,
        log_start_offset: int,
    ) -> LogPosition:
        """Append, sync, check the fence, publish (LOG-7); return where ``data`` lies.

        Args:
            data: Whole record batches, in pieces, with their offsets and this epoch in place.
            end_offset: The end of the log once they are committed.
            log_start_offset: The log start once they are committed; it never goes back.

        Raises:
            FencedError: A higher fence was seen; nothing of this is confirmed.
            LogFailedError: The disk failed; nothing of this is confirmed.
        """
        self._go_on()
        if self._file is None:
            raise self._end(f"is corrupt ({self.corruption}) and takes no writes")
        size = sum(map(len, data))
        try:
            if self._is_full(size):
                self._roll()
            position = self._file.size
            self._file.append(*data)
            if self._settings.fsync:
                self._file.sync()
        except OSError as error:
            raise self._end(f"append or sync failed: {error}") from error
        self.free_bytes -= size
        self.look()
        newest = self.segments[-1]
        newest.end_offset, newest.end_position = end_offset, self._file.size
        self.committed_end_offset = end_offset
        self.log_start_offset = max(self.log_start_offset, log_start_offset)
        try:
            self._publish()
        except OSError as error:
            raise self._end(f"publishing the committed end failed: {error}") from error
        return LogPosition(newest, position)

    def prune(self) -> list[Segment]:
        """Delete segments that lie below the committed log start, oldest first; return them."""
        self._go_on()
        gone: list[Segment] = []
        try:
            if self._file is not None and self._is_spent(self.segments[-1]):
                self._roll()
            while len(self.segments) > 1 and self.segments[0].end_offset <= self.log_start_offset:
                if not gone:
                    self.note_change()
                    self.sync_end()  # the published log start must never lag behind an unlink
                    self.look()
                self._disk.delete(self.file_of(self.segments[0]))
                self._disk.delete(f"{self.path}/{self.segments[0].name.snapshot_name}")
                gone.append(self.segments.pop(0))
        except OSError as error:
            raise self._end(f"pruning failed: {error}") from error
        return gone

    def close(self) -> None:
        """Make the published end durable if that is still ours, and release the files."""
        if self._ended is None:
            with suppress(OSError):  # then the published end lags after a power cut
                self.sync_end()
            self._ended = LogFailedError(f"log {self.path}, epoch {self.epoch} is closed")
        for file in (self._file, self._slots):
            if file is not None:
                file.close()

    def _is_full(self, more_bytes: int) -> bool:
        newest = self.segments[-1]
        return (
            newest.end_position > SEGMENT_HEADER_BYTES
            and newest.end_offset > newest.base_offset
            and newest.end_position + more_bytes > self.segment_bytes
        )

    def _is_spent(self, newest: Segment) -> bool:
        """Whether the open segment holds nothing but what the log start has passed."""
        return newest.base_offset < newest.end_offset <= self.log_start_offset

    def _roll(self) -> None:
        """Begin the next segment: all before it is synced, checked for a fence and published."""
        newest = self.segments[-1]
        self.look()
        self.note_change()
        assert self._file is not None
        if not self._settings.fsync:
            self._file.sync()
        header = SegmentHeader(
            self.epoch, newest.end_offset, newest.name, newest.end_position, self.log_start_offset
        )
        file = create_segment(self._disk, self.path, header, b"")
        self._file.close()
        self._file = file
        self.segments.append(Segment(header.name, header.base_offset, file.size))

    def note_change(self) -> None:
        """Call ``before_change``, if there is one."""
        if self.before_change is not None:
            self.before_change(self.segments[-1])

    def _publish(self) -> None:
        newest = self.segments[-1]
        end = CommittedEnd(
            self.epoch,
            newest.end_offset,
            newest.base_offset,
            newest.end_position,
            self.log_start_offset,
            self._sequence,
        )
        self._sequence += 1
        assert self._slots is not None
        self._slots.write(*encode_committed_end(end))

    def sync_end(self) -> None:
        """Make the published end durable; after a power cut it may lag otherwise."""
        if self._slots is not None:
            self._slots.sync()

    def _go_on(self) -> None:
        if self._ended is not None:
            raise self._ended.with_traceback(None)

    def _end(self, why: str) -> LogFailedError:
        self._ended = LogFailedError(f"log {self.path}, epoch {self.epoch}: {why}")
        return self._ended
