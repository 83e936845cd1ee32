"""The share coordinator, built."""

from sharemesh.backends.embedded.shard_logs import EmbeddedShardLogs
from sharemesh.cluster.elections.shard_elections import ShardElections
from sharemesh.cluster.membership import ClusterMember
from sharemesh.ports.cluster import ShardKind
from sharemesh.ports.network import Listener
from sharemesh.serve.process_context import ProcessContext
from sharemesh.serve.settings.room_settings import (
    log_settings,
    share_coordinator_settings,
    state_log_settings,
)
from sharemesh.share_coordinator.generation_reader import GenerationReader
from sharemesh.share_coordinator.service import ShareCoordinatorService


class ShareCoordinatorRole:
    """Fills ``RoleService``: state shards, elected one by one."""

    def __init__(self, around: ProcessContext) -> None:
        self._around = around
        configs = around.view.cluster_configs()
        bounds = state_log_settings(log_settings(around.settings), configs)
        logs = EmbeddedShardLogs(around.disk, around.clock, bounds)
        self._service = ShareCoordinatorService(
            around.view,
            around.clock,
            logs,
            share_coordinator_settings(configs),
            authorizer=around.authorizer,
            generations=GenerationReader(around.disk),
            telemetry=around.telemetry,
        )
        self._elections: ShardElections | None = None

    def offer(self, listener: Listener) -> None:
        """Offer ``ShareCoordinator``."""
        self._service.offer(listener)

    async def start(self, member: ClusterMember) -> None:
        """Stand for election of every state shard."""
        self._service.start()
        self._elections = ShardElections(
            self._around.coordination,
            member,
            self._around.view,
            self._around.clock,
            kind=ShardKind.STATE,
            host=self._service.shards,
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
