"""Quotas of a run: the administrator sets, raises, lowers and removes them at moments of chance."""

import asyncio
from collections.abc import Mapping, Sequence
from random import Random

from sharemesh.client.admin.client import AsyncAdminClient
from sharemesh.client.errors import SharemeshError
from sharemesh.domain.quota.names import EntityType, QuotaEntity, QuotaName
from tests.simulation.world import World

VALUES: Mapping[QuotaName, Sequence[float]] = {
    QuotaName.PRODUCER_BYTE_RATE: (300, 1_000, 3_000, 20_000, 1e6),
    QuotaName.CONSUMER_BYTE_RATE: (300, 1_000, 3_000, 20_000, 1e6),
    QuotaName.RECORD_RATE: (2, 10, 40, 200, 1_000),
    QuotaName.RECORDS_IN_FLIGHT: (1, 5, 30, 200),
    QuotaName.SHARE_SESSIONS: (1, 2, 4, 100),
    QuotaName.STREAMS: (2, 5, 20, 100),
    QuotaName.GROUPS: (1, 2, 4),
}
DEFAULTS = (QuotaEntity(EntityType.USER, None), QuotaEntity(EntityType.GROUP, None))
AGAIN_S = 0.5


class QuotaRules:
    """What binds the tenants; ``lift`` leaves the abusive one bound."""

    def __init__(
        self,
        world: World,
        admin: AsyncAdminClient,
        entities: Sequence[QuotaEntity],
        always: Mapping[QuotaEntity, Mapping[QuotaName, float]],
    ) -> None:
        """``entities`` get quotas at times; ``always`` binds from the beginning to the end."""
        self._world = world
        self._admin = admin
        self._rng = Random(world.rng.getrandbits(64))
        self._entities = (*entities, *DEFAULTS)
        self._always = always

    async def begin(self) -> None:
        """Store what binds always."""
        for entity, values in self._always.items():
            await self._until_stored(entity, dict(values))

    async def change(self) -> None:
        """Set, raise, lower or remove one or two values of an entity; it may fail."""
        entity = self._rng.choice(self._entities)
        names = [each for each in VALUES if each.entity_type is entity.entity_type]
        chosen = self._rng.sample(names, min(len(names), self._rng.choice((1, 1, 2))))
        changes = {
            name: None if self._rng.random() < 0.25 else self._rng.choice(VALUES[name])
            for name in chosen
        }
        told = ", ".join(f"{name.value}={value}" for name, value in changes.items())
        self._world.tell(f"quotas of {_words(entity)}: {told}")
        self._count(is_stored=await self._alter(entity, changes))

    async def lift(self) -> None:
        """Remove all but what binds always."""
        for entity in self._entities:
            names = [each for each in VALUES if each.entity_type is entity.entity_type]
            await self._until_stored(entity, dict.fromkeys(names))
        await self.begin()
        self._world.tell("the quotas of all who behave are lifted")

    async def _until_stored(
        self, entity: QuotaEntity, changes: Mapping[QuotaName, float | None]
    ) -> None:
        while not await self._alter(entity, changes):
            await asyncio.sleep(AGAIN_S)

    async def _alter(self, entity: QuotaEntity, changes: Mapping[QuotaName, float | None]) -> bool:
        named = {name.value: value for name, value in changes.items()}
        try:
            return (await self._admin.alter_client_quotas({entity: named}))[entity] is None
        except SharemeshError:
            return False

    def _count(self, *, is_stored: bool) -> None:
        name = "quotas changed" if is_stored else "changes of quotas that failed"
        self._world.event_log.counters[name] += 1


def _words(entity: QuotaEntity) -> str:
    return f"{entity.entity_type.value} {entity.name or 'default'}"
