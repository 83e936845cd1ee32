"""What the one writer of a stamped log does next: with an answer, with what it read (STL-5 on)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from sharemesh.domain.stamped_log.judgement import Judgement, judge
from sharemesh.domain.stamped_log.stamp import (
    BrokenLogError,
    Stamp,
    StampedBatch,
    StampKind,
    WriterIdentity,
)
from sharemesh.domain.stamped_log.take_over import NewestUnit


class UnitCounts(NamedTuple):
    """The unit lies where it was expected: confirm it."""

    end: int
    """Up to here all is known: where the next unit is expected."""


class ReadUpTo(NamedTuple):
    """The answer was for a copy further up: read from the expected offset to the copy's end."""

    end: int


class StampAnew(NamedTuple):
    """The copy is void and all up to its end is known: send the unit with a new stamp."""

    end: int


class FencedAbove(NamedTuple):
    """A writer of a higher epoch took over: nothing more may be confirmed."""

    epoch: int
    offset: int


def after_answer(stamp: Stamp, base_offset: int) -> UnitCounts | ReadUpTo:
    """Return what to do when acks=all was answered with where a copy of the unit lies (STL-7).

    Raises:
        BrokenLogError: It lies below what its writer knew: the log was cut.
    """
    if base_offset < stamp.expected:
        raise BrokenLogError(
            f"a unit was written at offset {base_offset} where {stamp.expected} was expected: "
            "records of the log were lost",
            base_offset,
        )
    if base_offset == stamp.expected:
        return UnitCounts(base_offset + stamp.record_count)
    return ReadUpTo(base_offset + stamp.record_count)


def after_reading(
    stamp: Stamp, batches: Sequence[StampedBatch], copy_end: int
) -> UnitCounts | StampAnew | FencedAbove:
    """Return what to do when all from the expected offset to the void copy's end was read (STL-8).

    Where the unit itself is found at its place, the next one is expected behind it, and not
    behind the copy: what lies between is read when the next one turns out void.

    Raises:
        BrokenLogError: A batch is not whole, or a unit of another writer counts.
    """
    for batch in batches:
        found, other = judge(batch, stamp.log), batch.stamp
        if found is Judgement.VOID or other is None:
            continue
        if found is Judgement.FENCE:
            if other.epoch > stamp.epoch:
                return FencedAbove(other.epoch, batch.base_offset)
        elif other == stamp:
            return UnitCounts(batch.end_offset)
        else:
            raise BrokenLogError(
                f"a unit of another writer (epoch {other.epoch}) counts at offset "
                f"{batch.base_offset}, above the fence of epoch {stamp.epoch}",
                batch.base_offset,
            )
    return StampAnew(copy_end)


@dataclass(slots=True)
class WriterPosition:
    """What the writer of a log knows, and which stamp its next unit gets."""

    own: WriterIdentity
    fence: int
    """Where the own fence lies."""
    end: int
    """All below is known: where the next unit is expected."""
    number: int
    """Of the next unit."""
    declared_start: int
    """The log start that the newest unit that counts declares."""
    newest: int
    """Where that unit lies; −1: there is none."""

    @classmethod
    def taken_over(cls, own: WriterIdentity, fence: int, newest: NewestUnit) -> "WriterPosition":
        """Return the position behind the own fence."""
        return cls(own, fence, fence + 1, newest.next_number, newest.declared_start, newest.offset)

    def stamp(self, count: int, start: int) -> Stamp:
        """Return the stamp of the next unit, with the log start that it declares."""
        own = self.own
        return Stamp(
            StampKind.UNIT, own.log, self.end, count, own.epoch, own.writer, self.number, start
        )

    def confirmed(self, stamp: Stamp, end: int) -> None:
        """The unit with this stamp counts; ``end`` is where the next one is expected."""
        self.end = end
        self.number = stamp.number + 1
        self.declared_start = stamp.start
        self.newest = stamp.expected

    def prune_limit(self) -> int:
        """Return below which offset records may be deleted (STL-21).

        A start that was confirmed; never the newest unit, nor while there is none the own fence:
        the next take-over needs it.
        """
        return min(self.declared_start, self.fence if self.newest < 0 else self.newest)
