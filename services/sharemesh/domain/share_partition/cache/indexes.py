"""Indexes over the in-flight cache: who holds what, and what is available (REL-1)."""

from collections.abc import Callable
from heapq import heapify, heappop, heappush

from sharemesh.domain.ids import MemberId
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


STALE_BATCHES_KEPT = 256  # bound: the index is cleaned when it has doubled since last time


class Holders:
    """First offsets of the cached batches that each member acquired from; stale ones leave late.

    What a failed write gives back to a member lies in a batch that it acquired from before.
    """

    __slots__ = ("_clean_at", "_count", "_firsts")

    def __init__(self) -> None:
        self._firsts: dict[MemberId, set[int]] = {}
        self._count = 0
        self._clean_at = STALE_BATCHES_KEPT

    def add(self, member_id: MemberId, first_offset: int, is_kept: Callable[[int], bool]) -> None:
        """Note an acquisition out of a batch; ``is_kept`` tells which ones are not stale."""
        firsts = self._firsts.get(member_id)
        if firsts is None:
            firsts = self._firsts[member_id] = set()
        elif first_offset in firsts:
            return
        firsts.add(first_offset)
        self._count += 1
        if self._count >= self._clean_at:
            self._clean(is_kept)

    def members(self) -> list[MemberId]:
        """Return all members that hold something, and more."""
        return list(self._firsts)

    def batches_of(self, member_id: MemberId) -> list[int]:
        """Return first offsets of batches, ascending: all that the member holds of, and more."""
        return sorted(self._firsts.get(member_id, ()))

    def _clean(self, is_kept: Callable[[int], bool]) -> None:
        kept = {
            member_id: {first for first in firsts if is_kept(first)}
            for member_id, firsts in self._firsts.items()
        }
        self._firsts = {member_id: firsts for member_id, firsts in kept.items() if firsts}
        self._count = sum(map(len, self._firsts.values()))
        self._clean_at = max(STALE_BATCHES_KEPT, 2 * self._count)
