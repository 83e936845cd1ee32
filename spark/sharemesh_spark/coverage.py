"""Which offsets of the share state log are known, and which were pruned unread (spec REP-3)."""

from collections.abc import Iterable

Range = tuple[int, int]
"""Offsets from the first to the second, exclusive."""


def holes_between(known: Iterable[Range], end: int) -> list[Range]:
    """Return what of ``[0, end)`` is in none of the known ranges, lowest first."""
    found, reached = [], 0
    for low, high in sorted(known):
        if low >= end:
            break
        if low > reached:
            found.append((reached, low))
        reached = max(reached, high)
    if reached < end:
        found.append((reached, end))
    return found
