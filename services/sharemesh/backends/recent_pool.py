"""One bound on what the record logs of a process keep in memory, whatever they stand on."""

from collections import deque
from typing import Protocol


class KeepsRecent(Protocol):
    """Something that keeps pieces of one log in memory."""

    def drop_oldest(self) -> int:
        """Drop the piece that was kept first and return what it cost, or 0 if there is none."""
        ...


class RecentPool:
    """The bound that all logs of a process share; the oldest piece goes first."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._bytes = 0
        self._order: deque[KeepsRecent] = deque()

    def took(self, log: KeepsRecent, size_bytes: int) -> None:
        """Count a piece that ``log`` has just kept, and drop the oldest ones beyond the bound."""
        self._bytes += size_bytes
        self._order.append(log)
        while self._bytes > self._bytes_max and self._order:
            self._bytes -= self._order.popleft().drop_oldest()

    def forget(self, log: KeepsRecent) -> None:
        """Drop everything of a log that is closed."""
        self._order = deque(other for other in self._order if other is not log)
        while freed := log.drop_oldest():
            self._bytes -= freed
