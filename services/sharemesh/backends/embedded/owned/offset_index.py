"""From offsets and times to positions: a sparse index in memory, rebuilt from headers at open."""

from array import array
from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field

from sharemesh.backends.embedded.owned.segments import Segment
from sharemesh.codec.segment import SEGMENT_HEADER_BYTES


def _longs() -> "array[int]":
    return array("q")


@dataclass(slots=True)
class SegmentIndex:
    """One segment: an entry about every ``interval_bytes``; ends are committed ones.

    ``begin`` is (offset, position) of the first frame that may be read.
    """

    segment: Segment
    interval_bytes: int
    end_offset: int
    end_position: int = SEGMENT_HEADER_BYTES
    max_timestamp_ms: int = -1
    offsets: "array[int]" = field(default_factory=_longs)
    positions: "array[int]" = field(default_factory=_longs)
    earlier_max_ms: "array[int]" = field(default_factory=_longs)  # of all before the entry
    begin: tuple[int, int] = (-1, -1)

    def __post_init__(self) -> None:
        if self.begin == (-1, -1):
            self.begin = (self.segment.base_offset, SEGMENT_HEADER_BYTES)

    @property
    def base_offset(self) -> int:
        """The first offset that the segment can hold."""
        return self.segment.base_offset

    def add(self, *, position: int, size_bytes: int, base: int, end: int, max_ms: int) -> None:
        """Add the next frame."""
        if not self.positions or position - self.positions[-1] >= self.interval_bytes:
            self.offsets.append(base)
            self.positions.append(position)
            self.earlier_max_ms.append(self.max_timestamp_ms)
        self.end_offset = end
        self.end_position = position + size_bytes
        self.max_timestamp_ms = max(self.max_timestamp_ms, max_ms)

    def begin_at(self, offset: int, position: int) -> None:
        """Forget what lies before a frame: below the log start nothing is read any more."""
        first = bisect_right(self.offsets, offset - 1)
        del self.offsets[:first]
        del self.positions[:first]
        del self.earlier_max_ms[:first]
        if not self.offsets or self.offsets[0] != offset:
            self.offsets.insert(0, offset)
            self.positions.insert(0, position)
            self.earlier_max_ms.insert(0, -1)
        self.begin = (offset, position)

    def floor(self, offset: int) -> tuple[int, int]:
        """Return (offset, position) of a frame that begins at or before ``offset``."""
        at = bisect_right(self.offsets, offset) - 1
        if at < 0:
            return self.begin
        return self.offsets[at], self.positions[at]

    def ceiling(self, offset: int) -> int:
        """Return a position that all before ``offset`` lies below: about, while frames come."""
        at = bisect_left(self.offsets, offset)
        return self.positions[at] if at < len(self.positions) else self.end_position

    def at_position(self, position: int) -> tuple[int, int]:
        """Return (offset, position) of a frame that begins at or before ``position``."""
        at = bisect_right(self.positions, position) - 1
        if at < 0:
            return self.begin
        return self.offsets[at], self.positions[at]

    def about(self, offset: int) -> int:
        """Return about where ``offset`` lies, between the entries around it."""
        at = bisect_right(self.offsets, offset) - 1
        if at < 0:
            return self.begin[1]
        last = at + 1 == len(self.offsets)
        next_offset = self.end_offset if last else self.offsets[at + 1]
        next_position = self.end_position if last else self.positions[at + 1]
        first, begin = self.offsets[at], self.positions[at]
        if next_offset <= first:
            return begin
        share = min(offset, next_offset) - first
        return begin + (next_position - begin) * share // (next_offset - first)

    def before_time(self, timestamp_ms: int) -> tuple[int, int]:
        """Return (offset, position) behind which the first frame with this time or later lies."""
        low, high = 0, len(self.offsets)
        while low < high:
            middle = (low + high) // 2
            if self.earlier_max_ms[middle] < timestamp_ms:
                low = middle + 1
            else:
                high = middle
        if low == 0:
            return self.begin
        return self.offsets[low - 1], self.positions[low - 1]


class OffsetIndex:
    """All segments of one log, oldest first."""

    def __init__(self, interval_bytes: int) -> None:
        self.interval_bytes = interval_bytes
        self._bases: list[int] = []
        self.segments: list[SegmentIndex] = []

    def open_segment(self, segment: Segment) -> SegmentIndex:
        """Return the index of ``segment``, which is the newest or becomes it."""
        if self.segments and self.segments[-1].segment is segment:
            return self.segments[-1]
        index = SegmentIndex(segment, self.interval_bytes, segment.base_offset)
        self.segments.append(index)
        self._bases.append(segment.base_offset)
        return index

    def take(self, index: SegmentIndex) -> None:
        """Add the index of the next segment, as a snapshot had it."""
        self.segments.append(index)
        self._bases.append(index.base_offset)

    def drop(self, gone: list[Segment]) -> None:
        """Forget segments that were deleted."""
        names = {segment.name for segment in gone}
        self.segments = [kept for kept in self.segments if kept.segment.name not in names]
        self._bases = [kept.base_offset for kept in self.segments]

    def first_at(self, offset: int) -> int:
        """Return the place in ``segments`` of the one that holds ``offset``, or the next one."""
        at = max(0, bisect_right(self._bases, offset) - 1)
        while at < len(self.segments) and self.segments[at].end_offset <= offset:
            at += 1
        return at

    def bytes_between(self, offset: int, end_offset: int) -> int:
        """Return about how many bytes lie between; at least 1 if any offset does."""
        if offset >= end_offset:
            return 0
        total = 0
        for index in self.segments[self.first_at(offset) :]:
            if index.base_offset >= end_offset:
                break
            total += index.about(end_offset) - index.about(offset)
        return max(1, total)

    def total_bytes(self) -> int:
        """Return the bytes of all segments."""
        return sum(index.end_position for index in self.segments)
