"""What a cluster has written down, without the processes that write it."""

from collections.abc import Callable

from sharemesh.backends.local.coordination import LocalCoordination
from sharemesh.backends.local.coordination_store import LocalStore
from sharemesh.cluster.bootstrap import ensure_cluster
from sharemesh.cluster.store import records
from sharemesh.cluster.view.watched_view import WatchedView
from sharemesh.domain.ids import TopicId
from sharemesh.ports.clock import Clock
from sharemesh.ports.cluster import NodeInfo, TopicInfo
from sharemesh.ports.coordination import Delete, Put

SEEN_TIMEOUT_MS = 5_000


class ClusterRecords:
    """A connection to a store in memory, the view of it, and what a test writes there by hand.

    Args:
        clock: The time of store and view.
        store: The store of all connections; none: one of its own.
        cluster_id: The cluster's name.
    """

    def __init__(
        self, clock: Clock, *, store: LocalStore | None = None, cluster_id: str = "test"
    ) -> None:
        self.clock = clock
        self.store = store or LocalStore(clock)
        self._owns_store = store is None
        self.coordination = LocalCoordination(self.store)
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
        if self._owns_store:
            await self.store.close()

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

    def member(self, node: NodeInfo) -> Put:
        """Return what registers a process."""
        return Put(self.view.keys.member(node.node_id), records.encode_member(node))
