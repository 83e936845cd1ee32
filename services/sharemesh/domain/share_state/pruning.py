"""Which part of a state log is redundant (spec PRN)."""

from collections import OrderedDict
from collections.abc import Hashable


class RedundantOffsets:
    """Remembers where the latest snapshot of each key lies; what lies below all of them can go.

    Offsets must arrive in rising order, as in the log.
    """

    def __init__(self) -> None:
        self._latest: OrderedDict[Hashable, int] = OrderedDict()  # lowest offset first
        self._offset = 0

    @property
    def offset(self) -> int | None:
        """The first offset that is still needed; None if nothing is redundant (PRN-3)."""
        return self._offset if self._offset > 0 else None

    def snapshot(self, key: Hashable, offset: int) -> None:
        """A snapshot of ``key`` was written at ``offset`` (PRN-1)."""
        self._latest[key] = offset
        self._latest.move_to_end(key)
        self._advance()

    def deleted(self, key: Hashable, offset: int) -> None:
        """``key`` was deleted by a tombstone at ``offset``, which counts this once (PRN-2)."""
        self.snapshot(key, offset)
        del self._latest[key]

    def _advance(self) -> None:
        lowest = next(iter(self._latest.values()))
        self._offset = max(self._offset, lowest)
