"""Segments whose newest record time says nothing of their age (BND-14)."""

from sharemesh.backends.embedded.owned.offset_index import OffsetIndex, SegmentIndex
from sharemesh.codec.segment import SegmentName


class UndatedSegments:
    """Counts their age from when their end was first seen, by the leader's own clock.

    A log from before producers' times were bounded may have records of a far future, and records
    need not have a time at all. Without this, retention would never drop what holds them.
    """

    def __init__(self) -> None:
        self._seen: dict[SegmentName, tuple[int, int]] = {}  # end offset, and when it was seen

    def look(self, index: OffsetIndex, now_ms: int, latest_ms: int) -> None:
        """Note segments without a time, or with one behind ``latest_ms``; forget the others."""
        seen: dict[SegmentName, tuple[int, int]] = {}
        for each in index.segments:
            if not 0 <= each.max_timestamp_ms <= latest_ms:
                known = self._seen.get(each.segment.name)
                is_same = known is not None and known[0] == each.end_offset
                seen[each.segment.name] = known if known and is_same else (each.end_offset, now_ms)
        self._seen = seen

    def newest_ms(self, index: SegmentIndex) -> int:
        """Return a time that the segment's newest record has, or that is later than it came."""
        known = self._seen.get(index.segment.name)
        return index.max_timestamp_ms if known is None else known[1]
