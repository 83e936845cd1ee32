"""An admin service on the in-process network and store, and a node that leads what is created."""

import asyncio
import random

from sharemesh.admin.service import AdminService
from sharemesh.cluster.store import records
from sharemesh.cluster.store.keys import election_name
from sharemesh.cluster.store.records import Claim
from sharemesh.domain.ids import NodeId, TopicPartition
from sharemesh.ports.cluster import NodeInfo, Role, ShardKind
from sharemesh.ports.coordination import Put
from sharemesh.testing.cluster_records import ClusterRecords
from sharemesh.testing.network import LocalNetwork
from tests.clocks import LoopClock

ADDRESS = "admin:1"


class Rules:
    """An authorizer that refuses what it is told to."""

    def __init__(self) -> None:
        self.refused = set()
        self.listeners = {}

    def allows(self, principal, operation, resource, name) -> bool:
        return (operation, resource, name) not in self.refused and (
            operation,
            resource,
        ) not in self.refused

    def on_change(self, callback):
        self.listeners[callback] = None
        return lambda: self.listeners.pop(callback, None)


class World(ClusterRecords):
    def __init__(self) -> None:
        super().__init__(LoopClock(), cluster_id="c")
        self.network = LocalNetwork()
        self.caller = self.network.caller("User:jane")
        self.rules = Rules()
        self.leading = True

    async def start(self) -> "World":
        await self.open(group_shards=2, state_shards=2)
        self.session = await self.coordination.open_session(ttl_ms=10_000)
        service = AdminService(self.coordination, self.view, self.rules, random.Random(1))
        service.offer(self.network.listener(ADDRESS))
        self.view.on_change(self._lead_soon)
        self.tasks = set()
        return self

    async def stop(self) -> None:
        await asyncio.gather(*self.tasks)
        await self.caller.close()
        await self.close()

    async def call(self, method, request=None, **fields):
        return await self.caller.call(method, request or method.request(**fields), to=ADDRESS)

    async def register(self, name: str, *roles: Role) -> NodeInfo:
        node = NodeInfo(NodeId(name), "127.0.0.1", 7, roles or tuple(Role), pid=42, version="1")
        key = self.view.keys.member(node.node_id)
        await self.put(key, records.encode_member(node))
        assert await self.view.wait_for(lambda: node in self.view.nodes(), timeout_ms=5_000)
        return node

    async def elect(self, name: str, kind: ShardKind, shard: int) -> None:
        election = election_name(kind, shard)
        key = f"{self.view.keys.election(election)}/1"
        await self.put(key, records.encode_candidate(NodeId(name)))
        await self.view.wait_for(
            lambda: any(each.node and each.election == election for each in self.view.shards()),
            timeout_ms=5_000,
        )

    async def put(self, key: str, value: bytes) -> None:
        await self.coordination.commit([], [Put(key, value, leased=True)], session=self.session)

    def _lead_soon(self) -> None:
        task = asyncio.ensure_future(self._lead())
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def _lead(self) -> None:
        if not self.leading or not self.view.nodes():
            return
        for topic in self.view.topics():
            for number in range(topic.partitions):
                partition = TopicPartition(topic.topic_id, number)
                if self.view.leader(partition) is None:
                    claim = Claim(self.view.nodes()[0].node_id, 3)
                    await self.put(self.view.keys.claim(partition), records.encode_claim(claim))
