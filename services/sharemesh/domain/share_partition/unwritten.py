"""What took effect before it was written, and could not be written (spec LK-6, RS-11)."""

from collections.abc import Iterable


class Unwritten:
    """Runs of offsets whose state the share coordinator may not know, ascending and apart.

    Kafka leaves them to the next write, which may never come. Then a record that was archived by
    the delivery limit counts as lag for good, and deliveries are counted anew by the next machine.
    """

    __slots__ = ("_is_behind", "_runs")

    def __init__(self) -> None:
        self._runs: list[tuple[int, int]] = []
        self._is_behind = False

    @property
    def is_behind(self) -> bool:
        """Whether a write failed and was not repeated yet: also one that had no runs left."""
        return self._is_behind

    def add(self, runs: Iterable[tuple[int, int]]) -> None:
        """Note a write that failed, with the runs that were in it."""
        self._is_behind = True
        merged: list[tuple[int, int]] = []
        for first, last in sorted((*self._runs, *runs)):
            if merged and first <= merged[-1][1] + 1:
                merged[-1] = (merged[-1][0], max(merged[-1][1], last))
            else:
                merged.append((first, last))
        self._runs = merged

    def take(self) -> list[tuple[int, int]]:
        """Return the runs and forget them: they are about to be written again."""
        runs, self._runs = self._runs, []
        self._is_behind = False
        return runs
