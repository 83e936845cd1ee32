"""Taking a stamped log over: what lies below the own fence (STL-10)."""

from collections.abc import Sequence
from typing import NamedTuple

from sharemesh.domain.stamped_log.judgement import Judgement, judge
from sharemesh.domain.stamped_log.stamp import BrokenLogError, StampedBatch, WriterIdentity

FIRST_WINDOW = 64
"""Offsets below the fence that are read first; each further window is twice as wide."""


class FencedBelow(NamedTuple):
    """A writer of an epoch at least as high was here before."""

    epoch: int
    offset: int


class NewestUnit(NamedTuple):
    """What the newest unit that counts says of the log."""

    next_number: int
    declared_start: int
    offset: int
    """Where it lies; −1 while there is none."""


NO_UNIT = NewestUnit(0, 0, -1)


def newest_in(
    window: Sequence[StampedBatch], own: WriterIdentity
) -> NewestUnit | FencedBelow | None:
    """Look for the newest unit that counts, and for fences above it; None: read further down.

    Args:
        window: What lies below the own fence, or below the window before, ascending.
        own: Who takes over.

    Raises:
        BrokenLogError: A batch is not whole.
    """
    for batch in reversed(window):
        found, stamp = judge(batch, own.log), batch.stamp
        if found is Judgement.VOID or stamp is None or stamp == own.fence():
            continue  # the own fence was repeated, and a copy of it came first
        if stamp.epoch >= own.epoch:
            return FencedBelow(stamp.epoch, batch.base_offset)
        if found is Judgement.COUNTS:
            return NewestUnit(stamp.number + 1, stamp.start, batch.base_offset)
    return None


def check_start(newest: NewestUnit, log_start: int) -> None:
    """Compare where the log begins with where it must.

    Raises:
        BrokenLogError: Somebody else than its writers removed records.
    """
    if log_start > newest.declared_start:
        raise BrokenLogError(
            f"the log begins at offset {log_start}, its writers left it from "
            f"{newest.declared_start} on: records were removed by retention or by others",
            newest.declared_start,
        )
