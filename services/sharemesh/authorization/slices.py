"""Answers about many names are computed in slices: other requests run in between (BND-20)."""

import asyncio
from weakref import WeakKeyDictionary

from sharemesh.arriving_calls import arriving_calls
from sharemesh.places import SharedPlaces
from sharemesh.ports.clock import Clock

UNITS_OF_A_SLICE = 50
"""Names checked, or partitions answered, in a turn of the loop: 1 to 4 ms of processor time."""

_ENDS_OF_SLICES: WeakKeyDictionary[asyncio.AbstractEventLoop, SharedPlaces] = WeakKeyDictionary()
"""Who ends a slice waits here for its principal's turn, in each loop."""


class Slices:
    """Counts the work of one request, and ends the turn of the loop after each slice.

    However many requests have more to do, there is a slice of one of them in a turn, and turns
    go round the principals: who asks for little waits for one slice, and not for one of each; who
    asks for much waits for one slice of each other principal, and not of each request. Calls that
    arrive begin in between.
    """

    def __init__(self, clock: Clock, principal: str = "") -> None:
        """``principal`` is for whom the work is; without a name it is the process itself."""
        self._clock = clock
        self._principal = principal
        self._left = UNITS_OF_A_SLICE

    async def spend(self, units: int = 1) -> None:
        """Note work that is done."""
        self._left -= units
        if self._left <= 0:
            self._left = UNITS_OF_A_SLICE
            async with _ends_of_slices().place(self._principal):
                pause = arriving_calls().pause()
                await self._clock.sleep_ms(0)
                while not pause.is_over():
                    await self._clock.sleep_ms(0)


def _ends_of_slices() -> SharedPlaces:
    loop = asyncio.get_running_loop()
    try:
        return _ENDS_OF_SLICES[loop]
    except KeyError:
        return _ENDS_OF_SLICES.setdefault(loop, SharedPlaces(1))
