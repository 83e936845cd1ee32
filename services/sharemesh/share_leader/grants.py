"""Which acquisition a locked record belongs to: for links, parents and latencies, not for rules."""

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from sharemesh.domain.delivery_state import Cause
from sharemesh.telemetry.trace_context import TraceContext

GRANTS_MAX = 4_096
"""Acquisitions remembered for one share partition; beyond, the lowest offsets are forgotten."""


class Grant(NamedTuple):
    """One acquired range, both ends included; ``context`` is None while no spans are made.

    Also used for what became of a range: then ``cause`` says why.
    """

    first_offset: int
    last_offset: int
    granted_ns: int
    context: TraceContext | None
    cause: Cause = Cause.UNSPECIFIED


class Grants:
    """The latest acquisition of each range, ascending by first offset."""

    __slots__ = ("_firsts", "_grants")

    def __init__(self) -> None:
        self._firsts: list[int] = []
        self._grants: list[Grant] = []

    def __len__(self) -> int:
        return len(self._grants)

    def add(self, grant: Grant) -> None:
        """Remember a range; earlier grants inside it are forgotten."""
        first = grant.first_offset
        firsts, grants = self._firsts, self._grants
        if not firsts or first > firsts[-1]:
            firsts.append(first)
            grants.append(grant)
        else:
            low = bisect_right(firsts, first - 1)
            high = low
            while high < len(grants) and grants[high].last_offset <= grant.last_offset:
                high += 1
            firsts[low:high] = [first]
            grants[low:high] = [grant]
        if len(firsts) > GRANTS_MAX:
            del firsts[: GRANTS_MAX // 4], grants[: GRANTS_MAX // 4]

    def of(self, ranges: Iterable[tuple[int, int]]) -> Iterator[Grant]:
        """Yield the grants that these ranges begin in or run over, each once in a row."""
        grants = self._grants
        before: Grant | None = None
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
