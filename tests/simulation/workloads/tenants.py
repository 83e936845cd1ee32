"""Tenants with quotas that change, rights that come and go, and one tenant that obeys nothing."""

import asyncio

from sharemesh.client.errors import SharemeshError
from sharemesh.cluster.store.acl_rules import AclRule, Permission
from sharemesh.domain.quota.names import EntityType, QuotaEntity, QuotaName
from sharemesh.ports.authorizer import Operation, ResourceType
from tests.simulation.abusive_tenant import (
    GROUPS_OF_ITS_OWN,
    TOPIC_OF_ITS_OWN,
    AbusiveTenant,
)
from tests.simulation.abusive_tenant import NAME as ABUSIVE
from tests.simulation.abusive_tenant import PARTITIONS as ITS_PARTITIONS
from tests.simulation.access import READERS
from tests.simulation.checkers.held import HeldChecker
from tests.simulation.checkers.rates import RateChecker, Values
from tests.simulation.invariants import PROGRESS
from tests.simulation.patching import Patches
from tests.simulation.quotas import QuotaRules
from tests.simulation.workloads.mixed import TOPIC, TRIMMED
from tests.simulation.workloads.revoked import RevokedWorkload
from tests.simulation.world import World

HOG = "User:hog"
WRITERS = ("User:writer-0", "User:writer-1")
TO_HOG = {
    QuotaName.PRODUCER_BYTE_RATE: 2_000,
    QuotaName.CONSUMER_BYTE_RATE: 5_000,
    QuotaName.RECORDS_IN_FLIGHT: 50,
    QuotaName.SHARE_SESSIONS: 2,
    QuotaName.STREAMS: 2,
    QuotaName.GROUPS: 3,
}
KNOWN_S = 5.0
CHANGE_GAP_S = (0.1, 1.5)


class TenantsWorkload(RevokedWorkload):
    """As ``revoked``; producers have names and bounds, and an abusive tenant is beside them."""

    fault_kinds = (
        "rights_revoked",
        "rights_revoked",
        "kill",
        "vanish",
        "freeze",
        "drain",
        "network_slow",
        "resets",
        "store_slow",
        "store_cut",
        "client_killed",
    )
    fault_gap_s = (0.5, 4.0)

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._access.is_called(ABUSIVE, HOG)
        self._rates = RateChecker(world)
        self._held = HeldChecker(world, self._rates)
        entities = [QuotaEntity(EntityType.USER, name) for name in (*READERS, *WRITERS)]
        entities += [QuotaEntity(EntityType.GROUP, name) for name in self.groups]
        self._quotas = QuotaRules(
            world, self.admin, entities, {QuotaEntity(EntityType.USER, HOG): TO_HOG}
        )
        self._abusive = AbusiveTenant(world, self.groups[0])

    def install(self, patches: Patches) -> None:
        super().install(patches)
        self._rates.install(patches)
        self._held.install(patches)

    async def run(self) -> None:
        context = self.world.loop.world.context()
        self.world.loop.create_task(self._rates.run(), context=context)
        self.world.loop.create_task(self._held.run(), context=context)
        await super().run()

    async def _prepare(self) -> None:
        await super()._prepare()
        await self._access.give(_rules())
        await self._quotas.begin()
        for group in GROUPS_OF_ITS_OWN:
            lock_ms = {"share.record.lock.duration.ms": str(self.lock_duration_ms)}
            await self.admin.alter_group_configs(group, lock_ms)
        await self.admin.create_topic(TOPIC_OF_ITS_OWN, ITS_PARTITIONS)
        found = await self.admin.describe_topics([TOPIC_OF_ITS_OWN])
        topic = found[TOPIC_OF_ITS_OWN]
        assert not isinstance(topic, SharemeshError), topic
        self._new_producer(0)
        self._abusive.topic_id_of_others = next(iter(self.topic_ids))
        self._abusive.start(bytes.fromhex(topic.topic_id))

    def _new_producer(self, number: int) -> None:
        """Name producers in turn; the first of each three is a super user, whom nothing binds."""
        name = (None, *WRITERS)[self._numbers % 3]
        if name is not None:
            self._access.is_called(f"producer-{number}.{self._numbers + 1}", name)
        super()._new_producer(number)

    async def _administer(self, end_s: float) -> None:
        while self.world.now_s < end_s:
            await asyncio.sleep(self.rng.uniform(*CHANGE_GAP_S))
            await self._quotas.change()

    async def _finish(self) -> None:
        """Quotas of all who behave are lifted; the abusive tenant goes on, and stops nobody."""
        await self.as_admin(self._quotas.lift())
        await asyncio.sleep(KNOWN_S)
        stored = await self.as_admin(self.admin.describe_client_quotas())
        values: Values = {
            entity: {QuotaName(name): value for name, value in found.items()}
            for entity, found in stored.items()
        }
        for text in self._rates.knows(values):
            self.world.event_log.violation(self.world.now_s, PROGRESS.broken(text))
        await super()._finish()


def _rules() -> list[AclRule]:
    """Return what writers may, and what the abusive tenant may in its own place."""
    allowed = [
        (writer, Operation.WRITE, ResourceType.TOPIC, topic)
        for writer in WRITERS
        for topic in (TOPIC, TRIMMED)
    ]
    allowed += [
        (HOG, each, ResourceType.TOPIC, TOPIC_OF_ITS_OWN)
        for each in (Operation.READ, Operation.WRITE)
    ]
    allowed += [(HOG, Operation.READ, ResourceType.GROUP, group) for group in GROUPS_OF_ITS_OWN]
    return [AclRule(who, Permission.ALLOW, what, kind, name) for who, what, kind, name in allowed]
