"""How long to wait before a retry: twice as long after each failure, up to a bound, with jitter."""

import random

_DOUBLINGS_MAX = 32  # more would only make the number longer: every bound is reached before

Jitter = tuple[float, float]
"""Each wait is multiplied by a random factor between these two."""

DOWN_TO_80_PERCENT: Jitter = (1.0, 0.8)  # the bound stays the longest wait


def backoff_ms(
    failures: int,
    first_ms: int,
    most_ms: int,
    rng: random.Random | None = None,
    jitter: Jitter = DOWN_TO_80_PERCENT,
) -> int:
    """Return the wait after ``failures`` failures that came before this one.

    ``most_ms`` bounds the wait before jitter, also the first one. Without ``rng`` there is none.
    """
    wait_ms = min(first_ms << min(failures, _DOUBLINGS_MAX), most_ms)
    return wait_ms if rng is None else int(wait_ms * rng.uniform(*jitter))


class Backoff:
    """The waits between the attempts of one thing; parameters as in ``backoff_ms``."""

    def __init__(
        self,
        first_ms: int,
        most_ms: int,
        rng: random.Random | None = None,
        jitter: Jitter = DOWN_TO_80_PERCENT,
    ) -> None:
        self._first_ms = first_ms
        self._most_ms = most_ms
        self._rng = rng
        self._jitter = jitter
        self._failures = 0

    def next_ms(self) -> int:
        """Count a failure and return the wait before the next attempt."""
        wait_ms = backoff_ms(self._failures, self._first_ms, self._most_ms, self._rng, self._jitter)
        self._failures += 1
        return wait_ms

    def reset(self) -> None:
        """Forget the failures: an attempt has succeeded."""
        self._failures = 0
