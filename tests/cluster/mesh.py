"""A small cluster's bookkeeping in one loop: members, elections, claims, controller."""

import asyncio
import random
from collections.abc import Coroutine
from typing import Any

from sharemesh.backends.local.coordination import LocalCoordination
from sharemesh.backends.local.coordination_store import LocalStore
from sharemesh.cluster.bootstrap import ensure_cluster
from sharemesh.cluster.claims.claim_policy import ClaimSettings
from sharemesh.cluster.claims.partition_claims import PartitionClaims
from sharemesh.cluster.elections.candidate_ranking import TermSettings
from sharemesh.cluster.elections.shard_elections import ShardElections
from sharemesh.cluster.membership import ClusterMember
from sharemesh.controller.placement_controller import PlacementController
from sharemesh.domain.ids import NodeId
from sharemesh.ports.clock import Clock
from sharemesh.ports.cluster import NodeInfo, Role, ShardKind
from sharemesh.ports.coordination import Coordination
from sharemesh.testing.cluster_records import ClusterRecords
from tests.clocks import ManualClock
from tests.cluster.hosts import FakePartitionHost, FakeShardHost, Fences
from tests.cluster.lagging import LaggingCoordination

CLUSTER = "test"
SHARDS = 8


class Node(ClusterRecords):
    """One process: its own connection, view and member."""

    def __init__(self, mesh: "Mesh", name: str, roles: tuple[Role, ...], rack: str = "") -> None:
        super().__init__(mesh.clock, coordination=mesh.connect(), cluster_id=CLUSTER)
        self.mesh = mesh
        self.info = NodeInfo(NodeId(name), "127.0.0.1", 1, roles, rack=rack)
        self.member = ClusterMember(self.coordination, self.view, self.info, mesh.clock)
        self.shards = FakeShardHost(name, mesh.fences)
        self.partitions = FakePartitionHost(name, mesh.fences)
        self.unanswered_max_ms = TermSettings().unanswered_max_ms
        self.elections: ShardElections | None = None
        self.claims: PartitionClaims | None = None
        self.controller: PlacementController | None = None

    async def start(self) -> "Node":
        await self.view.start()
        roles = self.info.roles
        common: tuple[Any, ...] = (self.coordination, self.member, self.view, self.mesh.clock)
        if Role.GROUP_COORDINATOR in roles:
            patience = TermSettings(unanswered_max_ms=self.unanswered_max_ms)
            kind = ShardKind.GROUP
            self.elections = ShardElections(*common, kind=kind, host=self.shards, settings=patience)
        if Role.SHARE_LEADER in roles:
            claiming = ClaimSettings(unanswered_max_ms=self.unanswered_max_ms)
            self.claims = PartitionClaims(*common, host=self.partitions, settings=claiming)
        if Role.CONTROLLER in roles:
            self.controller = PlacementController(*common)
        await self.member.start()
        for part in (self.elections, self.claims, self.controller):
            if part is not None:
                await part.start()
        return self

    async def kill(self) -> None:
        """kill -9: nothing is said; the parent revokes the lease."""
        session = self.member.session
        lease_id = session.lease_id if session else 0
        self.freeze()
        await self.mesh.parent.revoke(lease_id)

    def freeze(self) -> None:
        """The machine is cut off for good: nobody hears of it again."""
        self.coordination.cut_off = True
        self.mesh.frozen.append(self)

    async def stop(self) -> None:
        for part in (self.elections, self.claims, self.controller):
            if part is not None:
                await part.close()
        await self.member.close()
        await self.close()


class Mesh:
    def __init__(self, lag_ms: int = 0, clock: Clock | None = None) -> None:
        self.lag_ms = lag_ms
        self.clock = clock or ManualClock()
        self.store = LocalStore(self.clock)
        self.fences = Fences()
        self.parent: Coordination = LocalCoordination(self.store)
        self.nodes: dict[str, Node] = {}
        self.frozen: list[Node] = []
        self.rng = random.Random(7)

    def connect(self) -> Coordination:
        if self.lag_ms:
            return LaggingCoordination(self.store, self.rng, self.lag_ms)
        return LocalCoordination(self.store)

    async def begin(self) -> None:
        await ensure_cluster(self.parent, CLUSTER, group_shards=SHARDS, state_shards=SHARDS)

    async def add(
        self,
        name: str,
        *roles: Role,
        rack: str = "",
        fail_with: Exception | None = None,
        unanswered_max_ms: int | None = None,
    ) -> Node:
        node = Node(self, name, roles, rack)
        if unanswered_max_ms is not None:
            node.unanswered_max_ms = unanswered_max_ms
        node.shards.fail_with = node.partitions.fail_with = fail_with
        self.nodes[name] = node
        await self.run(node.start())
        return node

    async def run(self, work: Coroutine[Any, Any, Any]) -> None:
        """Let time pass until the work is done."""
        task = asyncio.create_task(work)
        for _ in range(10_000):
            await asyncio.sleep(0)
            if task.done():
                break
            await self.clock.advance(5)
        await task

    async def settle(self, duration_ms: int = 0) -> None:
        await self.clock.advance(duration_ms)

    async def close(self) -> None:
        for node in self.nodes.values():
            await self.run(node.stop())
        await self.store.close()
