"""Time that a test lets pass: the event loop's own, which can jump."""

import asyncio
import time

STEP_S = 0.1
TURNS = 20


class MeshClock:
    """Clock port whose time runs by itself and is moved on by ``advance``.

    It moves the running event loop's time: timers, time-outs and sleeps of the mesh, of the clients
    and of the application are due together, in order. It stays moved until the loop ends.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._loop_time = self._loop.time
        self._ahead_s = 0.0
        try:
            self._loop.time = self._time  # type: ignore[method-assign]
        except AttributeError as error:
            raise RuntimeError(
                f"the time of {type(self._loop).__name__} cannot be moved; "
                "run the test on asyncio's own event loop"
            ) from error

    def _time(self) -> float:
        return self._loop_time() + self._ahead_s

    def now_ms(self) -> int:
        """Return monotonic milliseconds."""
        return int(self._loop.time() * 1_000)

    def wall_ms(self) -> int:
        """Return milliseconds since the epoch."""
        return int((time.time() + self._ahead_s) * 1_000)

    async def sleep_ms(self, duration_ms: int) -> None:
        """Return after ``duration_ms``."""
        await asyncio.sleep(max(duration_ms, 0) / 1_000)

    async def advance(self, seconds: float) -> None:
        """Let so many seconds pass at once; what is due meanwhile has run when it returns.

        Raises:
            ValueError: ``seconds`` is negative.
        """
        if seconds < 0:
            raise ValueError(f"time does not go back: {seconds} s")
        left_s = seconds
        while left_s > 0:
            step_s = min(left_s, STEP_S)
            self._ahead_s += step_s
            left_s -= step_s
            for _ in range(TURNS):
                await asyncio.sleep(0)
