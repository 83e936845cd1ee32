"""A cluster view, a disk in memory, and share coordinators on them; no processes."""

import random
from contextlib import asynccontextmanager

from sharemesh.backends.embedded.settings import LogSettings
from sharemesh.backends.embedded.shard_logs import EmbeddedShardLogs
from sharemesh.codec.state_record import decode_record
from sharemesh.domain.ids import NodeId, TopicId
from sharemesh.ports.cluster import NodeInfo, Role, ShardKind
from sharemesh.ports.coordination import Delete
from sharemesh.ports.network import CallContext
from sharemesh.share_coordinator.service import ShareCoordinatorService
from sharemesh.share_coordinator.settings import ShareCoordinatorSettings
from sharemesh.testing.cluster_records import ClusterRecords
from sharemesh.testing.memory_disk import MemoryDisk
from sharemesh.v1 import common_pb2
from sharemesh.v1 import share_coordinator_pb2 as pb
from tests.clocks import ManualClock

T1 = TopicId(b"\1" * 16)
T2 = TopicId(b"\2" * 16)
CONTEXT = CallContext("test")


class World(ClusterRecords):
    """One cluster; ``coordinator()`` starts another life of the share coordinator on it."""

    def __init__(self, disk, clock):
        super().__init__(clock)
        self.disk = disk
        self.epoch = 0
        self.logs = EmbeddedShardLogs(disk, clock, LogSettings())

    async def create_topic(self, topic_id, partitions=4, name=None):
        name = name or f"t{topic_id[0]}"
        put = self.topic(name, topic_id, partitions)
        await self.write(put, until=lambda: self.view.topic(topic_id))

    async def delete_topic(self, topic_id):
        name = self.view.topic(topic_id).name
        await self.write(
            Delete(self.view.keys.topic(name)), until=lambda: self.view.topic(topic_id) is None
        )

    async def register(self, node_id, *, leads=(), host=None, port=1):
        """Make a node known (at ``node_id:1``), and the leader of these state shards."""
        node = NodeInfo(NodeId(node_id), host or node_id, port, (Role.SHARE_COORDINATOR,))
        puts = [self.registered(node)]
        for shard in leads:
            candidate = self.elected(ShardKind.STATE, shard, node.node_id)
            election = candidate.key.removesuffix(node_id)
            await self.coordination.commit([], [Delete(election, prefix=True)])
            puts.append(candidate)
        await self.write(
            *puts,
            until=lambda: (
                node in self.view.nodes()
                and all(self.view.share_coordinator(shard) == node for shard in leads)
            ),
        )

    @asynccontextmanager
    async def coordinator(self, *, shards=(0,), started=True, **settings):
        settings.setdefault("metadata_wait_ms", 0)  # the clock stands still
        service = ShareCoordinatorService(
            self.view, self.clock, self.logs, ShareCoordinatorSettings(**settings)
        )
        if started:
            service.start()
        self.epoch += 1
        try:
            for shard in shards:
                await service.shards.start_shard(shard, self.epoch)
            yield service
        finally:
            await service.close()

    async def log(self, shard=0):
        """Return (offset, record) of what is committed in a state log, read under a new epoch."""
        self.epoch += 1
        opened = await self.logs.open("state", shard, self.epoch)
        found = []
        async for chunk in opened.replay():
            found += [(r.offset, decode_record(r.key, r.value)) for r in chunk]
        await opened.close()
        return found


@asynccontextmanager
async def world(*, state_shards=1, topics=(T1,), seed=7):
    made = World(MemoryDisk(random.Random(seed)), ManualClock())
    await made.open(state_shards=state_shards)
    for topic_id in topics:
        await made.create_topic(topic_id)
    try:
        yield made
    finally:
        await made.close()


def batch(first, last, state, count):
    return common_pb2.StateBatch(
        first_offset=first, last_offset=last, delivery_state=state, delivery_count=count
    )


class Client:
    """The RPCs on one share partition, in the words of the scenarios: I, R, W, D, S."""

    def __init__(self, service, group="g1", topic_id=T1, partition=0):
        self.service = service
        self.group = group
        self.topic_id = topic_id
        self.partition = partition

    async def I(self, state_epoch, start_offset):  # noqa: E743
        item = pb.InitializePartitionState(
            partition=self.partition, state_epoch=state_epoch, start_offset=start_offset
        )
        topic = pb.InitializeTopicState(topic_id=self.topic_id, partitions=[item])
        request = pb.InitializeShareGroupStateRequest(group_id=self.group, topics=[topic])
        return _only(await self.service.initialize(request, CONTEXT))

    async def R(self, leader_epoch):
        item = pb.ReadPartitionState(partition=self.partition, leader_epoch=leader_epoch)
        topic = pb.ReadTopicState(topic_id=self.topic_id, partitions=[item])
        request = pb.ReadShareGroupStateRequest(group_id=self.group, topics=[topic])
        return _only(await self.service.read(request, CONTEXT))

    async def W(self, state_epoch, leader_epoch, start_offset, count, batches=()):
        item = pb.WritePartitionState(
            partition=self.partition,
            state_epoch=state_epoch,
            leader_epoch=leader_epoch,
            start_offset=start_offset,
            delivery_complete_count=count,
            state_batches=[batch(*each) for each in batches],
        )
        topic = pb.WriteTopicState(topic_id=self.topic_id, partitions=[item])
        request = pb.WriteShareGroupStateRequest(group_id=self.group, topics=[topic])
        return _only(await self.service.write(request, CONTEXT))

    async def D(self, state_epoch=0):
        item = pb.DeletePartitionState(partition=self.partition, state_epoch=state_epoch)
        topic = pb.DeleteTopicState(topic_id=self.topic_id, partitions=[item])
        request = pb.DeleteShareGroupStateRequest(group_id=self.group, topics=[topic])
        return _only(await self.service.delete(request, CONTEXT))

    async def S(self):
        item = pb.ReadSummaryPartition(partition=self.partition)
        topic = pb.ReadSummaryTopic(topic_id=self.topic_id, partitions=[item])
        request = pb.ReadShareGroupStateSummaryRequest(group_id=self.group, topics=[topic])
        return _only(await self.service.read_summary(request, CONTEXT))

    async def H(self, offset, principal=""):
        item = pb.ReadHistoryPartition(partition=self.partition, offset=offset, principal=principal)
        topic = pb.ReadHistoryTopic(topic_id=self.topic_id, partitions=[item])
        request = pb.ReadShareRecordHistoryRequest(group_id=self.group, topics=[topic])
        return _only(await self.service.read_history(request, CONTEXT))


def _only(response):
    [topic] = response.results
    [partition] = topic.partitions
    return partition


def tuples(batches):
    return [
        (b.first_offset, b.last_offset, int(b.delivery_state), b.delivery_count) for b in batches
    ]
