"""Time."""

from typing import Protocol


class Clock(Protocol):
    """The only source of time; simulation owns it."""

    def now_ms(self) -> int:
        """Return monotonic milliseconds: for locks, sessions, time-outs, leases."""
        ...

    def wall_ms(self) -> int:
        """Return milliseconds since the epoch: for timestamps in records and tokens only."""
        ...

    async def sleep_ms(self, duration_ms: int) -> None:
        """Return after ``duration_ms``."""
        ...
