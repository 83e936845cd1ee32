"""Checking checksums of committed bytes (LOG-14): the newest when a log opens, the rest later."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import NamedTuple

from sharemesh.backends.embedded.owned.offset_index import SegmentIndex
from sharemesh.backends.embedded.owned.segments import read_whole_frames
from sharemesh.ports.clock import Clock
from sharemesh.ports.disk import Disk
from sharemesh.ports.shard_log import CorruptLogError
from sharemesh.tasks import cancel_and_wait

VERIFY_WINDOW_BYTES = 1 << 20

SCRUB_PAUSE_MS = 10  # between two windows, so that it takes at most about 100 MB/s

_log = logging.getLogger(__name__)


class Unverified(NamedTuple):
    """A part of a segment, from a frame at (offset, position) on; the end is exclusive."""

    segment: SegmentIndex
    offset: int
    position: int
    end_position: int


def newest_part(
    parts: list[Unverified], budget_bytes: int
) -> tuple[list[Unverified], list[Unverified]]:
    """Return which of ``parts``, newest first, are the newest bytes, and which are the others."""
    now: list[Unverified] = []
    later: list[Unverified] = []
    for part in parts:
        size = part.end_position - part.position
        if size <= budget_bytes:
            now.append(part)
        else:
            offset, position = part.segment.at_position(part.end_position - budget_bytes)
            if budget_bytes > 0 and position > part.position:
                now.append(part._replace(offset=offset, position=position))
                later.append(part._replace(end_position=position))
            else:
                later.append(part)
        budget_bytes = max(0, budget_bytes - size)
    return now, later


def verify(disk: Disk, path: str, part: Unverified) -> None:
    """Check a whole part.

    Raises:
        CorruptLogError: It is damaged.
    """
    left: Unverified | None = part
    while left is not None:
        left = verify_some(disk, path, left)


def verify_some(disk: Disk, path: str, part: Unverified) -> Unverified | None:
    """Check one window, and return what is left of the part.

    Raises:
        CorruptLogError: It is damaged.
        FileNotFoundError: The log start has passed it.
    """
    if part.position >= part.end_position:
        return None
    segment = part.segment.segment
    _, walk = read_whole_frames(
        disk,
        f"{path}/{segment.name.file_name}",
        segment,
        position=part.position,
        offset=part.offset,
        window_bytes=min(VERIFY_WINDOW_BYTES, part.end_position - part.position),
    )
    return part._replace(offset=walk.end_offset, position=walk.position)


class Scrub:
    """One pass over parts of one log; ends at the first damage, which ``found`` is told.

    Args:
        disk: Where the log lies.
        clock: Gives the pauses.
        path: The log's directory.
        found: Called once, if there is damage.
    """

    def __init__(
        self,
        disk: Disk,
        clock: Clock,
        path: str,
        found: Callable[[CorruptLogError], Awaitable[None]],
    ) -> None:
        self._disk = disk
        self._clock = clock
        self._path = path
        self._found = found
        self._task: asyncio.Task[None] | None = None
        self._turns: asyncio.Semaphore | None = None

    def begin(self, parts: Sequence[Unverified], turns: asyncio.Semaphore) -> None:
        """Check ``parts``, one log of the process at a time (``turns``)."""
        self._turns = turns
        self.go_on(parts)

    def go_on(self, parts: Sequence[Unverified]) -> None:
        """Check ``parts``, if a pass was begun and has ended, as it does at a damage."""
        if parts and self._turns is not None and (self._task is None or self._task.done()):
            self._task = asyncio.get_running_loop().create_task(self._run(parts, self._turns))

    async def close(self) -> None:
        """Stop."""
        if self._task is not None:
            await cancel_and_wait(self._task)

    async def _run(self, parts: Sequence[Unverified], turns: asyncio.Semaphore) -> None:
        async with turns:
            for part in parts:
                try:
                    await self._check(part)
                except FileNotFoundError:
                    continue  # the log start has passed it
                except OSError as error:
                    _log.warning("log %s cannot be verified: %s", self._path, error)
                except CorruptLogError as error:
                    await self._found(error)
                    return

    async def _check(self, part: Unverified) -> None:
        left: Unverified | None = part
        while left is not None:
            left = await self._disk.run(partial(verify_some, self._disk, self._path, left))
            await self._clock.sleep_ms(SCRUB_PAUSE_MS)
