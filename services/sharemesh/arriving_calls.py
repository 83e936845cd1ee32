"""Calls that arrive begin before work that can wait goes on (spec BND-20, BND-28)."""

import asyncio
from weakref import WeakKeyDictionary

QUIET_TURNS = 16
"""Turns of the loop without a new call after which none is on its way: gRPC hands a call over some
six turns after the one before."""

PAUSED_MAX_S = 1.0
"""What pauses may take at once."""

PAUSED_SHARE = 0.5
"""What pauses may take for long, as a share of time: work goes on however many calls come."""


class ArrivingCalls:
    """Counts the calls that begin in one loop, and makes pauses in which they do.

    gRPC hands calls over one at a time, in the order in which they came from all clients, each
    some turns after the one before. If work were done in each of these turns, who asks for little
    would wait for a piece of work for each large request that came before.
    """

    def __init__(self) -> None:
        self.begun = 0
        self._seen = 0  # how many had begun when the last pause was over
        self._left_s = PAUSED_MAX_S
        self._ended_s = 0.0

    def pause(self) -> "Pause":
        """Return a pause that begins now; where no call came since the last one it ends at once."""
        now_s = asyncio.get_running_loop().time()
        saved_s = PAUSED_SHARE * (now_s - self._ended_s)
        self._left_s = min(PAUSED_MAX_S, self._left_s + saved_s)
        return Pause(self, self._seen, now_s, now_s + self._left_s)

    def ended(self, began_s: float) -> None:
        """A pause is over: what has begun is seen."""
        self._seen = self.begun
        self._ended_s = asyncio.get_running_loop().time()
        self._left_s -= self._ended_s - began_s


class Pause:
    """Lasts while calls arrive, within what pauses may take."""

    __slots__ = ("_began_s", "_begun", "_calls", "_quiet_turns", "_until_s")

    def __init__(self, calls: ArrivingCalls, begun: int, now_s: float, until_s: float) -> None:
        self._calls = calls
        self._begun = begun
        self._began_s = now_s
        self._until_s = until_s
        self._quiet_turns = QUIET_TURNS

    def is_over(self) -> bool:
        """Return whether work may go on; to be asked once in each turn of the loop."""
        if self._calls.begun != self._begun:
            self._begun = self._calls.begun
            self._quiet_turns = 0
        else:
            self._quiet_turns += 1
        loop = asyncio.get_running_loop()
        if self._quiet_turns < QUIET_TURNS and loop.time() < self._until_s:
            return False
        self._calls.ended(self._began_s)
        return True


_OF_LOOPS: WeakKeyDictionary[asyncio.AbstractEventLoop, ArrivingCalls] = WeakKeyDictionary()


def arriving_calls() -> ArrivingCalls:
    """Return the calls of the loop that runs."""
    loop = asyncio.get_running_loop()
    try:
        return _OF_LOOPS[loop]
    except KeyError:
        return _OF_LOOPS.setdefault(loop, ArrivingCalls())
