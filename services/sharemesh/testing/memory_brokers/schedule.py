"""When something happens in the cluster: on a clock of its own, as nobody's process."""

import asyncio
from collections.abc import Callable
from typing import Protocol

from sharemesh.ports.clock import Clock
from sharemesh.timers import Timers


class Scheduled(Protocol):
    """What will be done later."""

    def cancel(self) -> None:
        """Never do it; repeating it is fine."""
        ...


class Schedule(Protocol):
    """The cluster's time; a simulation fills it so that killed clients take nothing with them."""

    def now_ms(self) -> float:
        """Return monotonic milliseconds."""
        ...

    def wall_ms(self) -> int:
        """Return milliseconds since the epoch."""
        ...

    def later(self, delay_ms: float, action: Callable[[], None]) -> Scheduled:
        """Do something after a delay, never inside this call."""
        ...

    async def close(self) -> None:
        """Forget everything that is still to be done."""
        ...


class ClockSchedule:
    """The time of a clock, on the loop that runs."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._timers = Timers(clock)

    def now_ms(self) -> float:
        """Return monotonic milliseconds."""
        return self._clock.now_ms()

    def wall_ms(self) -> int:
        """Return milliseconds since the epoch."""
        return self._clock.wall_ms()

    def later(self, delay_ms: float, action: Callable[[], None]) -> Scheduled:
        """Do something after a delay; without one on the next turn of the loop."""
        if delay_ms <= 0:
            return asyncio.get_running_loop().call_soon(action)
        return self._timers.at(self._clock.now_ms() + max(1, round(delay_ms)), action)

    async def close(self) -> None:
        """Forget everything that is still to be done."""
        await self._timers.close()
