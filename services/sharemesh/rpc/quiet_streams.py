"""Streams that anybody may open and that say nothing: they end in time, or for memory (BND-31).

What has come of a message that is not whole is held by gRPC, and nobody is told. A hundred streams
of calls, each with 20 MiB of a message behind an empty first one, took 3 GB (measured).
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable

FEW_STREAMS = 8
LOOK_S = 0.1
LOOK_AT_FEW_S = 1.0
QUIET_S = 120.0
"""Callers end a stream of calls after a minute without one: no honest one is quiet for so long."""

YOUNG_S = 0.1
GONE_S = 1.5
"""Time until what was ended has gone, its memory included, before more is ended for memory."""

SETTLED_S = 5.0
"""So long after something was ended for memory, few streams do not mean that it is free."""

RISE_BYTES_A_S = 1024 * 1024
"""So fast what a process may have beside its streams follows what it has."""


SAID_EVERY_S = 60.0
_log = logging.getLogger(__name__)


class QuietStreamError(Exception):
    """A stream was ended that said nothing; the message says why."""


class QuietStream:
    """One stream, and when it last said something."""

    def __init__(self, *, lasts: bool = False) -> None:
        """One that ``lasts`` may be quiet as long as there is memory."""
        self.lasts = lasts
        self.heard_s = asyncio.get_running_loop().time()
        self.end: asyncio.Timeout | None = None

    def heard(self) -> None:
        """It said something."""
        self.heard_s = asyncio.get_running_loop().time()


class QuietStreams:
    """Looks at streams in turn, and ends those that are quiet for too long."""

    def __init__(self, resident: Callable[[], int], growth_max: int) -> None:
        """``resident`` returns the bytes of this process that are in RAM."""
        self._resident = resident
        self._growth_max = growth_max
        self._streams: dict[QuietStream, None] = {}
        self._ended: dict[QuietStream, None] = {}
        self._base_bytes = 0
        self._looked_s = 0.0
        self._acted_s = -SAID_EVERY_S
        self._timer: asyncio.TimerHandle | None = None

    async def bounded(self, stream: QuietStream, served: Awaitable[None]) -> None:
        """Serve a stream.

        Raises:
            QuietStreamError: It was ended, for it said nothing.
        """
        try:
            async with asyncio.timeout(None) as stream.end:
                self._streams[stream] = None
                self._look_soon()
                await served
        except TimeoutError:
            if stream not in self._ended:
                raise
            raise QuietStreamError(
                "the stream said nothing, and its connection may hold a part of a message"
            ) from None
        finally:
            self._streams.pop(stream, None)
            self._ended.pop(stream, None)

    def close(self) -> None:
        """Look no more."""
        if self._timer is not None:
            self._timer.cancel()

    def _look_soon(self) -> None:
        loop = asyncio.get_running_loop()
        if self._timer is None:
            self._looked_s = loop.time()
            self._follow(self._resident(), 0.0)
            self._timer = loop.call_later(LOOK_AT_FEW_S, self._look)
        elif len(self._streams) == FEW_STREAMS + 1:
            self._timer.cancel()
            self._timer = loop.call_later(LOOK_S, self._look)

    def _look(self) -> None:
        loop = asyncio.get_running_loop()
        now_s = loop.time()
        resident, passed_s = self._resident(), now_s - self._looked_s
        self._looked_s = now_s
        too_much = len(self._streams) > FEW_STREAMS and (
            resident - self._base_bytes > self._growth_max
        )
        if too_much and now_s - self._acted_s >= GONE_S:
            if now_s - self._acted_s >= SAID_EVERY_S:
                _log.warning(
                    "streams that say nothing are ended: the process has grown by %d MiB while %d "
                    "are open that may hold parts of messages; see who opens them (audit log, "
                    "connections) and shut it out",
                    (resident - self._base_bytes) >> 20,
                    len(self._streams),
                )
            self._acted_s = now_s
            self._end_quiet(now_s, YOUNG_S)
        else:
            self._end_quiet(now_s, QUIET_S)
        self._follow(resident, passed_s)
        self._timer = None
        if self._streams:
            many = len(self._streams) > FEW_STREAMS
            self._timer = loop.call_later(LOOK_S if many else LOOK_AT_FEW_S, self._look)

    def _follow(self, resident: int, passed_s: float) -> None:
        """Take what the process has as its own, at once where few streams can have a part of it."""
        settled = asyncio.get_running_loop().time() - self._acted_s >= SETTLED_S
        if len(self._streams) > FEW_STREAMS or not settled:
            rise = int(passed_s * RISE_BYTES_A_S)
            resident = min(resident, self._base_bytes + rise)
        self._base_bytes = resident

    def _end_quiet(self, now_s: float, quiet_s: float) -> None:
        for stream in list(self._streams):
            if now_s - stream.heard_s < quiet_s or (stream.lasts and quiet_s == QUIET_S):
                continue
            assert stream.end is not None, "it is watched while it is served"
            del self._streams[stream]
            self._ended[stream] = None
            stream.end.reschedule(now_s)
