"""Repeats a warning at growing intervals for as long as its cause lasts."""

from collections import OrderedDict
from dataclasses import dataclass

from sharemesh.ports.clock import Clock

FIRST_MS = 1_000
MOST_MS = 30_000
"""Shortest and longest interval between two warnings of the same thing."""

THINGS_MAX = 1_000


@dataclass(slots=True)
class _Said:
    next_ms: int
    pause_ms: int


class RepeatedWarnings:
    """Decides whether to warn now: at once, then after pauses of 1 s, 2 s, 4 s … 30 s."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._said: OrderedDict[str, _Said] = OrderedDict()

    def is_due(self, thing: str) -> bool:
        """Return whether to warn now; a thing that was quiet for twice its pause starts afresh."""
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
