"""Counts of what is open, by whom: kept as things begin and end, never counted anew (QUO-12)."""

from collections.abc import Callable


class OpenCounts:
    """How many things each has; who has none is not remembered.

    Attributes:
        total: How many all have.
    """

    def __init__(self) -> None:
        self.total = 0
        self._counts: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._counts)

    def of(self, name: str) -> int:
        """Return how many this one has."""
        return self._counts.get(name, 0)

    def add(self, name: str, difference: int = 1) -> None:
        """Count more, or fewer."""
        self.total += difference
        count = self._counts.get(name, 0) + difference
        if count:
            self._counts[name] = count
        else:
            self._counts.pop(name, None)


class HeldRecords:
    """What one principal holds; locks that it bounds count here themselves, record by record.

    Attributes:
        count: Records that are held.
        reserved: Records that fetches which are under way may come to hold.
        is_awaited: Whether somebody waits for room; else nobody is told that there is more.
    """

    __slots__ = ("_freed", "_name", "count", "is_awaited", "reserved")

    def __init__(self, name: str, freed: Callable[[str], None]) -> None:
        """``freed`` is called with the name when fewer are held and somebody waits."""
        self._name = name
        self._freed = freed
        self.count = 0
        self.reserved = 0
        self.is_awaited = False

    @property
    def is_idle(self) -> bool:
        """Whether nothing would be lost if it were forgotten."""
        return not (self.count or self.reserved or self.is_awaited)

    def tell(self) -> None:
        """Say that there is more room."""
        self._freed(self._name)
