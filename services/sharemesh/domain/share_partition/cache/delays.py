"""Delayed runs by the time at which they become available (spec RTY)."""

from heapq import heapify, heappop, heappush

STALE_DELAYS_KEPT = 256  # bound of the heap: it is cleaned when it has doubled since last time


class Delays:
    """A heap of runs that wait for their not-before; an entry is a hint, the status decides.

    Attributes:
        waiting: The heap of (not-before, first offset, last offset).
        record_count: Records that are delayed now.
    """

    __slots__ = ("_clean_at", "record_count", "waiting")

    def __init__(self) -> None:
        self.waiting: list[tuple[int, int, int]] = []
        self.record_count = 0
        self._clean_at = STALE_DELAYS_KEPT

    def add(self, first: int, last: int, not_before_ms: int, start_offset: int) -> None:
        """Note that a run waits from now on.

        What the start offset has passed since was archived without waiting (OFF-18), and leaves.
        """
        self.record_count += last - first + 1
        heap = self.waiting
        heappush(heap, (not_before_ms, first, last))
        if len(heap) >= self._clean_at:
            self.waiting = [entry for entry in heap if entry[2] >= start_offset]
            heapify(self.waiting)
            self._clean_at = max(STALE_DELAYS_KEPT, 2 * len(self.waiting))

    def left(self, record_count: int) -> None:
        """Note that records wait no longer."""
        self.record_count -= record_count

    def pop_due(self, now_ms: int) -> tuple[int, int] | None:
        """Remove and return the offsets of the next run whose time has come."""
        if not self.waiting or self.waiting[0][0] > now_ms:
            return None
        _, first, last = heappop(self.waiting)
        return first, last

    def earliest_ms(self) -> int | None:
        """Return the earliest not-before, or None if nothing waits."""
        return self.waiting[0][0] if self.waiting else None
