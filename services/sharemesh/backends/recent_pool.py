"""One bound on what the record logs of a process keep in memory, whatever they stand on."""

from collections import deque
from typing import Protocol

from sharemesh.ports.clock import Clock

KEPT_MS = 30_000
"""Pieces of logs on the own disk go after so long (spec BND-32); who reads later reads the disk.

Small batches that stayed until there were 32 MiB of them lay among whatever else was made in those
minutes: once they were dropped, a third of their memory went back to the system (measured).
"""

AGED_AT_ONCE = 16
"""So many old pieces go when one is kept: 20,000 at once, after a silence, would hold the loop."""


class KeepsRecent(Protocol):
    """Something that keeps pieces of one log in memory."""

    def drop_oldest(self) -> int:
        """Drop the piece that was kept first and return what it cost, or 0 if there is none."""
        ...


class RecentPool:
    """The bound that all logs of a process share; the oldest piece goes first."""

    def __init__(self, bytes_max: int, clock: Clock | None = None) -> None:
        """With a clock pieces go ``KEPT_MS`` after they were kept, too, when another one is."""
        self._bytes_max = bytes_max
        self._clock = clock
        self._bytes = 0
        self._order: deque[tuple[KeepsRecent, int]] = deque()

    def took(self, log: KeepsRecent, size_bytes: int) -> None:
        """Count a piece that ``log`` has just kept, and drop old ones, or too many."""
        now_ms = self._clock.now_ms() if self._clock is not None else 0
        self._bytes += size_bytes
        self._order.append((log, now_ms))
        while self._bytes > self._bytes_max and self._order:
            self._drop_oldest()
        if self._clock is not None:
            for _ in range(AGED_AT_ONCE):
                if not self._order or now_ms - self._order[0][1] < KEPT_MS:
                    break
                self._drop_oldest()

    def _drop_oldest(self) -> None:
        log, _ = self._order.popleft()
        self._bytes -= log.drop_oldest()

    def forget(self, log: KeepsRecent) -> None:
        """Drop everything of a log that is closed."""
        self._order = deque(each for each in self._order if each[0] is not log)
        while freed := log.drop_oldest():
            self._bytes -= freed
