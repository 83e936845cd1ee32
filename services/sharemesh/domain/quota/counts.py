"""Counts of what is open, by whom: kept as things begin and end, never counted anew (QUO-5)."""


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
