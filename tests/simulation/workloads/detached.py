"""Topics of a Kafka cluster, detached and attached again under their groups (KTP-10, KTP-19)."""

import asyncio
import contextlib

from sharemesh.client.errors import SharemeshError
from tests.simulation.workloads.mixed import TOPIC, TRIMMED
from tests.simulation.workloads.special import OFTEN, SpecialWorkload
from tests.simulation.world import World

GRACE_MS = 20_000
AWAY_S, BETWEEN_S = (0.1, 15.0), (0.5, 6.0)
AGAIN_S = 0.5


class DetachedWorkload(SpecialWorkload):
    """Groups go on where they were, whoever dies meanwhile, and whichever part of it comes late.

    A topic is away for less than the grace each time, and for more than it in all.
    """

    fault_kinds = ("kill", "client_killed", "drain", "network_slow", "leaders_moved")
    fault_gap_s = (1.0, 6.0)
    active_s = 90.0
    finish_s = 150.0
    producer_gap_s = (0.1, 0.8)
    modes = ("explicit", "partial", "late", "renewing")

    def __init__(self, world: World) -> None:
        super().__init__(world)
        world.kafka.topic_grace_ms = GRACE_MS

    async def _prepare(self) -> None:
        await super()._prepare()
        await self.admin.alter_configs(OFTEN)

    async def _administer(self, end_s: float) -> None:
        while self.world.now_s < end_s:
            await asyncio.sleep(self.rng.uniform(*BETWEEN_S))
            name = self.rng.choice((TOPIC, TRIMMED))
            with contextlib.suppress(SharemeshError):
                if (await self.admin.detach_topics([name]))[name] is None:
                    self.world.tell(f"{name} is detached", count="topics detached")
            await asyncio.sleep(self.rng.uniform(*AWAY_S))
            await self._attach(name)

    async def _attach(self, name: str) -> None:
        """Attach a topic; whether it was detached may be unknown."""
        while True:
            try:
                refused = (await self.admin.attach_topics([name]))[name]
            except SharemeshError as error:
                refused = error
            if refused is None:
                self.world.tell(f"{name} is attached")
                return
            await asyncio.sleep(AGAIN_S)
