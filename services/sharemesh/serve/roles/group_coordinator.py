"""The group coordinator, built."""

from sharemesh.cluster.membership import ClusterMember
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
            ),
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
        await self._persister.close()
