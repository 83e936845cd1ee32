"""An admin service on the in-process network and store, and a node that leads what is created."""

import asyncio
import random
from dataclasses import replace

from sharemesh.admin.service import AdminService
from sharemesh.admin.topic_stores import StoredTopics, TopicStore
from sharemesh.cluster.store.keys import election_name
from sharemesh.domain.ids import NodeId, TopicPartition
from sharemesh.ports.cluster import NodeInfo, Role, ShardKind
from sharemesh.ports.coordination import Put
from sharemesh.testing.cluster_records import ClusterRecords
from sharemesh.testing.network import LocalNetwork
from tests.clocks import LoopClock
from tests.listed_refusals import ListedRefusals

ADDRESS = "admin:1"


class World(ClusterRecords):
    def __init__(self) -> None:
        super().__init__(LoopClock(), cluster_id="c")
        self.network = LocalNetwork()
        self.caller = self.network.caller("User:jane")
        self.rules = ListedRefusals()
        self.leading = True

    async def start(self) -> "World":
        await self.open(group_shards=2, state_shards=2)
        self.session = await self.coordination.open_session(ttl_ms=10_000)
        service = AdminService(
            self.coordination,
            self.view,
            self.rules,
            self.topic_store(),
            self.clock,
        )
        service.offer(self.network.listener(ADDRESS))
        self.view.on_change(self._lead_soon)
        self.tasks = set()
        return self

    def topic_store(self) -> TopicStore:
        return StoredTopics(self.coordination, self.view, random.Random(1))

    async def stop(self) -> None:
        await asyncio.gather(*self.tasks)
        await self.caller.close()
        await self.close()

    async def call(self, method, request=None, **fields):
        return await self.caller.call(method, request or method.request(**fields), to=ADDRESS)

    async def register(self, name: str, *roles: Role) -> NodeInfo:
        node = NodeInfo(NodeId(name), "127.0.0.1", 7, roles or tuple(Role), pid=42, version="1")
        await self.put(self.registered(node))
        await self.sees(lambda: node in self.view.nodes())
        return node

    async def elect(self, name: str, kind: ShardKind, shard: int) -> None:
        election = election_name(kind, shard)
        await self.put(self.elected(kind, shard, NodeId(name)))
        await self.sees(
            lambda: any(each.node and each.election == election for each in self.view.shards())
        )

    async def put(self, put: Put) -> None:
        await self.coordination.commit([], [replace(put, leased=True)], session=self.session)

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
                    await self.put(self.claimed(partition, self.view.nodes()[0].node_id, 3))
