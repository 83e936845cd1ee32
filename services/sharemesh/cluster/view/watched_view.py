"""The watched view: one watch over the cluster's keys, answers from memory."""

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping
from contextlib import aclosing

from sharemesh.cluster.store.keys import CONTROLLER, Keys, election_name, parse_partition_path
from sharemesh.cluster.store.records import AssignmentState, ClusterRecord
from sharemesh.cluster.view.cluster_state import ClusterState, StateChanges
from sharemesh.domain.group_config import GroupConfig
from sharemesh.domain.group_config.evaluate import effective_group_config
from sharemesh.domain.ids import (
    GroupId,
    NodeId,
    SharePartitionKey,
    TopicId,
    TopicPartition,
    format_key,
    home_shard,
)
from sharemesh.ports.clock import Clock
from sharemesh.ports.cluster import (
    NodeInfo,
    PartitionLeader,
    Reassignment,
    Role,
    ShardKind,
    ShardLeader,
    TopicInfo,
    UnassignedPartition,
)
from sharemesh.ports.coordination import (
    Coordination,
    CoordinationError,
    ElectedLeadership,
    RangeSnapshot,
)
from sharemesh.remembered import Remembered
from sharemesh.tasks import cancel_and_wait

START_TIMEOUT_MS = 30_000
SNAPSHOT_SLICE_KEYS = 500  # read between two turns of the loop
GROUP_CONFIG_CACHE_BYTES = 8 * 1024 * 1024
SHARE_VERSION_DEFAULT = 1
RESTART_MS = 1_000

FALLEN_MAX = 100_000
"""Of how many partitions a leader epoch is remembered that the store has forgotten."""

_log = logging.getLogger(__name__)


class WatchedView:
    """Fills ports.cluster.ClusterView; ``tables`` is for this room and the controller."""

    def __init__(self, coordination: Coordination, cluster_id: str, clock: Clock) -> None:
        self._coordination = coordination
        self._clock = clock
        self.keys = Keys(cluster_id)
        self.tables = ClusterState(self.keys)
        self.generation = 0  # how many snapshots were taken; revisions may fall in between
        self._fallen: dict[TopicPartition, int] = {}  # leader epochs before they fell, or went
        self._subscribers: dict[int, Callable[[StateChanges], None]] = {}
        self._next_subscriber = 0
        self._changes = StateChanges()
        self._announced = False
        self._group_configs = Remembered[GroupId, GroupConfig](GROUP_CONFIG_CACHE_BYTES)
        self.last_error = ""
        self._waiters: dict[asyncio.Future[None], None] = {}  # in the order of their coming
        self._task: asyncio.Task[None] | None = None

    # ---- life ------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Read everything once, then follow.

        Raises:
            CoordinationError: The store does not answer, or holds no such cluster.
        """
        if await self._coordination.get(self.keys.cluster) is None:
            raise CoordinationError(
                f"no cluster {self.cluster_id!r} in the coordination store; it is created by "
                "the first process that starts (ensure_cluster); check the cluster id"
            )
        self._task = asyncio.create_task(self._follow_for_ever(), name="cluster view")
        ready = await self.wait_for(lambda: self.generation > 0, timeout_ms=START_TIMEOUT_MS)
        if not ready:
            await self.close()
            raise CoordinationError(
                f"the view of cluster {self.cluster_id!r} was not complete in "
                f"{START_TIMEOUT_MS} ms; check the coordination store"
            )

    async def close(self) -> None:
        """Stop following; the last state can still be read."""
        task, self._task = self._task, None
        if task is not None:
            await cancel_and_wait(task)
        for waiter in self._waiters:
            waiter.cancel()

    # ---- what ClusterView promises ---------------------------------------------------------------

    @property
    def cluster_id(self) -> str:
        """The cluster's name, as in etcd and in the data directory."""
        return self.keys.cluster_id

    def nodes(self) -> tuple[NodeInfo, ...]:
        """Return live nodes, by node id."""
        members = self.tables.members
        return tuple(members[node_id].value for node_id in sorted(members))

    def topics(self) -> tuple[TopicInfo, ...]:
        """Return topics, by name."""
        topics = self.tables.topics
        return tuple(topics[name].value for name in sorted(topics))

    def topic(self, topic_id: TopicId) -> TopicInfo | None:
        """Return a topic by id."""
        stored = self.tables.topics_by_id.get(topic_id)
        return stored.value if stored else None

    def topic_named(self, name: str) -> TopicInfo | None:
        """Return a topic by name."""
        stored = self.tables.topics.get(name)
        return stored.value if stored else None

    def leader(self, partition: TopicPartition) -> PartitionLeader | None:
        """Return who leads a topic-partition, or None between leaders."""
        claim = self.tables.claims.get(partition)
        if claim is None or not self.tables.partition_exists(partition):
            return None
        node = self.node(claim.value.node_id)
        return PartitionLeader(node, claim.value.leader_epoch) if node else None

    def next_leader(self, partition: TopicPartition) -> NodeInfo | None:
        """Return who is to lead a topic-partition after its leader, if another one is named."""
        claim = self.tables.claims.get(partition)
        assignment = self.tables.assignments.get(partition)
        if assignment is None or (claim and claim.value.node_id == assignment.value.leader):
            return None
        return self.node(assignment.value.leader)

    def standbys(self, partition: TopicPartition) -> tuple[NodeId, ...]:
        """Return who takes a topic-partition over if its leader is lost, first one first."""
        assignment = self.tables.assignments.get(partition)
        return assignment.value.standbys if assignment else ()

    def unassigned(self) -> tuple[UnassignedPartition, ...]:
        """Return topic-partitions without a leader, by topic name and number, with the reason."""
        has_leaders = bool(self.nodes_with(Role.SHARE_LEADER))
        return tuple(
            UnassignedPartition(topic, number, self._why_unled(partition, has_leaders=has_leaders))
            for topic in self.topics()
            for number in range(topic.partitions)
            if self.leader(partition := TopicPartition(topic.topic_id, number)) is None
        )

    def moves(self) -> tuple[Reassignment, ...]:
        """Return topic-partitions that are to change leaders, by topic name and number."""
        return tuple(
            Reassignment(topic, number, held.value.node_id, wanted, held.value.leader_epoch)
            for topic in self.topics()
            for number in range(topic.partitions)
            if (held := self.tables.claims.get(p := TopicPartition(topic.topic_id, number)))
            and (assignment := self.tables.assignments.get(p))
            and (wanted := assignment.value.leader) != held.value.node_id
        )

    def shards(self) -> tuple[ShardLeader, ...]:
        """Return every coordinator shard: group shards first, by number."""
        counts = self.cluster_record()
        return tuple(
            ShardLeader(
                kind,
                shard,
                self._elected(name),
                self.shard_epoch(name),
                self.tables.losses.get(name, ""),
                self.tables.damages.get(name, ""),
            )
            for kind, count in (
                (ShardKind.GROUP, counts.group_shards),
                (ShardKind.STATE, counts.state_shards),
            )
            for shard in range(count)
            for name in (election_name(kind, shard),)
        )

    def storage_problems(self) -> tuple[str, ...]:
        """Return what is wrong with the topics of the cluster's own, a sentence each."""
        return tuple(words for _, words in sorted(self.tables.storage_problems.items()))

    def group_shard(self, group_id: GroupId) -> int:
        """Return the group-coordinator shard of a group."""
        return home_shard(group_id, self.cluster_record().group_shards)

    def share_shard(self, key: SharePartitionKey) -> int:
        """Return the share-coordinator shard of a share partition (spec SC-1, SC-2)."""
        return home_shard(format_key(key), self.cluster_record().state_shards)

    def group_coordinator(self, shard: int) -> NodeInfo | None:
        """Return who leads a group shard, or None between leaders."""
        return self._elected(election_name(ShardKind.GROUP, shard))

    def share_coordinator(self, shard: int) -> NodeInfo | None:
        """Return who leads a state shard, or None between leaders."""
        return self._elected(election_name(ShardKind.STATE, shard))

    def controller(self) -> NodeInfo | None:
        """Return the elected controller."""
        return self._elected(CONTROLLER)

    def group_config(self, group_id: GroupId) -> GroupConfig:
        """Return the settings of a group in force now (clamped to the cluster's bounds)."""
        return self._group_configs.answer(
            group_id,
            (group_id,),
            lambda: effective_group_config(
                self.group_config_entries(group_id), self.tables.cluster_configs
            ),
        )

    def group_config_entries(self, group_id: GroupId) -> Mapping[str, str]:
        """Return only what was set for this group, by Kafka's name."""
        return self.tables.group_configs.get(group_id, {})

    def configured_groups(self) -> Collection[GroupId]:
        """Return the groups for which something was set, whether they exist or not."""
        return self.tables.group_configs.keys()

    def cluster_configs(self) -> Mapping[str, str]:
        """Return settings of the cluster that differ from the defaults."""
        return self.tables.cluster_configs

    def share_version(self) -> int:
        """Return the feature level: 0 off, 1 on."""
        level = self.tables.share_version
        return SHARE_VERSION_DEFAULT if level is None else level

    def on_change(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call back on the loop after each change; returns what unsubscribes."""
        return self.subscribe(lambda _: callback())

    def on_leaders(
        self, callback: Callable[[Collection[TopicPartition] | None], None]
    ) -> Callable[[], None]:
        """Call back with partitions whose leader may have changed, None: any; as on_change."""

        def changed(changes: StateChanges) -> None:
            if changes.everything or changes.members:
                callback(None)
            elif changes.partitions:
                callback(changes.partitions)

        return self.subscribe(changed)

    async def wait_for(self, condition: Callable[[], bool], *, timeout_ms: int) -> bool:
        """Wait until the condition holds after some change; return whether it does."""
        deadline_ms = self._clock.now_ms() + timeout_ms
        while not condition():
            left_ms = deadline_ms - self._clock.now_ms()
            if left_ms <= 0:
                return False
            changed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiters[changed] = None
            timer = asyncio.create_task(self._clock.sleep_ms(left_ms))
            try:
                await asyncio.wait({changed, timer}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                del self._waiters[changed]
                timer.cancel()
        return True

    # ---- for the rooms that keep the cluster -----------------------------------------------------

    def node(self, node_id: NodeId) -> NodeInfo | None:
        """Return a live node."""
        stored = self.tables.members.get(node_id)
        return stored.value if stored else None

    def nodes_with(self, role: Role) -> tuple[NodeInfo, ...]:
        """Return live nodes of a role, by node id."""
        return tuple(node for node in self.nodes() if role in node.roles)

    def cluster_record(self) -> ClusterRecord:
        """Return what was fixed at creation.

        Raises:
            CoordinationError: The view has not started.
        """
        if self.tables.cluster is None:
            raise CoordinationError(
                f"the view of cluster {self.cluster_id!r} knows no shard counts; start it first"
            )
        return self.tables.cluster

    def shard_epoch(self, election: str) -> int:
        """Return the highest epoch of a shard, 0 before the first."""
        epoch = self.tables.epochs.get(election)
        return epoch.value if epoch else 0

    def lead_above(self, partition: TopicPartition) -> int:
        """Return the leader epoch that the store has forgotten; 0: none (KRL-17)."""
        return self._fallen.get(partition, 0)

    def election_vanished(
        self, election: str, leadership: ElectedLeadership, generation: int
    ) -> bool:
        """Return whether the store has forgotten a leadership won in view ``generation``.

        It does if it was restored from an older backup, while the lease may live on.
        """
        seen = self.generation > generation or self.tables.revision >= leadership.token
        candidates = self.tables.candidates.get(election, {}).values()
        return seen and all(each.create_revision != leadership.token for each in candidates)

    def subscribe(self, callback: Callable[[StateChanges], None]) -> Callable[[], None]:
        """As ``on_change``, but the callback gets what changed."""
        number = self._next_subscriber
        self._next_subscriber += 1
        self._subscribers[number] = callback
        return lambda: (self._subscribers.pop(number, None), None)[1]

    # ---- inside ----------------------------------------------------------------------------------

    def _elected(self, election: str) -> NodeInfo | None:
        leader = self.tables.leader_of(election)
        return self.node(leader.value) if leader else None

    def _why_unled(self, partition: TopicPartition, *, has_leaders: bool) -> str:
        assignment = self.tables.assignments.get(partition)
        if not has_leaders:
            return "no share-leader process is registered; start one"
        if assignment is None:
            if self.controller() is None:
                return "no controller is elected, so nobody assigns it; start one"
            return "the controller has not assigned it yet"
        leader = self.node(assignment.value.leader)
        if leader is None:
            return f"its leader {assignment.value.leader} is gone; a standby will claim it"
        trouble = self.tables.troubles.get(partition)
        if trouble is not None:
            return f"{trouble.value.node_id} cannot lead it: {trouble.value.why}"
        if assignment.value.state is AssignmentState.MOVING:
            return f"it is moving to {leader.node_id}"
        return f"{leader.node_id} is taking it over"

    async def _follow_for_ever(self) -> None:
        while True:
            try:
                await self._follow()
            except Exception as error:  # a view that stands still unseen would be worse
                _log.exception("cluster view: reading again in %d ms", RESTART_MS)
                self.last_error = f"{type(error).__name__}: {error}"
                await self._clock.sleep_ms(RESTART_MS)

    async def _follow(self) -> None:
        async with aclosing(self._coordination.watch(self.keys.prefix)) as items:
            async for item in items:
                if isinstance(item, RangeSnapshot):
                    await self._take_snapshot(item)
                else:
                    self.tables.revision = item.revision
                    if item.current is None:
                        self._note_deleted(item.key)
                    self.tables.apply(item.key, item.current, self._changes)
                self._announce()

    async def _take_snapshot(self, snapshot: RangeSnapshot) -> None:
        tables = ClusterState(self.keys)
        for number, entry in enumerate(snapshot.entries):
            tables.apply(entry.key, entry, StateChanges())
            if number % SNAPSHOT_SLICE_KEYS == SNAPSHOT_SLICE_KEYS - 1:
                await self._clock.sleep_ms(0)
        tables.revision = snapshot.revision
        self._note_fallen(tables)
        self.tables = tables
        self.generation += 1
        self._changes.everything = True

    def _note_fallen(self, tables: ClusterState) -> None:
        """Remember leader epochs that are higher than those of a store that was restored."""
        for partition, before in self.tables.assignments.items():
            now = tables.assignments.get(partition)
            if now is None or now.value.leader_epoch < before.value.leader_epoch:
                self._note_epoch(partition, before.value.leader_epoch)

    def _note_deleted(self, key: str) -> None:
        """Remember the leader epoch of a partition whose topic may be attached again (KTP-3)."""
        path = key.removeprefix(self.keys.assignments)
        partition = parse_partition_path(path) if path != key else None
        before = None if partition is None else self.tables.assignments.get(partition)
        if partition is not None and before is not None:
            self._note_epoch(partition, before.value.leader_epoch)

    def _note_epoch(self, partition: TopicPartition, leader_epoch: int) -> None:
        self._fallen[partition] = max(self._fallen.pop(partition, 0), leader_epoch)
        while len(self._fallen) > FALLEN_MAX:
            del self._fallen[next(iter(self._fallen))]

    def _announce(self) -> None:
        """Tell subscribers once for all changes of this turn of the loop."""
        if not self._announced:
            self._announced = True
            asyncio.get_running_loop().call_soon(self._tell)

    def _tell(self) -> None:
        self._announced = False
        changes, self._changes = self._changes, StateChanges()
        if changes.everything or changes.configs:
            self._group_configs.clear()
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)
        for callback in tuple(self._subscribers.values()):
            try:
                callback(changes)
            except Exception:  # one subscriber's fault must not keep others in the dark
                _log.exception("a subscriber of the cluster view failed")
