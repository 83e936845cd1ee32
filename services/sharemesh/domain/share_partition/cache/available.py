"""Which offset can be acquired next, without looking through the cache."""

from collections.abc import Callable
from heapq import heapify, heappop, heappush

from sharemesh.domain.share_partition.cache.record_status import RecordStatus

STALE_OFFSETS_KEPT = 256  # bound of the heap: it is cleaned when it has doubled since last time


class AvailableOffsets:
    """A heap of offsets at which a run of available records began; stale ones leave lazily."""

    __slots__ = ("_clean_at", "_offsets")

    def __init__(self) -> None:
        self._offsets: list[int] = []
        self._clean_at = STALE_OFFSETS_KEPT

    def add(self, offset: int) -> None:
        """Note that the record at ``offset`` can be acquired and may be the first such one."""
        heappush(self._offsets, offset)

    def first(self, status_at: Callable[[int], RecordStatus | None]) -> int | None:
        """Return the lowest offset whose status now is acquirable, or None."""
        offsets = self._offsets
        if len(offsets) >= self._clean_at:
            offsets = self._offsets = [o for o in set(offsets) if _acquirable(status_at(o))]
            heapify(offsets)
            self._clean_at = max(STALE_OFFSETS_KEPT, 2 * len(offsets))
        while offsets:
            if _acquirable(status_at(offsets[0])):
                return offsets[0]
            heappop(offsets)
        return None


def _acquirable(status: RecordStatus | None) -> bool:
    return status is not None and status.acquirable
