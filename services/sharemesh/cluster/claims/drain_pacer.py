"""When partitions that leave a node go: one after the other, not all in one turn."""

from sharemesh.ports.clock import Clock


class DrainPacer:
    """Gives each partition that leaves a live node a time of its own.

    A hand-over is short work for five processes. Were all partitions of a node handed over in the
    same moment, each would wait for the work of all; so they go on serving until it is their turn.
    """

    def __init__(self, clock: Clock, *, pace_ms: int, all_within_ms: int) -> None:
        """``pace_ms`` lies between two of them, less if ``all_within_ms`` asks for it."""
        self._clock = clock
        self._pace_ms = pace_ms
        self._all_within_ms = all_within_ms
        self._next_ms: float = clock.now_ms()
        self._in_a_hurry = False

    def turn_ms(self, led: int) -> float:
        """Return when the next partition may go, of ``led`` that might want to."""
        turn_ms = max(self._next_ms, self._clock.now_ms())
        self._next_ms = turn_ms + min(self._pace_ms, self._all_within_ms / max(led, 1))
        return turn_ms

    def left_ms(self, turn_ms: float) -> int:
        """Return how long to wait for a turn."""
        return 0 if self._in_a_hurry else max(0, round(turn_ms - self._clock.now_ms()))

    def hurry(self) -> None:
        """Let everything go at once from now on."""
        self._in_a_hurry = True
