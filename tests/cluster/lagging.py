"""The in-process store over a slow network: calls take time, watches run behind."""

import random
from contextlib import aclosing

from sharemesh.backends.local.coordination import LocalCoordination
from sharemesh.backends.local.coordination_store import LocalStore


class LaggingCoordination(LocalCoordination):
    """Keeps order and atomicity; only time differs from the plain filling."""

    def __init__(self, store: LocalStore, rng: random.Random, lag_ms: int) -> None:
        super().__init__(store)
        self.rng = rng
        self.lag_ms = lag_ms

    async def commit(self, guards, operations, *, session=None):
        await self.clock.sleep_ms(self.rng.randint(0, self.lag_ms // 4))
        revision = await super().commit(guards, operations, session=session)
        await self.clock.sleep_ms(self.rng.randint(0, self.lag_ms // 4))
        return revision

    async def watch(self, prefix):
        async with aclosing(super().watch(prefix)) as items:
            async for item in items:
                if self.rng.random() < 0.2:
                    await self.clock.sleep_ms(self.rng.randint(0, self.lag_ms))
                yield item
