"""Answers about many names are computed in slices: other requests run in between (BND-20)."""

from sharemesh.ports.clock import Clock

UNITS_OF_A_SLICE = 50
"""Names checked, or partitions answered, in a turn of the loop: 1 to 4 ms of processor time.

Requests of several callers each have a slice in the same turn, so this is less than a turn may be.
"""


class Slices:
    """Counts the work of one request, and ends the turn of the loop after each slice."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._left = UNITS_OF_A_SLICE

    async def spend(self, units: int = 1) -> None:
        """Note work that is done."""
        self._left -= units
        if self._left <= 0:
            self._left = UNITS_OF_A_SLICE
            await self._clock.sleep_ms(0)
