"""Which acquisition a locked record belongs to: for links, parents and latencies, not for rules."""

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from sharemesh.domain.delivery_state import Cause
from sharemesh.telemetry.trace_context import TraceContext

GRANTS_MAX = 4_096
"""Acquisitions remembered for one share partition; beyond, the lowest offsets are forgotten."""


class IndexedAcquisition(NamedTuple):
    """One acquired range, both ends included; ``context`` is None while no spans are made.

    Also used for what became of a range: then ``cause`` says why.
    """

    first_offset: int
    last_offset: int
    granted_ns: int
    context: TraceContext | None
    cause: Cause = Cause.UNSPECIFIED


class AcquisitionIndex:
    """The latest acquisition of each offset: ranges without overlap, ascending."""

    __slots__ = ("_firsts", "_grants")

    def __init__(self) -> None:
        self._firsts: list[int] = []
        self._grants: list[IndexedAcquisition] = []

    def __len__(self) -> int:
        return len(self._grants)

    def add(self, grant: IndexedAcquisition) -> None:
        """Remember a range; what earlier grants had of it is forgotten."""
        first, last = grant.first_offset, grant.last_offset
        firsts, grants = self._firsts, self._grants
        if not grants or first > grants[-1].last_offset:
            firsts.append(first)
            grants.append(grant)
        else:
            low = bisect_right(firsts, first)
            while low and grants[low - 1].last_offset >= first:
                low -= 1
            high = low
            while high < len(grants) and grants[high].first_offset <= last:
                high += 1
            kept = [grant]
            if low < high and grants[low].first_offset < first:
                kept.insert(0, grants[low]._replace(last_offset=first - 1))
            if low < high and grants[high - 1].last_offset > last:
                kept.append(grants[high - 1]._replace(first_offset=last + 1))
            firsts[low:high] = [each.first_offset for each in kept]
            grants[low:high] = kept
        if len(firsts) > GRANTS_MAX:
            del firsts[: GRANTS_MAX // 4], grants[: GRANTS_MAX // 4]

    def of(self, ranges: Iterable[tuple[int, int]]) -> Iterator[IndexedAcquisition]:
        """Yield the grants that these ranges begin in or run over, each once in a row."""
        grants = self._grants
        before: IndexedAcquisition | None = None
        for first, last in ranges:
            position = max(0, bisect_right(self._firsts, first) - 1)
            while position < len(grants) and grants[position].first_offset <= last:
                grant = grants[position]
                if grant.last_offset >= first and grant is not before:
                    before = grant
                    yield grant
                position += 1

    def forget_below(self, offset: int) -> None:
        """Forget what ends below ``offset``: it is finished."""
        if not self._grants or self._grants[0].last_offset >= offset:
            return
        end = bisect_right(self._firsts, offset - 1)
        if end and self._grants[end - 1].last_offset >= offset:
            end -= 1
        del self._firsts[:end], self._grants[:end]
