"""Committed batches kept in memory, so that reads near the end of a log need no disk access."""

from bisect import bisect_right
from typing import NamedTuple

from sharemesh.backends.recent_pool import RecentPool
from sharemesh.codec.batch_frame import CONTROL, Frame, header_of
from sharemesh.domain.record_batch import BatchHeader
from sharemesh.ports.record_log import ReadResult

BATCH_OVERHEAD_BYTES = 1024  # what a kept batch costs besides its bytes
_COMPACT_FROM = 256

Pieces = tuple[bytes | bytearray | memoryview, ...]


class _Kept(NamedTuple):
    frame: Frame
    pieces: Pieces
    is_abort: bool


class RecentBatches:
    """The newest committed batches of one log, without a gap up to its high watermark."""

    def __init__(self, pool: RecentPool) -> None:
        self._pool = pool
        self._bases: list[int] = []
        self._kept: list[_Kept] = []
        self._first = 0  # what lies before is dropped, and cut off now and then

    def add(self, frames: list[Frame], pieces: Pieces, *, is_abort: bool) -> None:
        """Keep committed batches; ``pieces`` hold them in order, equally many for each."""
        if not frames:
            return
        share = len(pieces) // len(frames)
        for number, frame in enumerate(frames):
            self._bases.append(frame.base_offset)
            self._kept.append(_Kept(frame, pieces[number * share : (number + 1) * share], is_abort))
            self._pool.took(self, frame.size_bytes + BATCH_OVERHEAD_BYTES)

    def read(self, offset: int, end_offset: int, max_bytes: int) -> ReadResult | None:
        """Return whole batches as the disk would, or None if the first one is not here."""
        at = bisect_right(self._bases, offset, self._first) - 1
        if at < self._first:
            return None
        pieces: list[bytes | bytearray | memoryview] = []
        headers: list[BatchHeader] = []
        total = 0
        for number in range(at, len(self._kept)):
            frame, parts, is_abort = self._kept[number]
            if frame.base_offset >= end_offset:
                break
            total += frame.size_bytes
            if headers and total > max_bytes:
                break
            pieces += parts
            aborts = is_abort and bool(frame.attributes & CONTROL)
            headers.append(header_of(frame, is_abort_marker=aborts))
        return ReadResult(b"".join(pieces), tuple(headers))

    def drop_oldest(self) -> int:
        """Drop one batch and return what it cost, or 0 if there is none."""
        if self._first >= len(self._kept):
            return 0
        frame = self._kept[self._first].frame
        self._first += 1
        if self._first >= _COMPACT_FROM and self._first * 2 > len(self._kept):
            del self._bases[: self._first]
            del self._kept[: self._first]
            self._first = 0
        else:
            self._kept[self._first - 1] = _Kept(frame, (), is_abort=False)
        return frame.size_bytes + BATCH_OVERHEAD_BYTES

    def clear(self) -> None:
        """Drop everything."""
        self._pool.forget(self)
        self._bases.clear()
        self._kept.clear()
        self._first = 0
