"""The Kafka cluster of a simulated mesh: brokers in virtual time, which are nobody's process."""

from collections.abc import Callable

from tests.simulation.loop import WALL_MS, SimHandle, SimLoop


class SimSchedule:
    """Fills the schedule of ``MemoryCluster``: a client that is killed takes nothing with it."""

    def __init__(self, loop: SimLoop) -> None:
        self._loop = loop

    def now_ms(self) -> float:
        return self._loop.time() * 1_000

    def wall_ms(self) -> int:
        return WALL_MS + int(self._loop.time() * 1_000)

    def later(self, delay_ms: float, action: Callable[[], None]) -> SimHandle:
        return self._loop.call_later(
            max(0.0, delay_ms) / 1_000, action, context=self._loop.world.context()
        )

    async def close(self) -> None:
        """Nothing: what is still to come ends with the loop."""
