"""Counts of what is open, by whom: kept as things begin and end, never counted anew (QUO-12)."""

from collections.abc import Callable


class OpenCounts:
    """How many things each has; who has none is not remembered."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._counts)

    def of(self, name: str) -> int:
        """Return how many this one has."""
        return self._counts.get(name, 0)

    def add(self, name: str, difference: int = 1) -> None:
        """Count more, or fewer."""
        count = self._counts.get(name, 0) + difference
        if count:
            self._counts[name] = count
        else:
            self._counts.pop(name, None)


class HeldRecords:
    """What one principal holds, of counts that others keep too; locks add and subtract here."""

    __slots__ = ("_counts", "_freed", "_name")

    def __init__(self, counts: OpenCounts, name: str, freed: Callable[[str], None]) -> None:
        """``freed`` is called with the name each time fewer are held."""
        self._counts = counts
        self._name = name
        self._freed = freed

    def add(self, difference: int) -> None:
        """Count more, or fewer."""
        self._counts.add(self._name, difference)
        if difference < 0:
            self._freed(self._name)
