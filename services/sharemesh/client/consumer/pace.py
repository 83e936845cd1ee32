"""How fast an application works, as its polls tell."""

AHEAD_MS = 1_000
"""Records may wait for an application that begins them within so long."""

_DECAY = 0.5
"""Weight of earlier polls against the last one."""


class Pace:
    """Estimates how many waiting records an application can begin soon.

    What a poll returned, over the time until the next poll, is the pace. While the application is
    busy it cannot have worked faster than all that it has, in the time that has passed.
    """

    def __init__(self, unknown: int) -> None:
        """``unknown`` is how many records may wait while nothing is known of the application."""
        self._unknown = unknown
        self._records = 0.0
        self._ms = 0.0
        self._taken = 0
        self._taken_ms = 0

    @property
    def busy_since_ms(self) -> int | None:
        """When the application took the records that it works on; None if it has none."""
        return self._taken_ms if self._taken else None

    @property
    def is_known(self) -> bool:
        """Whether the application is busy, and was measured before."""
        return bool(self._taken and self._ms)

    def took(self, count: int, now_ms: int) -> None:
        """Note that a poll returned ``count`` records."""
        self._taken, self._taken_ms = count, now_ms

    def came_back(self, now_ms: int) -> None:
        """Note that the application polls again, done with what it had."""
        if self._taken:
            self._records = self._records * _DECAY + self._taken
            self._ms = self._ms * _DECAY + max(now_ms - self._taken_ms, 1)
            self._taken = 0

    def workable(self, now_ms: int) -> int:
        """Return how many records behind those that it has the application can begin soon."""
        if not self._taken:
            return self._unknown  # it has nothing to do: whatever comes is begun at once
        passed_ms = max(now_ms - self._taken_ms, 1)
        known = self._records / self._ms if self._ms else None
        expected_ms = self._taken / known if known is not None else 0
        if passed_ms >= expected_ms + AHEAD_MS:
            return 0  # it hangs: nobody knows when it comes back
        most = self._taken / passed_ms
        if known is None:
            return min(self._unknown, int(most * AHEAD_MS))
        rate = min(known, most)
        return max(int(rate * (AHEAD_MS + passed_ms) - self._taken), 0)
