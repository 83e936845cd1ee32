"""Records of one partition that stay in memory after they were read or watched."""

from bisect import bisect_right, insort
from collections import deque

from sharemesh.backends.kafka.record_logs.fetched_batches import FetchedBatches
from sharemesh.backends.recent_pool import RecentPool

PART_OVERHEAD_BYTES = 512
FRAME_OVERHEAD_BYTES = 300
"""What a kept part and each of its batches cost besides their bytes."""


class ReadCache:
    """Parts of one log, none over another; which offsets they hold is known without a gap."""

    def __init__(self, pool: RecentPool) -> None:
        self._pool = pool
        self._parts: dict[int, FetchedBatches] = {}
        self._starts: list[int] = []
        self._order: deque[int] = deque()

    def add(self, part: FetchedBatches) -> None:
        """Keep what is not here yet of a part, up to the next one that is."""
        fresh = self._fresh(part)
        if fresh is None:
            return
        self._parts[fresh.start_offset] = fresh
        insort(self._starts, fresh.start_offset)
        self._order.append(fresh.start_offset)
        self._pool.took(self, _cost(fresh))

    def find(self, offset: int, end_offset: int, max_bytes: int) -> list[FetchedBatches]:
        """Return the parts from the one that holds ``offset`` on, as far as they are joined."""
        at = bisect_right(self._starts, offset) - 1
        found: list[FetchedBatches] = []
        size = 0
        while 0 <= at < len(self._starts) and size < max_bytes:
            part = self._parts[self._starts[at]]
            if found and part.start_offset != found[-1].end_offset:
                break
            if part.end_offset <= offset or part.start_offset >= end_offset:
                break
            found.append(part)
            size += part.frames[-1].position + part.frames[-1].size_bytes
            at += 1
        return found

    def drop_oldest(self) -> int:
        """Drop the part that was kept first and return what it cost, or 0 if there is none."""
        if not self._order:
            return 0
        start = self._order.popleft()
        part = self._parts.pop(start)
        del self._starts[bisect_right(self._starts, start) - 1]
        return _cost(part)

    def clear(self) -> None:
        """Drop everything."""
        self._pool.forget(self)

    def _fresh(self, part: FetchedBatches) -> FetchedBatches | None:
        start, end = part.start_offset, part.end_offset
        at = bisect_right(self._starts, start)
        if at:
            start = max(start, self._parts[self._starts[at - 1]].end_offset)
        if at < len(self._starts):
            end = min(end, self._starts[at])
        if (start, end) == (part.start_offset, part.end_offset):
            return part if part.frames else None
        frames = tuple(
            frame for frame in part.frames if frame.base_offset >= start and frame.end_offset <= end
        )
        if not frames:
            return None
        first, last = frames[0].position, frames[-1].position + frames[-1].size_bytes
        moved = tuple(frame._replace(position=frame.position - first) for frame in frames)
        return FetchedBatches(start, end, moved, part.data[first:last])


def _cost(part: FetchedBatches) -> int:
    return len(part.data) + PART_OVERHEAD_BYTES + FRAME_OVERHEAD_BYTES * len(part.frames)
