"""Answers about many names are computed in slices: other requests run in between (BND-20)."""

import asyncio
from weakref import WeakKeyDictionary

from sharemesh.arriving_calls import arriving_calls
from sharemesh.ports.clock import Clock

UNITS_OF_A_SLICE = 50
"""Names checked, or partitions answered, in a turn of the loop: 1 to 4 ms of processor time."""

_ENDS_OF_SLICES: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = WeakKeyDictionary()
"""Who ends a slice waits here for those that ended one before, in each loop."""


class Slices:
    """Counts the work of one request, and ends the turn of the loop after each slice.

    However many requests have more to do, there is a slice of one of them in a turn: who asks
    for little waits for one slice, and not for one of each. Calls that arrive begin in between.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._left = UNITS_OF_A_SLICE

    async def spend(self, units: int = 1) -> None:
        """Note work that is done."""
        self._left -= units
        if self._left <= 0:
            self._left = UNITS_OF_A_SLICE
            async with _ENDS_OF_SLICES.setdefault(asyncio.get_running_loop(), asyncio.Lock()):
                pause = arriving_calls().pause()
                await self._clock.sleep_ms(0)
                while not pause.is_over():
                    await self._clock.sleep_ms(0)
