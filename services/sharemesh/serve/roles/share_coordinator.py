"""The share coordinator, built."""

from dataclasses import replace

from sharemesh.cluster.membership import ClusterMember
from sharemesh.ports.cluster import ShardKind
from sharemesh.ports.network import Listener
from sharemesh.serve.process_context import ProcessContext, ShardRole
from sharemesh.serve.settings.room_settings import share_coordinator_settings
from sharemesh.share_coordinator.service import ShareCoordinatorService


class ShareCoordinatorRole(ShardRole):
    """State shards, elected one by one."""

    def __init__(self, around: ProcessContext) -> None:
        super().__init__(around, ShardKind.STATE)
        configs, topics = around.view.cluster_configs(), around.storage.broker_topics
        self._service = ShareCoordinatorService(
            around.view,
            around.clock,
            around.storage.shard_logs(ShardKind.STATE),
            replace(
                share_coordinator_settings(configs),
                topic_grace_ms=0 if topics is None else topics.states_kept_ms,
            ),
            authorizer=around.authorizer,
            generations=around.storage.generations(),
            telemetry=around.telemetry,
        )

    def offer(self, listener: Listener) -> None:
        """Offer ``ShareCoordinator``."""
        self._service.offer(listener)

    async def start(self, member: ClusterMember) -> None:
        """Stand for election of every state shard."""
        self._service.start()
        await self.stand(member, self._service.shards)

    async def close(self) -> None:
        """Leave the elections and relinquish what is left."""
        await super().close()
        await self._service.close()
