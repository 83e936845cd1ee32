"""Work by keys: each key at most once at a time, repeated requests melt into one."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from sharemesh.ports.clock import Clock

WORKERS = 4
KEYS_MAX = 10_000
BACKOFF_MIN_MS = 500
BACKOFF_MAX_MS = 60_000
GAP_MS = 250
"""Shortest time between two rounds of one key, so that a storm of events costs one round."""

_log = logging.getLogger(__name__)


class Key(NamedTuple):
    """One object."""

    kind: str
    name: str


Work = Callable[[Key], Awaitable[int | None]]


class WorkQueue:
    """Runs ``work(key)`` for keys that were added; it returns after how many ms to come again.

    A failure is logged and tried again, later each time.
    """

    def __init__(self, work: Work, clock: Clock) -> None:
        self._work = work
        self._clock = clock
        self._due: dict[Key, int] = {}
        self._busy: set[Key] = set()
        self._failures: dict[Key, int] = {}
        self._last_ms: dict[Key, int] = {}
        self._wake = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self.rounds = 0
        self.failures = 0

    def start(self) -> None:
        """Begin to work."""
        self._tasks = [
            asyncio.create_task(self._run(), name=f"reconciler {number}")
            for number in range(WORKERS)
        ]

    async def close(self) -> None:
        """Stop; work under way is cancelled."""
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def add(self, key: Key, after_ms: int = 0) -> None:
        """Ask for a round of a key; an earlier request for the same key stays."""
        if key not in self._due and len(self._due) >= KEYS_MAX:
            _log.error("%d objects wait; %s is left for the next sweep", KEYS_MAX, key)
            return
        earliest = self._last_ms.get(key, -GAP_MS) + GAP_MS
        due_ms = max(self._clock.now_ms() + after_ms, earliest)
        if key not in self._due or due_ms < self._due[key]:
            self._due[key] = due_ms
            self._wake.set()

    def drop(self, key: Key) -> None:
        """Forget a key: its object is gone."""
        for table in (self._due, self._failures, self._last_ms):
            table.pop(key, None)

    async def _run(self) -> None:
        while True:
            key = self._next()
            if key is None:
                await self._until_due()
                continue
            del self._due[key]
            self._busy.add(key)
            try:
                await self._round(key)
            finally:
                self._busy.discard(key)
                self._wake.set()

    async def _round(self, key: Key) -> None:
        self.rounds += 1
        self._last_ms[key] = self._clock.now_ms()
        try:
            again_ms = await self._work(key)
        except Exception as error:
            self.failures += 1
            count = self._failures[key] = self._failures.get(key, 0) + 1
            again_ms = min(BACKOFF_MIN_MS * 2 ** min(count, 10), BACKOFF_MAX_MS)
            _log.warning(
                "%s %s: round failed, again in %d ms: %s: %s",
                key.kind,
                key.name,
                again_ms,
                type(error).__name__,
                error,
                exc_info=_log.isEnabledFor(logging.DEBUG) or count == 1,
            )
        else:
            self._failures.pop(key, None)
        if again_ms is not None:
            self.add(key, again_ms)

    def _next(self) -> Key | None:
        now_ms = self._clock.now_ms()
        ready = [key for key, due in self._due.items() if due <= now_ms and key not in self._busy]
        return min(ready, key=lambda key: self._due[key], default=None)

    async def _until_due(self) -> None:
        self._wake.clear()
        waits = [due for key, due in self._due.items() if key not in self._busy]
        if not waits:
            await self._wake.wait()
            return
        left_ms = max(min(waits) - self._clock.now_ms(), 1)
        try:
            async with asyncio.timeout(left_ms / 1_000):
                await self._wake.wait()
        except TimeoutError:
            return
