"""Limits of open files and connections, with a log line when they run out."""

import asyncio
import contextlib
import logging
import math
import os
import resource
from collections.abc import Callable
from pathlib import Path

from sharemesh.ports.clock import Clock
from sharemesh.rpc.limits import MAX_CONNECTIONS
from sharemesh.tasks import cancel_and_wait

LOOK_EVERY_MS = 2_000
FULL_SHARE = 0.95
FREE_SHARE = 0.85

_OPEN = Path("/proc/self/fd")

_log = logging.getLogger(__name__)


def raise_limit() -> int:
    """Let this process open as many files as the system lets it; return how many."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):  # "unlimited" is more than some kernels take
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        soft = hard
    return soft


def connections_max(descriptors: int) -> int:
    """Return how many connections are taken: one half of what may be open is kept for files.

    Without that a crowd of connections would keep logs from being opened, and end epochs.
    """
    if descriptors < 0:  # unlimited
        return MAX_CONNECTIONS
    return max(1, min(MAX_CONNECTIONS, descriptors // 2))


def open_sockets(files: int = 0) -> int | None:
    """Return how many sockets this process has open; None if not even that can be found out.

    With fewer than ``files`` files open it is their number, which is no less: to ask of each what
    it is takes a tenth of a second where there are ten thousand.
    """
    try:
        names = os.listdir(_OPEN)  # noqa: PTH208 (no path of each)
    except OSError:
        return None
    if len(names) < files:
        return len(names)
    found = 0
    for name in names:
        with contextlib.suppress(OSError):  # closed meanwhile
            found += str((_OPEN / name).readlink()).startswith("socket:")
    return found


class ConnectionWatch:
    """Says once that connections are refused, and once that they are taken again."""

    def __init__(
        self, clock: Clock, taken_max: int, count: Callable[[int], int | None] = open_sockets
    ) -> None:
        self._clock = clock
        self._taken_max = taken_max
        self._count = count
        self._full = False
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to look."""
        self._task = asyncio.get_running_loop().create_task(self._keep(), name="connections")

    async def close(self) -> None:
        """Stop."""
        if self._task is not None:
            await cancel_and_wait(self._task)

    async def _keep(self) -> None:
        while True:
            self.look()
            await self._clock.sleep_ms(LOOK_EVERY_MS)

    def look(self) -> None:
        """Count, and say what has changed."""
        limit = math.ceil((FREE_SHARE if self._full else FULL_SHARE) * self._taken_max)
        found = self._count(limit)
        if not self._full and (found is None or found >= limit):
            self._full = True
            _log.warning(
                "%s sockets are open, and at most %d connections are taken: others are refused "
                "until some end; see who opens so many, or raise the limit of open files "
                "(ulimit -n, LimitNOFILE)",
                "too many" if found is None else found,
                self._taken_max,
            )
        elif self._full and found is not None and found < limit:
            self._full = False
            _log.info("connections are taken again: %d sockets are open", found)
