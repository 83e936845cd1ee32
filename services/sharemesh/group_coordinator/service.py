"""The group coordinator: all its methods, on the shards that this process serves."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from sharemesh import methods
from sharemesh.domain.errors import ErrorCode, RefusedError
from sharemesh.domain.ids import MAX_GROUP_ID_CHARS, GroupId, NodeId
from sharemesh.domain.share_group.records import GroupLogRecord
from sharemesh.domain.share_group.shard import GroupShard
from sharemesh.domain.share_group.topics_image import TopicsImage
from sharemesh.group_coordinator.config_admin import GroupConfigAdmin
from sharemesh.group_coordinator.coordinator_context import CoordinatorContext
from sharemesh.group_coordinator.group_admin import GroupAdmin
from sharemesh.group_coordinator.group_gauges import GroupGauges
from sharemesh.group_coordinator.group_shard import ServedGroups
from sharemesh.group_coordinator.group_shard_kind import group_shard_kind
from sharemesh.group_coordinator.heartbeats import HeartbeatHandler
from sharemesh.group_coordinator.log_ends import LogEnds
from sharemesh.group_coordinator.offset_admin import OffsetAdmin
from sharemesh.group_coordinator.settings import ServiceLimits
from sharemesh.group_coordinator.states import ShareStates
from sharemesh.ports.authorizer import Authorizer
from sharemesh.ports.clock import Clock
from sharemesh.ports.cluster import ClusterView
from sharemesh.ports.coordination import Coordination
from sharemesh.ports.network import Caller, Listener
from sharemesh.ports.shard_log import ShardLogs
from sharemesh.runtime.limits import RuntimeLimits
from sharemesh.runtime.shard import CoordinatorShard
from sharemesh.runtime.shard_set import ShardSet
from sharemesh.telemetry.telemetry import Telemetry

_KNOWN_GROUPS_MAX = 20_000  # shards of groups are remembered: the number of shards is fixed


@dataclass(frozen=True, slots=True)
class GroupCoordinatorPorts:
    """What the service is built on."""

    clock: Clock
    view: ClusterView
    authorizer: Authorizer
    logs: ShardLogs
    states: ShareStates
    coordination: Coordination
    caller: Caller
    telemetry: Telemetry | None = None


class GroupCoordinatorService:
    """Members, assignment, initialization and administration of share groups (GC, ASG, CLI)."""

    def __init__(
        self,
        node_id: NodeId,
        ports: GroupCoordinatorPorts,
        *,
        limits: ServiceLimits | None = None,
        runtime_limits: RuntimeLimits | None = None,
    ) -> None:
        self._ports = ports
        self._surroundings = CoordinatorContext(
            node_id, ports.clock, ports.view, ports.authorizer, limits or ServiceLimits()
        )
        self._served: dict[int, ServedGroups] = {}
        self._shards_of: dict[GroupId, int] = {}
        self._shards = ShardSet(
            group_shard_kind(ports.clock),
            ports.logs,
            ports.clock,
            runtime_limits or RuntimeLimits(),
            on_loaded=self._loaded,
            telemetry=ports.telemetry,
        )
        if ports.telemetry is not None:
            gauges = GroupGauges(
                lambda: [
                    shard.peek(lambda machine: machine.groups) for shard in self._shards.served()
                ]
            )
            gauges.register(ports.telemetry.registry)
        self._ending: set[asyncio.Task[None]] = set()
        self._surroundings.on_topics(self._topics_changed)
        self._unsubscribe_rights = self._surroundings.on_rights(self._rights_changed)
        self._shards.on_ended(self._end_streams)

    def offer(self, listener: Listener) -> None:
        """Offer all methods of ``GroupCoordinator``."""
        heartbeats = HeartbeatHandler(self._surroundings, self.groups_of)
        groups = GroupAdmin(self._surroundings, self.groups_of, lambda: self.served)
        offsets = OffsetAdmin(
            self._surroundings,
            self.groups_of,
            self._ports.states,
            LogEnds(self._ports.view, self._ports.caller),
        )
        configs = GroupConfigAdmin(self._surroundings, self.groups_of, self._ports.coordination)
        listener.offer(methods.SHARE_GROUP_HEARTBEAT, heartbeats.unary)
        listener.offer_stream(methods.SHARE_GROUP_HEARTBEAT_STREAM, heartbeats.stream)
        listener.offer(methods.SHARE_GROUP_DESCRIBE, groups.describe)
        listener.offer(methods.LIST_GROUPS, groups.list_groups)
        listener.offer(methods.DELETE_GROUPS, groups.delete)
        listener.offer(methods.DESCRIBE_SHARE_GROUP_OFFSETS, offsets.describe)
        listener.offer(methods.ALTER_SHARE_GROUP_OFFSETS, offsets.alter)
        listener.offer(methods.DELETE_SHARE_GROUP_OFFSETS, offsets.delete)
        listener.offer(methods.DESCRIBE_GROUP_CONFIGS, configs.describe)
        listener.offer(methods.ALTER_GROUP_CONFIGS, configs.alter)

    @property
    def served(self) -> list[ServedGroups]:
        """The groups of each shard that is served now."""
        return [self._served[index] for index in sorted(self._served)]

    def groups_of(self, group_id: GroupId) -> ServedGroups:
        """Return who serves a group.

        Raises:
            RefusedError: INVALID_GROUP_ID; COORDINATOR_LOAD_IN_PROGRESS while the shard loads,
                NOT_COORDINATOR if another node has it, COORDINATOR_NOT_AVAILABLE if none has
                (spec GC-4).
        """
        if len(group_id) > MAX_GROUP_ID_CHARS:
            raise RefusedError(
                ErrorCode.INVALID_GROUP_ID,
                f"group id of {len(group_id)} characters; the most is {MAX_GROUP_ID_CHARS}",
            )
        index = self._shard_of(group_id)
        served = self._served.get(index)
        if served is not None:
            return served
        self._check_not_loading(index)
        node = self._ports.view.group_coordinator(index)
        if node is None or node.node_id == self._surroundings.node_id:
            raise RefusedError(
                ErrorCode.COORDINATOR_NOT_AVAILABLE,
                f"shard group-{index} has no coordinator yet; try again soon",
            )
        raise RefusedError(
            ErrorCode.NOT_COORDINATOR,
            f"shard group-{index} is served by node {node.node_id}; look it up again",
        )

    # ---- what the shard elections drive (ports.cluster.ShardHost) -------------------------------

    async def start_shard(self, shard: int, epoch: int) -> None:
        """Take over the log of a shard and load it; raises if that fails."""
        self._end_streams(shard)
        await self._shards.start_shard(shard, epoch)

    async def stop_shard(self, shard: int) -> None:
        """Stop serving a shard; returns when nothing of it can be confirmed any more."""
        await self._shards.stop_shard(shard)
        self._end_streams(shard)

    def on_ended(self, callback: Callable[[int], None]) -> None:
        """Register what is called with the shard when its epoch ended by itself."""
        self._shards.on_ended(callback)

    async def close(self) -> None:
        """Give all shards up and end all streams."""
        self._surroundings.close()
        self._unsubscribe_rights()
        await self._shards.close()
        for index in list(self._served):
            self._end_streams(index)
        await asyncio.gather(*self._ending, return_exceptions=True)

    def _shard_of(self, group_id: GroupId) -> int:
        index = self._shards_of.get(group_id)
        if index is None:
            if len(self._shards_of) >= _KNOWN_GROUPS_MAX:
                self._shards_of.clear()
            index = self._shards_of[group_id] = self._ports.view.group_shard(group_id)
        return index

    def _check_not_loading(self, index: int) -> None:
        try:
            self._shards.shard(index)
        except RefusedError as error:
            if error.error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                raise

    # ---- inside ---------------------------------------------------------------------------------

    def _end_streams(self, index: int) -> None:
        """End the streams of a shard that is no longer served: members look it up again."""
        served = self._served.pop(index, None)
        for stream in served.streams.all() if served is not None else ():
            task = asyncio.get_running_loop().create_task(stream.close(), name="end of a stream")
            self._ending.add(task)
            task.add_done_callback(self._ending.discard)

    def _loaded(self, shard: CoordinatorShard[GroupShard, GroupLogRecord]) -> None:
        served = ServedGroups(shard, self._surroundings, self._ports.states)
        self._served[shard.index] = served
        served.start()

    def _rights_changed(self) -> None:
        for served in self.served:
            served.rights_changed()

    def _topics_changed(self, before: TopicsImage, now: TopicsImage) -> None:
        for served in self.served:
            served.topics_changed(before, now)
