"""The group coordinator: all its methods, on the shards that this process serves."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from sharemesh import methods
from sharemesh.cluster.quota_table import Unlimited
from sharemesh.domain.errors import ErrorCode, RefusedError
from sharemesh.domain.ids import GroupId, NodeId
from sharemesh.domain.quota.names import QuotaName
from sharemesh.domain.share_group.context import TopicsImage
from sharemesh.domain.share_group.group import GroupState, ShareGroup
from sharemesh.group_coordinator.config_admin import GroupConfigAdmin
from sharemesh.group_coordinator.coordinator_context import CoordinatorContext, ServiceLimits
from sharemesh.group_coordinator.group_admin import GroupAdmin
from sharemesh.group_coordinator.group_shard import LoadedShard, group_shard_kind
from sharemesh.group_coordinator.heartbeats import HeartbeatHandler
from sharemesh.group_coordinator.log_ends import LogEnds
from sharemesh.group_coordinator.offset_admin import OffsetAdmin
from sharemesh.group_coordinator.served_groups import ServedGroups
from sharemesh.ports.authorizer import Authorizer
from sharemesh.ports.clock import Clock
from sharemesh.ports.cluster import ClusterView
from sharemesh.ports.coordination import Coordination
from sharemesh.ports.network import Caller, Listener
from sharemesh.ports.quotas import Quotas
from sharemesh.ports.shard_log import ShardLogs
from sharemesh.ports.share_state import PersisterPort
from sharemesh.ports.topic_wishes import TopicWishes
from sharemesh.remembered import Remembered
from sharemesh.runtime.shard_kind import RuntimeLimits
from sharemesh.runtime.shard_set import ShardSet
from sharemesh.tasks import OwnedTasks
from sharemesh.telemetry import names
from sharemesh.telemetry.instruments import Observation, Registry
from sharemesh.telemetry.telemetry import Telemetry, without_export
from sharemesh.throttling.counted_quota import CountedQuota
from sharemesh.throttling.quota_signals import QuotaSignals
from sharemesh.timers import Timers


@dataclass(frozen=True, slots=True)
class GroupCoordinatorPorts:
    """What the service is built on."""

    clock: Clock
    view: ClusterView
    authorizer: Authorizer
    logs: ShardLogs
    persister: PersisterPort
    coordination: Coordination
    caller: Caller
    telemetry: Telemetry | None = None
    quotas: Quotas | None = None
    wishes: TopicWishes | None = None  # who is told of topics that are subscribed to


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
        telemetry = ports.telemetry or without_export(lambda: ports.clock.wall_ms() * 1_000_000)
        signals = QuotaSignals(telemetry.registry, ports.clock)
        self._quota = CountedQuota(QuotaName.GROUPS, ports.quotas or Unlimited(), signals)
        self._coordinator = CoordinatorContext(
            node_id,
            ports.clock,
            ports.view,
            ports.authorizer,
            limits or ServiceLimits(),
            self._count_groups,
            self._exceeded,
        )
        self._served: dict[int, ServedGroups] = {}
        self._shards_of = Remembered[GroupId, int](_KNOWN_GROUPS_BYTES)
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
        self._ending = OwnedTasks("the group coordinator")
        self._timers = Timers(ports.clock)
        self._coordinator.on_topics(self._topics_changed)
        self._unsubscribe_rights = self._coordinator.on_rights(self._rights_changed)
        self._shards.on_ended(self._end_streams)

    def offer(self, listener: Listener) -> None:
        """Offer all methods of ``GroupCoordinator``."""
        heartbeats = HeartbeatHandler(self._coordinator, self.groups_of, self._ports.wishes)
        groups = GroupAdmin(self._coordinator, self.groups_of, lambda: self.served)
        offsets = OffsetAdmin(
            self._coordinator,
            self.groups_of,
            self._ports.persister,
            LogEnds(self._ports.view, self._ports.caller),
        )
        configs = GroupConfigAdmin(self._coordinator, self.groups_of, self._ports.coordination)
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
            RefusedError: COORDINATOR_LOAD_IN_PROGRESS while the shard loads, NOT_COORDINATOR if
                another node has it, COORDINATOR_NOT_AVAILABLE if none has (spec GC-4).
        """
        index = self._shard_of(group_id)
        served = self._served.get(index)
        if served is not None:
            return served
        self._check_not_loading(index)
        node = self._ports.view.group_coordinator(index)
        if node is None or node.node_id == self._coordinator.node_id:
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

    async def stop_shard(self, shard: int, *, orderly: bool = False) -> None:
        """Stop serving a shard; returns when nothing of it can be confirmed any more."""
        await self._shards.stop_shard(shard, orderly=orderly)
        self._end_streams(shard)

    def on_ended(self, callback: Callable[[int], None]) -> None:
        """Register what is called with the shard when its epoch ended by itself."""
        self._shards.on_ended(callback)

    async def close(self) -> None:
        """Relinquish all shards and end all streams."""
        self._coordinator.close()
        self._unsubscribe_rights()
        await self._shards.close()
        for index in list(self._served):
            self._end_streams(index)
        await self._ending.settle()
        await self._timers.close()

    def _shard_of(self, group_id: GroupId) -> int:
        view = self._ports.view
        return self._shards_of.answer(group_id, (group_id,), lambda: view.group_shard(group_id))

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
        for stream in served.end() if served is not None else ():
            self._ending.spawn(stream.close())

    def _loaded(self, shard: LoadedShard) -> None:
        served = ServedGroups(
            shard, self._coordinator, self._ports.persister, self._timers, self._ports.wishes
        )
        self._served[shard.index] = served
        served.start()

    def _count_groups(self) -> int:
        return sum(
            served.shard.peek(lambda machine: len(machine.groups))
            for served in self._served.values()
        )

    def _exceeded(self, principal: str) -> str:
        """Return why a principal may make no more groups (QUO-12); empty: it may."""
        if self._quota.limit(principal) is None:
            return ""
        made = (
            served.shard.peek(lambda machine: machine.made.of(principal))
            for served in self._served.values()
        )
        return self._quota.exceeded(principal, sum(made))

    def _rights_changed(self) -> None:
        for served in self.served:
            served.rights_changed()

    def _topics_changed(self, before: TopicsImage, now: TopicsImage) -> None:
        for served in self.served:
            served.topics_changed(before, now)


class GroupGauges:
    """Counts groups by state, members, and raises of group epochs seen between collections."""

    def __init__(self, groups: Callable[[], Iterable[Mapping[GroupId, ShareGroup]]]) -> None:
        self._groups = groups
        self._epochs: dict[GroupId, int] = {}
        self._raised = 0

    def register(self, registry: Registry) -> None:
        """Register the metrics."""
        registry.observe(names.GROUPS, self._by_state)
        registry.observe(names.GROUP_MEMBERS, self._members)
        registry.observe(names.GROUP_EPOCHS, self._epochs_raised)

    def _all(self) -> Iterator[ShareGroup]:
        for groups in self._groups():
            yield from groups.values()

    def _by_state(self) -> Iterator[Observation]:
        found = Counter(group.state for group in self._all())
        for state in GroupState:
            yield (state.name.lower(),), found[state]

    def _members(self) -> Iterator[Observation]:
        yield (), sum(len(group.members) for group in self._all())

    def _epochs_raised(self) -> Iterator[Observation]:
        seen = {group.group_id: group.epoch for group in self._all()}
        for group_id, epoch in seen.items():
            before = self._epochs.get(group_id)
            self._raised += 0 if before is None else max(0, epoch - before)
        self._epochs = seen
        yield (), self._raised


_KNOWN_GROUPS_BYTES = 8 * 1024 * 1024  # shards of groups: the number of shards is fixed
