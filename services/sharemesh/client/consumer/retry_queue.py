"""Failed records that are kept for a while, so that they are not tried again at once."""

import asyncio
import contextlib
import heapq
from collections.abc import Callable, Hashable
from itertools import count
from typing import Generic, TypeVar

from sharemesh.ports.clock import Clock

KEPT_MAX = 500
"""More are released early, those first that are due first: each holds a lock."""

Kept = TypeVar("Kept", bound=Hashable)


class RetryQueue(Generic[Kept]):
    """Calls ``release`` with each kept thing when it is due; ``run`` is the owner task."""

    def __init__(self, clock: Clock, release: Callable[[Kept], None]) -> None:
        self._clock = clock
        self._release = release
        self._due: list[tuple[int, int, Kept]] = []
        self._kept: set[Kept] = set()
        self._numbers = count()
        self._changed = asyncio.Event()

    def keep(self, kept: Kept, until_ms: int) -> None:
        """Release it then, or before if there are too many."""
        heapq.heappush(self._due, (until_ms, next(self._numbers), kept))
        self._kept.add(kept)
        if len(self._kept) > KEPT_MAX:
            self._pop()
        self._changed.set()

    def forget(self, kept: Kept) -> None:
        """Do not release it."""
        self._kept.discard(kept)

    def release_all(self) -> None:
        """Wait no longer."""
        while self._due:
            self._pop()

    async def run(self) -> None:
        """Release what is due, until cancelled."""
        while True:
            self._changed.clear()
            now_ms = self._clock.now_ms()
            while self._due and self._due[0][0] <= now_ms:
                self._pop()
            left_s = (self._due[0][0] - now_ms) / 1_000 if self._due else None
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(left_s):
                    await self._changed.wait()

    def _pop(self) -> None:
        """Release the next one that was not forgotten."""
        while self._due:
            _, _, kept = heapq.heappop(self._due)
            if kept in self._kept:
                self._kept.discard(kept)
                self._release(kept)
                return
