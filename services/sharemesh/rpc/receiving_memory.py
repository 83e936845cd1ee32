"""What requests take that are being received: bounded by ending those that take longest (BND-30).

gRPC tells nobody how much of a message has come, and holds all of it until it is whole: a hundred
requests of 20 MiB took 1.9 GB of a process before the first was looked at (measured).
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import NamedTuple, TypeVar

from sharemesh.rpc.quiet_streams import QuietStreams

FEW_CALLS = 8
"""So many calls that are received may take what they take: 160 MiB at most."""

LOOK_S = 0.02
GONE_S = 1.5
"""Time until memory that was freed has gone back to the system, before it is looked at again."""

YOUNG_S = 0.1
"""Calls that began so recently are not ended: an honest one is whole by then."""


Received = TypeVar("Received")


class _BeingReceived(NamedTuple):
    at_s: float
    principal: str


class TooMuchReceivedError(Exception):
    """A call was ended for the memory that it and others take; the message says so."""


class ReceivingMemory:
    """Watches how much a process grows while many calls are received."""

    def __init__(self, resident: Callable[[], int], growth_max: int) -> None:
        """``resident`` returns the bytes of this process that are in RAM."""
        self._resident = resident
        self._growth_max = growth_max
        self._calls: dict[asyncio.Timeout, _BeingReceived] = {}  # the oldest first
        self._ended: dict[asyncio.Timeout, None] = {}
        self._few_bytes = 0
        self._looked_s = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self.quiet_streams = QuietStreams(resident, growth_max)

    async def bounded(self, principal: str, received: Awaitable[Received]) -> Received:
        """Return what is received of a call of the principal.

        Raises:
            TooMuchReceivedError: It was not there when what is received took too much memory.
        """
        ended: asyncio.Timeout | None = None
        try:
            async with asyncio.timeout(None) as end:
                ended = end
                self._began(end, principal)
                return await received
        except TimeoutError:
            if ended in self._ended:
                raise TooMuchReceivedError(
                    "the requests that are received here at the same time take more memory than "
                    "this process has for them, and this one had not begun"
                ) from None
            raise
        finally:
            if ended is not None:
                self._calls.pop(ended, None)
                self._ended.pop(ended, None)

    def _began(self, call: asyncio.Timeout, principal: str) -> None:
        loop = asyncio.get_running_loop()
        now_s = loop.time()
        self._calls[call] = _BeingReceived(now_s, principal)
        if len(self._calls) <= FEW_CALLS:
            if now_s - self._looked_s >= LOOK_S:
                self._looked_s, self._few_bytes = now_s, self._resident()
        elif self._timer is None:
            self._timer = loop.call_later(LOOK_S, self._look)

    def close(self) -> None:
        """Look no more."""
        self.quiet_streams.close()
        if self._timer is not None:
            self._timer.cancel()

    def _look(self) -> None:
        self._timer = None
        if len(self._calls) <= FEW_CALLS:
            return
        loop, again_s = asyncio.get_running_loop(), LOOK_S
        if self._resident() - self._few_bytes > self._growth_max:
            now_s = loop.time()
            old = self._largest(now_s)
            for call in old:
                del self._calls[call]
                self._ended[call] = None
                call.reschedule(now_s)
            if old:
                again_s = GONE_S
        self._timer = loop.call_later(again_s, self._look)

    def _largest(self, now_s: float) -> list[asyncio.Timeout]:
        """Return calls that are not young, of principals that have as many as the mean or more."""
        old = {call: begun for call, begun in self._calls.items() if now_s - begun.at_s >= YOUNG_S}
        counts = Counter(begun.principal for begun in old.values())
        return [
            call for call, begun in old.items() if counts[begun.principal] * len(counts) >= len(old)
        ]
