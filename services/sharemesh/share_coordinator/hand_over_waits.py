"""Reads that wait for the last write of the leader before, and shards that wait for reads (HND)."""

import asyncio
from collections.abc import Callable, Iterable

from sharemesh.domain.ids import SharePartitionKey


class HandOverWaits:
    """Who waits for what of which share partition; each wait has a limit."""

    def __init__(self, limit_ms: int) -> None:
        self._limit_s = limit_ms / 1_000
        self._waiting: dict[SharePartitionKey, dict[asyncio.Future[None], None]] = {}
        self._moved = asyncio.Event()

    def __len__(self) -> int:
        """How many share partitions are waited for."""
        return len(self._waiting)

    def keys(self) -> Iterable[SharePartitionKey]:
        """Return the share partitions that reads wait for."""
        return self._waiting.keys()

    async def until_decided(self, keys: Iterable[SharePartitionKey]) -> None:
        """Return once each of these was read, or had its last write, or after the limit (HND-13).

        Who asks has seen, in the same turn of the loop, that neither has happened yet.
        """
        loop = asyncio.get_running_loop()
        waits = {key: loop.create_future() for key in keys}
        for key, wait in waits.items():
            self._waiting.setdefault(key, {})[wait] = None
        try:
            await asyncio.wait(waits.values(), timeout=self._limit_s)
        finally:
            for key, wait in waits.items():
                wait.cancel()
                left = self._waiting.get(key, {})
                left.pop(wait, None)
                if not left:
                    self._waiting.pop(key, None)
            self._moved.set()

    def decided(self, key: SharePartitionKey) -> None:
        """A read, or the last write, of a share partition was decided: who waits goes on."""
        for wait in self._waiting.pop(key, ()):
            if not wait.done():
                wait.set_result(None)
        self._moved.set()

    async def until_none(self, is_awaited: Callable[[], bool]) -> None:
        """Return once nothing that ``decided`` ends is awaited any more, or after the limit."""
        try:
            async with asyncio.timeout(self._limit_s):
                while is_awaited():
                    self._moved.clear()
                    await self._moved.wait()
        except TimeoutError:
            return
