"""A cluster in one process for tests of the group coordinator; calls go over the network port."""

import asyncio
import random
import uuid
from contextlib import asynccontextmanager

from sharemesh import methods
from sharemesh.backends.embedded.settings import LogSettings
from sharemesh.backends.embedded.shard_logs import EmbeddedShardLogs
from sharemesh.cluster.store import records
from sharemesh.domain.errors import ErrorCode
from sharemesh.domain.ids import NodeId, TopicId, TopicPartition
from sharemesh.group_coordinator.coordinator_context import ServiceLimits
from sharemesh.group_coordinator.service import GroupCoordinatorPorts, GroupCoordinatorService
from sharemesh.ports.cluster import NodeInfo, Role, ShardKind
from sharemesh.ports.coordination import Delete, Put
from sharemesh.ports.share_state import StateSummaryResult, StateWriteResult
from sharemesh.testing.cluster_records import ClusterRecords
from sharemesh.testing.memory_disk import MemoryDisk
from sharemesh.testing.network import LocalNetwork
from sharemesh.v1 import group_coordinator_pb2 as pb
from sharemesh.v1 import record_log_pb2
from tests.clocks import ManualClock
from tests.listed_refusals import ListedRefusals

ADDRESS = "coordinator:1"
LEADER = "leader:1"
LIMITS = ServiceLimits(look_interval_ms=0)  # the clock stands still


def topic_id(name: str) -> TopicId:
    return TopicId(uuid.uuid5(uuid.NAMESPACE_OID, name).bytes)


class KeptStates:
    """Fills ``PersisterPort`` for a group coordinator; answers can be refused or held back.

    What is asked for in one turn of the loop is one entry of ``initialized`` or ``deleted``.
    """

    def __init__(self):
        self.stored: dict[tuple[str, TopicPartition], StateSummaryResult] = {}
        self.initialized: list[tuple[str, dict[TopicPartition, tuple[int, int]]]] = []
        self.deleted: list[tuple[str, int, set[TopicPartition]]] = []
        self.refuse: StateWriteResult | None = None
        self.open = asyncio.Event()
        self.open.set()
        self._turn = {}

    async def initialize_state(self, key, state_epoch, start_offset, batches=()):
        sent = self._of_this_turn(self.initialized, (key.group_id,), {})
        sent[key.topic_partition] = (state_epoch, start_offset)
        await self.open.wait()
        if self.refuse is not None:
            return self.refuse
        count = 0 if start_offset >= 0 else -1
        self.put(key.group_id, key.topic_partition, start_offset, count)
        return StateWriteResult(ErrorCode.NONE)

    async def delete_state(self, key, state_epoch=0):
        sent = self._of_this_turn(self.deleted, (key.group_id, state_epoch), set())
        sent.add(key.topic_partition)
        await self.open.wait()
        if self.refuse is not None:
            return self.refuse
        self.stored.pop((key.group_id, key.topic_partition), None)
        return StateWriteResult(ErrorCode.NONE)

    async def read_summary(self, key):
        absent = StateSummaryResult(ErrorCode.NONE)
        return self.stored.get((key.group_id, key.topic_partition), absent)

    def put(self, group_id, key, start_offset, count, leader_epoch=0):
        self.stored[group_id, key] = StateSummaryResult(
            ErrorCode.NONE,
            start_offset=start_offset,
            leader_epoch=leader_epoch,
            delivery_complete_count=count,
        )

    def _of_this_turn(self, log, asked, empty):
        """Return the partitions of the log's newest entry, which this turn of the loop made."""
        turn = (id(log), asked)
        if turn not in self._turn:
            self._turn[turn] = empty
            log.append((*asked, empty))
            asyncio.get_running_loop().call_soon(self._turn.pop, turn)
        return self._turn[turn]


class World(ClusterRecords):
    """One cluster, at most one living group coordinator, all shards on it."""

    def __init__(self, clock, limits):
        super().__init__(clock)
        self.limits = limits
        self.disk = MemoryDisk(random.Random(7))
        self.logs = EmbeddedShardLogs(self.disk, clock, LogSettings())
        self.network = LocalNetwork()
        self.caller = self.network.caller()
        self.states = KeptStates()
        self.rules = ListedRefusals()
        self.log_ends = {}
        self.epoch = 0
        self.service = None
        self.quotas = None
        self.wishes = None
        leader = self.network.listener(LEADER)
        leader.offer(methods.LIST_OFFSETS, self._list_offsets)

    async def start(self, *, shards=(0,)):
        """Begin a new life of the coordinator; the one before ends first."""
        await self.stop()
        ports = GroupCoordinatorPorts(
            clock=self.clock,
            view=self.view,
            authorizer=self.rules,
            logs=self.logs,
            persister=self.states,
            coordination=self.coordination,
            caller=self.caller,
            quotas=self.quotas,
            wishes=self.wishes,
        )
        self.service = GroupCoordinatorService(NodeId("gc-1"), ports, limits=self.limits)
        self.service.offer(self.network.listener(ADDRESS))
        for shard in shards:
            await self.start_shard(shard)

    async def start_shard(self, shard=0):
        self.epoch += 1
        await self.service.start_shard(shard, self.epoch)

    async def stop(self):
        if self.service is not None:
            service, self.service = self.service, None
            await service.close()

    async def topics(self, **counts):
        """Make the topics be exactly these (name: partitions)."""
        keys = self.view.keys
        operations = [
            Delete(keys.topic(topic.name))
            for topic in self.view.topics()
            if topic.name not in counts
        ]
        for name, partitions in counts.items():
            operations.append(self.topic(name, topic_id(name), partitions))
        await self.write(
            *operations,
            until=lambda: {t.name: t.partitions for t in self.view.topics()} == counts,
        )

    async def lead(self, *partitions: tuple[str, int]):
        """Have the stand-in leader claim these partitions."""
        node = NodeInfo(NodeId("leader"), "leader", 1, (Role.SHARE_LEADER,))
        keys = [TopicPartition(topic_id(name), number) for name, number in partitions]
        await self.write(
            self.registered(node),
            *(self.claimed(key, node.node_id, 1) for key in keys),
            until=lambda: all(self.view.leader(key) for key in keys),
        )

    async def elect(self, node_id, shard=0, role=Role.GROUP_COORDINATOR):
        """Make the view show this node (at ``node_id:1``) as the coordinator of a shard."""
        node = NodeInfo(NodeId(node_id), node_id, 1, (role,))
        kind, coordinator = {
            Role.GROUP_COORDINATOR: (ShardKind.GROUP, self.view.group_coordinator),
            Role.SHARE_COORDINATOR: (ShardKind.STATE, self.view.share_coordinator),
        }[role]
        await self.write(
            self.registered(node),
            self.elected(kind, shard, node.node_id),
            until=lambda: coordinator(shard) == node,
        )

    async def cluster_configs(self, **entries):
        named = {name.replace("_", "."): value for name, value in entries.items()}
        await self.write(
            self.cluster_settings(named), until=lambda: dict(self.view.cluster_configs()) == named
        )

    async def group_configs(self, group, **entries):
        """Store settings without any check, as an older version might have."""
        named = {name.replace("_", "."): value for name, value in entries.items()}
        await self.write(
            self.group_settings(group, named),
            until=lambda: dict(self.view.group_config_entries(group)) == named,
        )

    async def share_version(self, level):
        put = Put(self.view.keys.share_version, records.encode_number(level))
        await self.write(put, until=lambda: self.view.share_version() == level)

    async def until(self, condition, *, timeout_s=5.0):
        """Poll until something holds, without time passing on the world's clock."""
        async with asyncio.timeout(timeout_s):
            while not condition():
                await asyncio.sleep(0.001)

    async def call(self, method, request, principal=None):
        caller = self.caller if principal is None else self.network.caller(principal)
        return await caller.call(method, request, to=ADDRESS)

    async def hb(self, member, epoch, topics=None, *, group="g", **more):
        request = heartbeat_request(member, epoch, topics, group=group, **more)
        return await self.call(methods.SHARE_GROUP_HEARTBEAT, request)

    async def joined(self, member, topics, *, group="g"):
        """Join and wait until the assignment is there; return the last answer."""
        return await self.hb(member, 0, topics, group=group, max_wait_ms=5_000)

    async def describe(self, group="g", **more):
        request = pb.ShareGroupDescribeRequest(group_ids=[group], **more)
        response = await self.call(methods.SHARE_GROUP_DESCRIBE, request)
        return response.groups[0]

    async def stream(self):
        return await self.caller.stream(methods.SHARE_GROUP_HEARTBEAT_STREAM, to=ADDRESS)

    async def _list_offsets(self, request, context):
        response = record_log_pb2.ListOffsetsResponse()
        for each in request.partitions:
            offset = self.log_ends.get(TopicPartition(TopicId(each.topic_id), each.partition))
            response.partitions.add(
                topic_id=each.topic_id,
                partition=each.partition,
                error_code=ErrorCode.NONE if offset is not None else ErrorCode.UNKNOWN_TOPIC_ID,
                offset=offset or 0,
            )
        return response


def heartbeat_request(member, epoch, topics=None, *, group="g", **more):
    request = pb.ShareGroupHeartbeatRequest(
        group_id=group, member_id=member, member_epoch=epoch, **more
    )
    if topics is not None:
        request.subscribed_topic_names.SetInParent()
        request.subscribed_topic_names.names.extend(topics)
    return request


def assigned(response):
    """The partitions of an answer by topic id, or None if it has no assignment."""
    if not response.HasField("assignment"):
        return None
    return {
        TopicId(each.topic_id): list(each.partitions)
        for each in response.assignment.topic_partitions
    }


@asynccontextmanager
async def world(*, group_shards=1, started=True, limits=None, kind=World, **topics):
    made = kind(ManualClock(), limits or LIMITS)
    await made.open(group_shards=group_shards)
    await made.topics(**topics)
    try:
        if started:
            await made.start(shards=range(group_shards))
        yield made
    finally:
        await made.stop()
        await made.caller.close()
        await made.close()
