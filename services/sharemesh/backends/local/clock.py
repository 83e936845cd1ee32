"""The machine's clocks."""

import asyncio
import time


class SystemClock:
    """Monotonic time for decisions, wall time for timestamps (port Clock)."""

    def now_ms(self) -> int:
        """Return monotonic milliseconds."""
        return time.monotonic_ns() // 1_000_000

    def wall_ms(self) -> int:
        """Return milliseconds since the epoch."""
        return time.time_ns() // 1_000_000

    def wall_ns(self) -> int:
        """Return nanoseconds since the epoch, for spans."""
        return time.time_ns()

    async def sleep_ms(self, duration_ms: int) -> None:
        """Return after ``duration_ms``."""
        await asyncio.sleep(duration_ms / 1000)
