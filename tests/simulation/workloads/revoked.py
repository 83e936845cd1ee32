"""Rights that are taken away and given back; another principal speaks for members all the time."""

import asyncio

from sharemesh.client.errors import (
    GroupAuthorizationFailedError,
    TopicAuthorizationFailedError,
)
from tests.simulation.access import INTRUDER, READERS, AccessRules
from tests.simulation.checkers.rights import RightsChecker
from tests.simulation.intruder import NAME, Intruder
from tests.simulation.patching import Patches
from tests.simulation.workloads.mixed import TOPIC, TRIMMED
from tests.simulation.workloads.special import SpecialWorkload
from tests.simulation.world import World

REFUSED = (GroupAuthorizationFailedError, TopicAuthorizationFailedError)
LOOK_S = 0.5


class RevokedWorkload(SpecialWorkload):
    """Three readers in one group; a consumer that was refused ends, and another one comes."""

    fault_kinds: tuple[str, ...] = (
        "rights_revoked",
        "rights_revoked",
        "rights_revoked",
        "disk_slow",
        "network_slow",
        "resets",
        "store_slow",
        "client_killed",
    )
    fault_gap_s = (0.2, 2.0)
    modes = ("explicit", "implicit", "partial", "late")
    producer_gap_s = (0.1, 0.8)

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._access = AccessRules(world, self.groups, (TOPIC, TRIMMED))
        self._rights = RightsChecker(world)
        self.faults.access = self._access
        self._access.is_called(NAME, INTRUDER)
        self._intruder = Intruder(world, self.journal, self.groups[0])

    def install(self, patches: Patches) -> None:
        super().install(patches)
        self._rights.install(patches)

    async def run(self) -> None:
        context = self.world.loop.world.context()
        self.world.loop.create_task(self._rights.run(), context=context)
        self.world.loop.create_task(self._replace_refused(), context=context)
        await super().run()

    async def _prepare(self) -> None:
        await super()._prepare()
        await self._access.give()
        await self._access.give(self._access.rules_of_the_intruder)
        self._intruder.start()

    def _is_named(self, consumer: str) -> None:
        self._access.is_called(consumer, READERS[self._numbers % len(READERS)])

    async def _replace_refused(self) -> None:
        """A refusal is final for a client: its application starts another one a moment later."""
        while True:
            await asyncio.sleep(LOOK_S)
            for consumer, group in list(self.consumers):
                if consumer.process.alive and isinstance(consumer.trouble, REFUSED):
                    name = f"consumers ended by {type(consumer.trouble).__name__}"
                    self.world.event_log.counters[name] += 1
                    consumer.kill()
                    self._new_consumer(group, self.rng.choice(self._modes_of_successors()))
