"""The group coordinator, built."""

from sharemesh.backends.embedded.shard_logs import EmbeddedShardLogs
from sharemesh.cluster.elections.shard_elections import ShardElections
from sharemesh.cluster.membership import ClusterMember
from sharemesh.group_coordinator.service import GroupCoordinatorPorts, GroupCoordinatorService
from sharemesh.persister.persister import Persister
from sharemesh.ports.cluster import ShardKind
from sharemesh.ports.network import Listener
from sharemesh.serve.process.share_states import PersistedShareStates
from sharemesh.serve.process_context import ProcessContext
from sharemesh.serve.settings.room_settings import log_settings, persister_settings


class GroupCoordinatorRole:
    """Fills ``RoleService``: group shards, elected one by one."""

    def __init__(self, around: ProcessContext) -> None:
        self._around = around
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
                logs=EmbeddedShardLogs(around.disk, around.clock, log_settings(around.settings)),
                states=PersistedShareStates(self._persister),
                coordination=around.coordination,
                caller=around.caller,
                telemetry=around.telemetry,
            ),
        )
        self._elections: ShardElections | None = None

    def offer(self, listener: Listener) -> None:
        """Offer ``GroupCoordinator``."""
        self._service.offer(listener)

    async def start(self, member: ClusterMember) -> None:
        """Stand for election of every group shard."""
        self._elections = ShardElections(
            self._around.coordination,
            member,
            self._around.view,
            self._around.clock,
            kind=ShardKind.GROUP,
            host=self._service,
        )
        await self._elections.start()

    async def drain(self) -> None:
        """Give every shard away."""
        if self._elections is not None:
            await self._elections.drain()

    async def close(self) -> None:
        """Stop standing and give up what is left."""
        if self._elections is not None:
            await self._elections.close()
        await self._service.close()
        await self._persister.close()
