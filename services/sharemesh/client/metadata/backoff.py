"""How long to wait before the next try: doubled each time, with chance so that clients spread."""

import random

_DOUBLINGS_MAX = 16
_SPREAD = 0.2


class Backoff:
    """Waits of one thing that may fail repeatedly; bounds in ms, both included."""

    def __init__(self, first_ms: int, most_ms: int, chance: random.Random) -> None:
        self._first_ms = first_ms
        self._most_ms = max(first_ms, most_ms)
        self._chance = chance
        self._failures = 0

    def next_ms(self) -> int:
        """Return the wait after one more failure."""
        wait = min(self._first_ms << min(self._failures, _DOUBLINGS_MAX), self._most_ms)
        self._failures += 1
        return int(wait * (1 - _SPREAD * self._chance.random()))

    def reset(self) -> None:
        """Forget failures: something worked."""
        self._failures = 0
