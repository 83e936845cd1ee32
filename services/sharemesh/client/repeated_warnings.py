"""Says what stays wrong again and again, but ever more seldom."""

from collections import OrderedDict
from dataclasses import dataclass

from sharemesh.ports.clock import Clock

FIRST_MS = 1_000
MOST_MS = 30_000
"""The same thing is said at most once in the first, later at least once in the second."""

THINGS_MAX = 1_000


@dataclass(slots=True)
class _Said:
    next_ms: int
    pause_ms: int


class RepeatedWarnings:
    """Decides whether something is said now: at once, after 1 s, 2 s, 4 s … 30 s of going wrong."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._said: OrderedDict[str, _Said] = OrderedDict()

    def is_due(self, thing: str) -> bool:
        """Return whether to say it now; what was quiet for twice its pause begins anew."""
        now_ms = self._clock.now_ms()
        said = self._said.get(thing)
        if said is None or now_ms >= said.next_ms + said.pause_ms:
            self._said[thing] = _Said(now_ms + FIRST_MS, FIRST_MS)
            self._said.move_to_end(thing)
            if len(self._said) > THINGS_MAX:
                self._said.popitem(last=False)
            return True
        if now_ms < said.next_ms:
            return False
        said.pause_ms = min(2 * said.pause_ms, MOST_MS)
        said.next_ms = now_ms + said.pause_ms
        return True
