"""The group coordinator, built."""

from sharemesh.cluster.membership import ClusterMember
from sharemesh.cluster.wanted_topics import WantedTopics
from sharemesh.group_coordinator.coordinator_context import ServiceLimits
from sharemesh.group_coordinator.service import GroupCoordinatorPorts, GroupCoordinatorService
from sharemesh.persister.persister import Persister
from sharemesh.ports.cluster import ShardKind
from sharemesh.ports.network import Listener
from sharemesh.serve.process_context import ProcessContext, ShardRole
from sharemesh.serve.settings.room_settings import persister_settings


class GroupCoordinatorRole(ShardRole):
    """Group shards, elected one by one."""

    def __init__(self, around: ProcessContext) -> None:
        super().__init__(around, ShardKind.GROUP)
        self._persister = Persister(
            around.caller,
            around.view,
            around.clock,
            around.rng,
            persister_settings(around.view.cluster_configs()),
        )
        self._wishes = _wishes(around)
        self._service = GroupCoordinatorService(
            around.node_id,
            GroupCoordinatorPorts(
                clock=around.clock,
                view=around.view,
                authorizer=around.authorizer,
                logs=around.storage.shard_logs(ShardKind.GROUP),
                persister=self._persister,
                coordination=around.coordination,
                caller=around.caller,
                telemetry=around.telemetry,
                quotas=around.quotas,
                wishes=self._wishes,
            ),
            limits=_limits(around),
        )

    def offer(self, listener: Listener) -> None:
        """Offer ``GroupCoordinator``."""
        self._service.offer(listener)

    async def start(self, member: ClusterMember) -> None:
        """Stand for election of every group shard."""
        await self.stand(member, self._service)

    async def close(self) -> None:
        """Leave the elections and relinquish what is left."""
        await super().close()
        await self._service.close()
        if self._wishes is not None:
            await self._wishes.close()
        await self._persister.close()


def _wishes(around: ProcessContext) -> WantedTopics | None:
    """Return what writes down which topics of a Kafka cluster groups want."""
    topics = around.storage.broker_topics
    if topics is None:
        return None
    return WantedTopics(around.coordination, around.view, around.clock, topics.attachable)


def _limits(around: ProcessContext) -> ServiceLimits:
    """Return the bounds; topics of a Kafka cluster have a grace once they are gone (KTP-10)."""
    topics = around.storage.broker_topics
    if topics is None or topics.grace_ms == 0:
        return ServiceLimits()
    return ServiceLimits(unknown_topic_grace_ms=topics.grace_ms, deleted_topics_wait=True)
