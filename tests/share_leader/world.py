"""A share leader in one process: real log on a memory disk, watched view, in-process network."""

import asyncio
import random
from contextlib import asynccontextmanager

from sharemesh import methods
from sharemesh.backends.embedded.records.record_logs import EmbeddedRecordLogs
from sharemesh.backends.embedded.settings import LogSettings
from sharemesh.cluster.store import records
from sharemesh.codec.decoded_records import encode_records
from sharemesh.domain.ids import NodeId, TopicId, TopicPartition
from sharemesh.ports.cluster import NodeInfo, Role
from sharemesh.ports.coordination import Put
from sharemesh.rpc.channels import GrpcCaller
from sharemesh.rpc.server import GrpcServer
from sharemesh.share_leader.partition.share_partition_runner import Phase
from sharemesh.share_leader.service import ShareLeaderService
from sharemesh.share_leader.settings import LeaderSettings
from sharemesh.testing.cluster_records import ClusterRecords
from sharemesh.testing.memory_disk import MemoryDisk
from sharemesh.testing.network import LocalNetwork
from sharemesh.v1 import record_log_pb2, share_leader_pb2
from sharemesh.v1.common_pb2 import DecodedRecord, TopicPartitions
from tests.clocks import LoopClock, ManualClock
from tests.listed_refusals import ListedRefusals
from tests.share_leader.state_keeper import StateKeeper

FOO = TopicId(b"f" * 16)
BAR = TopicId(b"b" * 16)
BAZ = TopicId(b"z" * 16)
LEADER = "leader-1:9000"


class Counter:
    """Producer ids from one process."""

    def __init__(self):
        self.next_id = 1000

    async def allocate(self):
        self.next_id += 1
        return self.next_id


class World(ClusterRecords):
    def __init__(self, clock, disk):
        super().__init__(clock)
        self.disk = disk
        self.network = LocalNetwork()
        self.server = None
        self.address = LEADER
        self.callers = []
        self.keeper = StateKeeper(clock)
        self.rules = ListedRefusals()
        self.epoch = 0
        self.service = None

    async def create_topic(self, topic_id, name, partitions):
        await self.write(
            self.topic(name, topic_id, partitions),
            until=lambda: self.view.topic(topic_id) is not None,
        )

    async def configure(self, group, **entries):
        named = {f"share.{name.replace('_', '.')}": str(v) for name, v in entries.items()}
        await self.write(
            self.group_settings(group, named),
            until=lambda: dict(self.view.group_config_entries(group)) == named,
        )

    async def claim(self, node_id, partition, epoch):
        """Let the view say that this node leads the partition."""
        node = NodeInfo(NodeId(node_id), node_id, 9000, (Role.SHARE_LEADER,))
        await self.write(
            self.registered(node),
            self.claimed(partition, node.node_id, epoch),
            until=lambda: (
                (leader := self.view.leader(partition)) is not None
                and leader.leader_epoch == epoch
                and leader.node.node_id == node_id
            ),
        )

    async def assign(self, node_id, partition):
        """Let the view say that this node is to lead the partition next."""
        node = NodeInfo(NodeId(node_id), node_id, 9000, (Role.SHARE_LEADER,))
        named = records.PartitionAssignment(node.node_id, (), 1, records.AssignmentState.MOVING)
        await self.write(
            self.registered(node),
            Put(self.view.keys.assignment(partition), records.encode_assignment(named)),
            until=lambda: (
                (found := self.view.next_leader(partition)) is not None and found.node_id == node_id
            ),
        )

    async def lead(self, partition, epoch=None):
        if epoch is None:
            self.epoch += 1
            epoch = self.epoch
        await self.claim("leader-1", partition, epoch)
        await self.service.start_partition(partition, epoch)
        return epoch

    def caller(self, principal="User:ANONYMOUS"):
        """Return a connection of its own."""
        if self.server is None:
            return self.network.caller(principal)
        self.callers.append(GrpcCaller(LoopClock()))
        return self.callers[-1]

    async def serve_grpc(self):
        """Offer the service over real gRPC instead of the in-process network."""
        self.server = GrpcServer(reflection=False)
        self.service.offer_on(self.server)
        self.address = f"127.0.0.1:{await self.server.start('127.0.0.1', 0)}"

    async def close(self):
        for caller in self.callers:
            await caller.close()
        if self.server is not None:
            await self.server.stop(0)
        if self.service is not None:
            await self.service.close()
        await super().close()

    def start(self, persister=None, quotas=None, record_logs=None, **settings):
        self.service = ShareLeaderService(
            node_id=NodeId("leader-1"),
            clock=self.clock,
            view=self.view,
            record_logs=record_logs or EmbeddedRecordLogs(self.disk, self.clock, LogSettings()),
            persister=persister or self.keeper,
            authorizer=self.rules,
            producer_ids=Counter(),
            settings=LeaderSettings(**settings),
            quotas=quotas,
        )
        self.service.offer_on(self.network.listener(LEADER))
        return self.service

    def client(self, member="m1", group="g", principal="User:ANONYMOUS"):
        return Client(self, member, group, principal)

    def runner(self, partition, group="g"):
        led = self.service.partitions.get(partition)
        return None if led is None else led.shares.get(group)

    async def produce(self, partition, *counts, padding=b""):
        """Append one log batch for each count; return the offsets of the last one."""
        landed = None
        for count in counts:
            landed = await self.append(partition, count, padding)
            assert landed.error_code == 0, landed
        return landed.base_offset, landed.last_offset

    async def append(self, partition, count, padding=b""):
        """Produce one log batch and return the answer, whatever it is."""
        caller = self.caller()
        values = [DecodedRecord(value=b"v%d" % n + padding) for n in range(count)]
        response = await caller.call(
            methods.PRODUCE,
            record_log_pb2.ProduceRequest(
                partitions=[
                    record_log_pb2.ProducePartition(
                        topic_id=partition.topic_id,
                        partition=partition.partition,
                        records=encode_records(values, default_timestamp_ms=1),
                    )
                ]
            ),
            to=self.address,
        )
        await caller.close()
        (landed,) = response.partitions
        return landed


class Client:
    """One member, with its session epoch kept as a real client does."""

    def __init__(self, world, member, group, principal):
        self.world, self.member, self.group = world, member, group
        self.caller = world.caller(principal)
        self.epoch = 0

    async def call(self, method, request):
        return await self.caller.call(method, request, to=self.world.address)

    def advance(self):
        self.epoch = 1 if self.epoch == 2147483647 else self.epoch + 1

    async def fetch(self, *partitions, acks=(), forget=(), epoch=None, **fields):
        if epoch is None:
            epoch = self.epoch
        defaults = {"max_bytes": 1 << 26, "max_records": 500, "batch_size": 500, "min_bytes": 1}
        if fields.get("is_renew_ack"):
            defaults = {}
        request = share_leader_pb2.ShareFetchRequest(
            group_id=self.group,
            member_id=self.member,
            share_session_epoch=epoch,
            topics=topics(partitions, acks),
            forgotten_topics_data=[
                TopicPartitions(topic_id=p.topic_id, partitions=[p.partition]) for p in forget
            ],
            **{**defaults, **fields},
        )
        response = await self.call(methods.SHARE_FETCH, request)
        if response.error_code == 0 and epoch >= 0:
            self.epoch = epoch
            self.advance()
        return response

    async def join(self, *partitions, **fields):
        """Open a session and let its share partitions initialize; nothing is acquired."""
        response = await self.fetch(*partitions, **{"max_records": 0, **fields})
        assert response.error_code == 0, response
        runners = [self.world.runner(p, self.group) for p in partitions]
        await until(lambda: all(s is None or s.phase is not Phase.INITIALIZING for s in runners))
        return response

    async def hold(self):
        """Bind the session to a stream of this client's connection."""
        stream = await self.caller.stream(methods.HOLD_SESSION, to=self.world.address)
        await stream.send(
            share_leader_pb2.HoldSessionRequest(group_id=self.group, member_id=self.member)
        )
        assert (await anext(aiter(stream))).error_code == 0
        return stream

    async def acknowledge(self, *acks, epoch=None, **fields):
        if epoch is None:
            epoch = self.epoch
        request = share_leader_pb2.ShareAcknowledgeRequest(
            group_id=self.group,
            member_id=self.member,
            share_session_epoch=epoch,
            topics=topics((), acks),
            **fields,
        )
        response = await self.call(methods.SHARE_ACKNOWLEDGE, request)
        if response.error_code == 0 and epoch > 0:
            self.epoch = epoch
            self.advance()
        return response

    async def consume(self, *partitions, records=10_000, bytes_=0, **start):
        stream = await self.caller.stream(methods.CONSUME, to=self.world.address)
        await stream.send(
            share_leader_pb2.ConsumeRequest(
                start=share_leader_pb2.ConsumeStart(
                    group_id=self.group, member_id=self.member, **start
                ),
                add=[
                    TopicPartitions(topic_id=p.topic_id, partitions=[p.partition])
                    for p in partitions
                ],
                credit_records=records,
                credit_bytes=bytes_,
            )
        )
        return stream


async def until(condition, timeout_s=20):
    """Let the loop turn until something holds."""
    loop = asyncio.get_running_loop()
    deadline, rounds = loop.time() + timeout_s, 0
    while not condition():
        assert loop.time() < deadline, "it did not come to hold"
        rounds += 1
        await asyncio.sleep(0 if rounds < 500 else 0.002)


def ack(partition, first, last, *types, epoch=0, uncounted=False, delay_ms=None):
    return (partition, first, last, types, epoch, uncounted, delay_ms)


def topics(partitions, acks):
    """Return AcknowledgeTopics that list partitions and acknowledge batches."""
    made, entries = {}, {}
    for partition in (*partitions, *(a[0] for a in acks)):
        topic = made.setdefault(
            partition.topic_id, share_leader_pb2.AcknowledgeTopic(topic_id=partition.topic_id)
        )
        if partition not in entries:
            entries[partition] = topic.partitions.add(partition=partition.partition)
    for partition, first, last, types, epoch, uncounted, delay_ms in acks:
        entries[partition].leader_epoch = epoch
        entries[partition].acknowledgement_batches.add(
            first_offset=first,
            last_offset=last,
            acknowledge_types=types,
            uncounted=uncounted,
            release_delay_ms=delay_ms,
        )
    return list(made.values())


def parts(response):
    """Return {partition: entry} of a response."""
    return {
        TopicPartition(TopicId(t.topic_id), p.partition): p
        for t in response.responses
        for p in t.partitions
    }


def acquired(response, partition):
    entry = parts(response).get(partition)
    if entry is None:
        return []
    return [(a.first_offset, a.last_offset, a.delivery_count) for a in entry.acquired_records]


def acknowledged(message):
    """Return {acknowledge id: {partition: error}} of a stream message."""
    return {
        a.acknowledge_id: {
            TopicPartition(TopicId(t.topic_id), p.partition): p.error_code
            for t in a.topics
            for p in t.partitions
        }
        for a in message.acknowledged
    }


@asynccontextmanager
async def world(*, manual=True, started=True, grpc=False, seed=11, **settings):
    clock = ManualClock() if manual else LoopClock()
    made = World(clock, MemoryDisk(random.Random(seed)))
    await made.open()
    await made.create_topic(FOO, "foo", 8)
    await made.create_topic(BAR, "bar", 8)
    await made.configure("g", auto_offset_reset="earliest")
    if started:
        made.start(**settings)
    if grpc:
        await made.serve_grpc()
    try:
        yield made
    finally:
        await made.close()
