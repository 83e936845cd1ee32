"""Clocks for tests: the loop's own time, and one that moves only when told."""

import asyncio
import heapq
import time


class LoopClock:
    """Real time."""

    def now_ms(self) -> int:
        return int(asyncio.get_running_loop().time() * 1_000)

    def wall_ms(self) -> int:
        return int(time.time() * 1_000)

    async def sleep_ms(self, duration_ms: int) -> None:
        await asyncio.sleep(max(0, duration_ms) / 1_000)


class ManualClock:
    """Time stands still until ``advance``; sleepers wake in order."""

    def __init__(self, start_ms: int = 1_000_000) -> None:
        self._now_ms = start_ms
        self._sleepers: list[tuple[int, int, asyncio.Future[None]]] = []
        self._count = 0

    def now_ms(self) -> int:
        return self._now_ms

    def wall_ms(self) -> int:
        return 1_700_000_000_000 + self._now_ms

    async def sleep_ms(self, duration_ms: int) -> None:
        if duration_ms <= 0:
            await asyncio.sleep(0)
            return
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._count += 1
        heapq.heappush(self._sleepers, (self._now_ms + duration_ms, self._count, woken))
        await woken

    async def settle(self, rounds: int = 60) -> None:
        """Let everything run that can run without time passing."""
        for _ in range(rounds):
            await asyncio.sleep(0)

    async def advance(self, duration_ms: int) -> None:
        """Let time pass, waking sleepers one by one in order."""
        end_ms = self._now_ms + duration_ms
        await self.settle()
        while self._sleepers and self._sleepers[0][0] <= end_ms:
            due_ms, _, woken = heapq.heappop(self._sleepers)
            if woken.done():
                continue
            self._now_ms = max(self._now_ms, due_ms)
            woken.set_result(None)
            await self.settle()
        self._now_ms = end_ms
        await self.settle()
