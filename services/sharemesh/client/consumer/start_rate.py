"""How many records a second ``run`` hands to handlers (spec CL-44); time is an argument."""

import math

_SECOND_MS = 1_000


class StartRate:
    """Allows starts at a steady rate; what was not used for a while allows a second's worth."""

    def __init__(self, per_second: float, now_ms: int) -> None:
        self._per_ms = per_second / _SECOND_MS
        self._most = max(per_second, 1.0)
        self._left = 1.0
        self._seen_ms = now_ms

    def take(self, now_ms: int) -> bool:
        """Whether one more may start now; counts it."""
        passed_ms = max(now_ms - self._seen_ms, 0)
        self._left = min(self._left + passed_ms * self._per_ms, self._most)
        self._seen_ms = now_ms
        if self._left < 1:
            return False
        self._left -= 1
        return True

    def wait_ms(self) -> int:
        """Return how long to wait for the next one, after ``take`` said no."""
        return max(math.ceil((1 - self._left) / self._per_ms), 1)
