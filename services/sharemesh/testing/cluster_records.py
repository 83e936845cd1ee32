"""What a cluster has written down, without the processes that write it."""

from collections.abc import Callable, Mapping

from sharemesh.backends.local.coordination import LocalCoordination
from sharemesh.backends.local.coordination_store import LocalStore
from sharemesh.cluster.bootstrap import ensure_cluster
from sharemesh.cluster.store import records
from sharemesh.cluster.store.keys import election_name
from sharemesh.cluster.view.watched_view import WatchedView
from sharemesh.domain.ids import GroupId, NodeId, TopicId, TopicPartition
from sharemesh.ports.clock import Clock
from sharemesh.ports.cluster import NodeInfo, ShardKind, TopicInfo
from sharemesh.ports.coordination import Coordination, Delete, Put

SEEN_TIMEOUT_MS = 5_000


class ClusterRecords:
    """A connection to a store, the view of it, and what a test writes there by hand.

    Args:
        clock: The time of store and view.
        coordination: The connection; without one: to a store in memory of its own.
        cluster_id: The cluster's name.
    """

    def __init__(
        self, clock: Clock, *, coordination: Coordination | None = None, cluster_id: str = "test"
    ) -> None:
        self.clock = clock
        self._own_store: LocalStore | None = None
        if coordination is None:
            self._own_store = LocalStore(clock)
            coordination = LocalCoordination(self._own_store)
        self.coordination = coordination
        self.view = WatchedView(self.coordination, cluster_id, clock)
        self._cluster_id = cluster_id

    async def open(self, *, group_shards: int = 1, state_shards: int = 1) -> None:
        """Create the cluster if there is none, and begin to watch it."""
        await ensure_cluster(
            self.coordination,
            self._cluster_id,
            group_shards=group_shards,
            state_shards=state_shards,
        )
        await self.view.start()

    async def close(self) -> None:
        """End the view and the connection, and a store of one's own."""
        await self.view.close()
        await self.coordination.close()
        if self._own_store is not None:
            await self._own_store.close()

    async def write(self, *operations: Put | Delete, until: Callable[[], object]) -> None:
        """Write all at once, and wait until the view shows it.

        Raises:
            TimeoutError: The view did not come to show it.
        """
        await self.coordination.commit([], operations)
        await self.sees(until)

    async def sees(self, condition: Callable[[], object]) -> None:
        """Wait until the view shows something.

        Raises:
            TimeoutError: It did not come to show it.
        """
        seen = await self.view.wait_for(lambda: bool(condition()), timeout_ms=SEEN_TIMEOUT_MS)
        if not seen:
            raise TimeoutError(f"the view did not show it within {SEEN_TIMEOUT_MS} ms")

    def topic(self, name: str, topic_id: TopicId, partitions: int) -> Put:
        """Return what creates a topic."""
        info = TopicInfo(name, topic_id, partitions, {})
        return Put(self.view.keys.topic(name), records.encode_topic(info))

    def registered(self, node: NodeInfo) -> Put:
        """Return what registers a process."""
        return Put(self.view.keys.member(node.node_id), records.encode_member(node))

    def elected(self, kind: ShardKind, shard: int, node_id: NodeId) -> Put:
        """Return what makes a process the first candidate for a coordinator shard."""
        election = self.view.keys.election(election_name(kind, shard))
        return Put(f"{election}/{node_id}", records.encode_candidate(node_id))

    def claimed(self, partition: TopicPartition, node_id: NodeId, leader_epoch: int) -> Put:
        """Return what makes a process the leader of a topic-partition."""
        claim = records.Claim(node_id, leader_epoch)
        return Put(self.view.keys.claim(partition), records.encode_claim(claim))

    def group_settings(self, group_id: GroupId, entries: Mapping[str, str]) -> Put:
        """Return what stores the settings of a group, without any check."""
        return Put(self.view.keys.group_config(group_id), records.encode_configs(entries))

    def cluster_settings(self, entries: Mapping[str, str]) -> Put:
        """Return what stores the settings of the cluster, without any check."""
        return Put(self.view.keys.cluster_configs, records.encode_configs(entries))
