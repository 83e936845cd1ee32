"""A cluster of the least size behind the client's ports: scripts what real services rarely do.

The real services have their own tests; this one lets the client's tests refuse, drain, lose and
stall at chosen moments, in one process.
"""

import asyncio
import contextlib
import random
import struct
import threading
from dataclasses import dataclass, field

from sharemesh import methods
from sharemesh.backends.local.clock import SystemClock
from sharemesh.client.environment import ClientEnvironment
from sharemesh.codec.client_batches import BatchWriter, read_batches
from sharemesh.testing.network import LocalNetwork
from sharemesh.v1 import (
    admin_pb2,
    common_pb2,
    group_coordinator_pb2,
    record_log_pb2,
    share_leader_pb2,
)

TOPIC_ID = b"0123456789abcdef"


@dataclass
class Record:
    state: str = "available"
    delivery_count: int = 0
    member: str = ""
    deadline: float = 0.0
    not_before: float = 0.0

    def is_free(self, now: float) -> bool:
        return self.state == "available" and self.not_before <= now


@dataclass
class Partition:
    leader: str
    leader_epoch: int = 1
    batches: list[tuple[int, int, bytes]] = field(default_factory=list)
    records: dict[int, Record] = field(default_factory=dict)
    end: int = 0

    def append(self, data: bytes, count: int) -> int:
        base = self.end
        placed = struct.pack(">q", base) + data[8:]
        self.batches.append((base, base + count - 1, placed))
        for offset in range(base, base + count):
            self.records[offset] = Record()
        self.end += count
        return base


class MiniCluster:
    """Nodes ``a`` and ``b`` lead; ``a`` coordinates. Topic ``t`` with some partitions."""

    def __init__(
        self,
        partitions: int = 1,
        *,
        lock_ms: int = 30_000,
        seed: int = 1,
        has_api_versions: bool = True,
    ) -> None:
        self.network = LocalNetwork()
        self.lock_ms = lock_ms
        self.chance = random.Random(seed)
        self.partitions = {number: Partition("a") for number in range(partitions)}
        self.topics = {"t": TOPIC_ID}
        self.acknowledged: list[tuple[int, int, int, list[int]]] = []
        self.on_acknowledgement = lambda batch: None
        self.closes: list[str] = []
        self.members: dict[str, int] = {}
        self.heartbeats: list[tuple[str, int]] = []
        self.refuse_acknowledge: list[int] = []
        self.refuse_partition: list[int] = []
        self.heartbeat_errors: list[int] = []
        self.produce_errors: list[int] = []
        self.numbers_acquisitions = True  # as a leader of before does not
        self.acquisitions = 0
        self.throttle_times: list[int] = []  # of the next answers to Produce
        self.produced_to: list[bytes] = []  # topic ids
        self.hold_produce: dict[int, threading.Event] = {}  # by partition: answer only then
        self.produce_came = threading.Event()  # one that is held
        self.stall_acknowledge = False
        self.has_heartbeat_stream = True
        self.has_api_versions = has_api_versions
        self.renew_error = 0
        self.session_errors: list[int] = []
        self.init_producer_errors: list[int] = []
        self.sessions: list[tuple[str, str]] = []  # node, member of each that was opened
        self.omit_answers = False
        self.assigned: list[int] | None = None  # None: every partition
        self.share_version = 2
        self.metadata_reads = 0
        self.changed = asyncio.Event()
        self.draining: set[int] = set()
        self.next_leaders: dict[int, str] = {}
        self.added: list[tuple[str, int]] = []
        self.streams: list[object] = []
        self.producer_sequences: dict[tuple[int, int], int] = {}
        self.ids = 0
        for node in ("a", "b"):
            self.listen(node)

    # ---- for tests ------------------------------------------------------------------------------

    def environment(self) -> ClientEnvironment:
        def new_id() -> str:
            self.ids += 1
            return f"id-{self.ids}"

        return ClientEnvironment(self.network.caller, SystemClock(), self.chance, new_id)

    @property
    def config(self) -> dict[str, object]:
        return {"bootstrap.servers": "a:1,b:1"}

    def append(self, *values: bytes, partition: int = 0, batched: bool = True) -> None:
        for group in [values] if batched else [(value,) for value in values]:
            writer = BatchWriter("none", 1 << 20)
            for value in group:
                writer.append(1_000, b"k", value, ())
            self.partitions[partition].append(writer.finish(None), len(group))
        self.notify()

    def append_raw(self, data: bytes, count: int, partition: int = 0) -> None:
        self.partitions[partition].append(data, count)
        self.notify()

    def states(self, partition: int = 0) -> list[str]:
        return [each.state for each in self.partitions[partition].records.values()]

    def counts(self, partition: int = 0) -> list[int]:
        return [each.delivery_count for each in self.partitions[partition].records.values()]

    def notify(self) -> None:
        self.changed.set()
        self.changed = asyncio.Event()

    def move(self, partition: int, leader: str) -> None:
        found = self.partitions[partition]
        found.leader, found.leader_epoch = leader, found.leader_epoch + 1
        self.draining.discard(partition)
        for record in found.records.values():
            if record.state == "acquired":
                record.state = "available"
        self.notify()

    def drain(self, partition: int, to: str = "") -> None:
        if to:
            self.next_leaders[partition] = to
        self.draining.add(partition)
        self.notify()

    # ---- services -------------------------------------------------------------------------------

    def listen(self, node: str) -> None:
        listener = self.network.listener(f"{node}:1")
        listener.offer(methods.METADATA, self._metadata)
        if self.has_api_versions:
            listener.offer(methods.API_VERSIONS, self._versions)
        listener.offer(methods.FIND_COORDINATOR, self._find)
        listener.offer(methods.SHARE_GROUP_HEARTBEAT, self._heartbeat)
        listener.offer(methods.PRODUCE, self._produce)
        listener.offer(methods.INIT_PRODUCER_ID, self._init_producer)
        if self.has_heartbeat_stream:
            listener.offer_stream(methods.SHARE_GROUP_HEARTBEAT_STREAM, self._heartbeats)

        async def consume(stream, context):
            await _Session(self, node, stream).run()

        listener.offer_stream(methods.CONSUME, consume)

    async def _versions(self, request, context):
        known = admin_pb2.ApiVersion(
            method=methods.SHARE_ACKNOWLEDGE.name, min_version=1, max_version=self.share_version
        )
        return admin_pb2.ApiVersionsResponse(methods=[known])

    async def _led_anew(self, request):
        """Wait as the service does until an awaited partition is led in a higher epoch."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(request.max_wait_ms / 1_000):
                while not any(
                    self.partitions[each.partition].leader_epoch > each.above_leader_epoch
                    for each in request.awaited
                ):
                    await self.changed.wait()

    async def _metadata(self, request, context):
        self.metadata_reads += 1
        if request.awaited:
            await self._led_anew(request)
        topics = []
        wanted = list(request.topics.names) if request.HasField("topics") else list(self.topics)
        for name in wanted:
            if name not in self.topics:
                topics.append(admin_pb2.TopicMetadata(name=name, error_code=3))
                continue
            topics.append(
                admin_pb2.TopicMetadata(
                    name=name,
                    topic_id=self.topics[name],
                    partitions=[
                        admin_pb2.PartitionMetadata(
                            partition=number, leader_id=each.leader, leader_epoch=each.leader_epoch
                        )
                        for number, each in self.partitions.items()
                    ],
                )
            )
        return admin_pb2.MetadataResponse(cluster_id="mini", nodes=self._nodes(), topics=topics)

    def _nodes(self):
        return [common_pb2.Node(node_id=n, host=n, port=1) for n in ("a", "b")]

    async def _find(self, request, context):
        return admin_pb2.FindCoordinatorResponse(
            coordinators=[
                admin_pb2.FoundCoordinator(key=key, node=self._nodes()[0]) for key in request.keys
            ]
        )

    async def _heartbeat(self, request, context):
        self.heartbeats.append((request.member_id, request.member_epoch))
        response = group_coordinator_pb2.ShareGroupHeartbeatResponse(
            member_id=request.member_id, heartbeat_interval_ms=200
        )
        if self.heartbeat_errors:
            response.error_code = self.heartbeat_errors.pop(0)
            return response
        if request.member_epoch == -1:
            self.members.pop(request.member_id, None)
            response.member_epoch = -1
            return response
        joined = request.member_id not in self.members or request.member_epoch == 0
        joined = joined or self.assigned is not None
        self.members[request.member_id] = response.member_epoch = 2
        if joined or request.HasField("subscribed_topic_names"):
            names = request.subscribed_topic_names.names
            response.assignment.topic_partitions.extend(
                common_pb2.TopicPartitions(
                    topic_id=self.topics[name],
                    topic_name=name,
                    partitions=self.partitions if self.assigned is None else self.assigned,
                )
                for name in names
                if name in self.topics
            )
            response.assignment.SetInParent()
        return response

    async def _heartbeats(self, stream, context):
        async for request in stream:
            await stream.send(await self._heartbeat(request, context))

    async def _init_producer(self, request, context):
        if self.init_producer_errors:
            code = self.init_producer_errors.pop(0)
            return record_log_pb2.InitProducerIdResponse(error_code=code)
        self.ids += 1
        return record_log_pb2.InitProducerIdResponse(producer_id=self.ids, producer_epoch=0)

    async def _produce(self, request, context):
        response = record_log_pb2.ProduceResponse()
        for each in request.partitions:
            held = self.hold_produce.pop(each.partition, None)
            if held is not None:
                self.produce_came.set()
                await asyncio.to_thread(held.wait, 20)
            self.produced_to.append(each.topic_id)
            result = response.partitions.add(topic_id=each.topic_id, partition=each.partition)
            if self.produce_errors:
                result.error_code = self.produce_errors.pop(0)
                if result.error_code > 0:
                    continue
                result.error_code = 7  # written, but the answer says it may not be
            self._write(each, result)
        if self.throttle_times:
            response.throttle_time_ms = self.throttle_times.pop(0)
        return response

    def _write(self, each, result) -> None:
        result.base_offset = -1
        at = 0
        while at < len(each.records):
            size = struct.unpack_from(">i", each.records, at + 8)[0] + 12
            data = each.records[at : at + size]
            producer, _, sequence = struct.unpack_from(">qhi", data, 43)
            count = struct.unpack_from(">i", data, 57)[0]
            key = (producer, each.partition)
            expected = self.producer_sequences.get(key, 0)
            at += size
            if producer >= 0 and sequence < expected:
                continue  # written before
            if producer >= 0 and sequence > expected:
                result.error_code = 45
                return
            self.producer_sequences[key] = sequence + count
            base = self.partitions[each.partition].append(data, count)
            if result.base_offset < 0:
                result.base_offset = base
        self.notify()


class _Session:
    """One Consume stream."""

    def __init__(self, cluster: MiniCluster, node: str, stream) -> None:
        self.cluster = cluster
        self.node = node
        self.stream = stream
        self.member = ""
        self.limit = False
        self.credit = 0
        self.partitions: list[int] = []
        self.told: set[tuple[int, int]] = set()  # partition, leader epoch
        self.closing = False
        self.wake = asyncio.Event()
        self.heard_s, self.is_stalled = 0.0, False

    async def run(self) -> None:
        if self.cluster.session_errors:
            code = self.cluster.session_errors.pop(0)
            await self.stream.send(share_leader_pb2.ConsumeResponse(error_code=code))
            return
        reader = asyncio.ensure_future(self._read())
        try:
            while not reader.done():
                change = self.cluster.changed
                await self._feed()
                waits = [
                    asyncio.ensure_future(change.wait()),
                    asyncio.ensure_future(self.wake.wait()),
                    asyncio.ensure_future(asyncio.sleep(0.05)),
                ]
                await asyncio.wait([*waits, reader], return_when=asyncio.FIRST_COMPLETED)
                self.wake.clear()
                for each in waits:
                    each.cancel()
            reader.result()
        finally:
            reader.cancel()
            for partition in self.cluster.partitions.values():
                for record in partition.records.values():
                    if record.state == "acquired" and record.member == self.member:
                        record.state = "available"
            self.cluster.notify()

    async def _read(self) -> None:
        async for request in self.stream:
            self.heard_s, self.is_stalled = asyncio.get_running_loop().time(), False
            if request.HasField("start"):
                self.member = request.start.member_id
                self.cluster.sessions.append((self.node, self.member))
                self.limit = request.start.share_acquire_mode == 1
            for each in request.add:
                self.partitions.extend(each.partitions)
                self.cluster.added += [(self.node, number) for number in each.partitions]
            for each in request.forget:
                gone = set(each.partitions)  # some may have been refused before
                self.partitions = [number for number in self.partitions if number not in gone]
            self.credit += request.credit_records
            for acknowledge in request.acknowledgements:
                if not self.cluster.stall_acknowledge:
                    await self.stream.send(self._acknowledge(acknowledge))
            self.wake.set()
            if request.close:
                self.cluster.closes.append(self.member)
                return

    def _acknowledge(self, acknowledge):
        result = share_leader_pb2.ConsumeAcknowledged(acknowledge_id=acknowledge.acknowledge_id)
        for topic in () if self.cluster.omit_answers else acknowledge.topics:
            found = result.topics.add(topic_id=topic.topic_id)
            for each in topic.partitions:
                code = self._apply(each)
                found.partitions.add(partition=each.partition, error_code=code)
        self.cluster.notify()
        return share_leader_pb2.ConsumeResponse(
            acquisition_lock_timeout_ms=self.cluster.lock_ms, acknowledged=[result]
        )

    def _apply(self, each) -> int:
        cluster = self.cluster
        if cluster.refuse_acknowledge:
            return cluster.refuse_acknowledge.pop(0)
        partition = cluster.partitions[each.partition]
        if partition.leader != self.node:
            return 6
        now = asyncio.get_running_loop().time()
        for batch in each.acknowledgement_batches:
            types = list(batch.acknowledge_types)
            cluster.on_acknowledgement(batch)
            cluster.acknowledged.append(
                (each.partition, batch.first_offset, batch.last_offset, types)
            )
            for position, offset in enumerate(range(batch.first_offset, batch.last_offset + 1)):
                record = partition.records[offset]
                if record.state != "acquired" or record.member != self.member:
                    return 121
                kind = types[position] if len(types) > 1 else types[0]
                if kind == 4:
                    if cluster.renew_error:
                        return cluster.renew_error
                    record.deadline = now + cluster.lock_ms / 1_000
                else:
                    record.delivery_count -= batch.uncounted
                    record.not_before = now + batch.release_delay_ms / 1_000
                    record.state = {0: "gap", 1: "accepted", 2: "available", 3: "rejected"}[kind]
        return 0

    async def _feed(self) -> None:
        cluster = self.cluster
        now = asyncio.get_running_loop().time()
        leaving = {n for n in cluster.draining if cluster.partitions[n].leader == self.node}
        new = {n for n in leaving & set(self.partitions) if not self._is_told(n)}
        if new:
            self.told |= {(number, cluster.partitions[number].leader_epoch) for number in new}
            await self.stream.send(
                share_leader_pb2.ConsumeResponse(
                    draining=[
                        common_pb2.TopicPartitions(topic_id=TOPIC_ID, partitions=sorted(new))
                    ],
                    next_leaders=[
                        share_leader_pb2.NextLeader(
                            topic_id=TOPIC_ID,
                            partition=number,
                            node_id=cluster.next_leaders[number],
                        )
                        for number in sorted(new)
                        if number in cluster.next_leaders
                    ],
                )
            )
        for number in list(self.partitions):
            partition = cluster.partitions[number]
            if partition.leader != self.node:
                if (number, partition.leader_epoch - 1) in self.told or cluster.next_leaders.get(
                    number
                ) == self.node:
                    continue
                self.partitions.remove(number)
                await self._send(number, error_code=6)
                continue
            if cluster.refuse_partition:
                self.partitions.remove(number)
                await self._send(number, error_code=cluster.refuse_partition.pop(0))
                continue
            for record in partition.records.values():
                if record.state == "acquired" and record.deadline < now:
                    record.state = "available"
                    granted_s = record.deadline - cluster.lock_ms / 1_000
                    if record.member == self.member and self.heard_s <= granted_s:
                        self.is_stalled = True  # HBK-10
            if not self._is_told(number) and not self.is_stalled:
                await self._deliver(number, partition, now)

    def _is_told(self, number: int) -> bool:
        return (number, self.cluster.partitions[number].leader_epoch) in self.told

    async def _deliver(self, number: int, partition: Partition, now: float) -> None:
        for base, last, data in partition.batches:
            if self.credit <= 0:
                return
            free = [o for o in range(base, last + 1) if partition.records[o].is_free(now)]
            if self.limit:
                free = free[: self.credit]
            if not free:
                continue
            acquired = []
            for offset in free:
                record = partition.records[offset]
                record.state, record.member = "acquired", self.member
                record.delivery_count += 1
                record.deadline = now + self.cluster.lock_ms / 1_000
                acquired.append(
                    share_leader_pb2.AcquiredRecords(
                        first_offset=offset,
                        last_offset=offset,
                        delivery_count=record.delivery_count,
                    )
                )
            self.credit -= len(free)
            cluster = self.cluster
            cluster.acquisitions += 1
            numbers = {}
            if cluster.numbers_acquisitions:
                numbers = {"state_epoch": 5, "acquisition_number": cluster.acquisitions}
            await self._send(number, records=data, acquired_records=acquired, **numbers)

    async def _send(self, number: int, **fields) -> None:
        await self.stream.send(
            share_leader_pb2.ConsumeResponse(
                acquisition_lock_timeout_ms=self.cluster.lock_ms,
                responses=[
                    share_leader_pb2.ShareFetchTopic(
                        topic_id=TOPIC_ID,
                        partitions=[
                            share_leader_pb2.ShareFetchPartition(
                                partition=number,
                                leader_epoch=self.cluster.partitions[number].leader_epoch,
                                **fields,
                            )
                        ],
                    )
                ],
            )
        )


def values_of(data: bytes) -> list[bytes]:
    return [each.value for batch in read_batches(data, check_crc=True) for each in batch.records]
