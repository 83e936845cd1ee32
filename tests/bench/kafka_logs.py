"""Logs on a real broker, in this process: reads, commits, loads and take-overs beside bare ones."""

import asyncio
import os
import random
import secrets
import statistics
import time
from contextlib import asynccontextmanager
from itertools import islice
from pathlib import Path

import uvloop

from sharemesh.backends.kafka.record_logs.record_logs import KafkaRecordLogs
from sharemesh.backends.kafka.shard_logs.coordinator_topics import (
    CoordinatorTopic,
    coordinator_topic_configs,
)
from sharemesh.backends.local.clock import SystemClock
from sharemesh.backends.local.coordination import LocalCoordination
from sharemesh.backends.local.coordination_store import LocalStore
from sharemesh.cluster.seen_logs import SeenPartitionsInStore
from sharemesh.codec.decoded_records import encode_records
from sharemesh.codec.record_set import decode_plain_records
from sharemesh.domain.ids import TopicPartition
from sharemesh.kafka.brokers_client import KafkaBrokers
from sharemesh.kafka.dialing import Dialing
from sharemesh.kafka.messages import encode, milliseconds, to_uuid
from sharemesh.kafka.versions import KafkaRequest
from sharemesh.ports.brokers import (
    LATEST_TIMESTAMP,
    BrokerLane,
    BrokerPartition,
    BrokerRefusedError,
    NewBrokerTopic,
)
from sharemesh.runtime.shard_kind import RuntimeLimits
from sharemesh.runtime.shard_set import ShardSet
from sharemesh.serve.process.memory import bound_heap
from sharemesh.share_coordinator.settings import ShareCoordinatorSettings
from sharemesh.share_coordinator.shard_kind import encode as encode_state
from sharemesh.share_coordinator.shard_kind import state_shard_kind
from sharemesh.v1.common_pb2 import DecodedRecord
from sharemesh.v1.state_record_pb2 import ShareStateRecord
from tests.backends.kafka.owned_logs import OwnedKafkaLogs
from tests.backends.kafka.record_log_world import ClaimsOfATest
from tests.bench.coordinators_state import made_log
from tests.bench.figures import Figure, alternate

MIB = 1 << 20
RECORDS = 900  # of 1 KiB: one batch is a little less than a MiB
BATCHES = 128
KEPT_BATCHES = 64  # more than a leader keeps in memory: what it reads then lies where others lay
COMMITS = 300
BATCH_OVERHEAD = 75
CALLERS, CALLS = 64, 20
LOAD_UPDATES = 100_000
TAKE_OVERS = 20
IDLE_PARTITIONS, IDLE_S = 1_000, 10.0
IDLE_AFTER_S = 17.0
"""A partition is polled seldom 10 s after it was opened, and some polls later (KRL-2)."""
FETCH_VERSION = 17
NOT_YET = {3, 5, 6, 75, 100}


class OneBroker:
    """A client of the broker, and topics made on it."""

    def __init__(self, bootstrap: str, pid: int) -> None:
        self.bootstrap = bootstrap
        self.pid = pid
        self.clock = SystemClock()
        self.brokers = KafkaBrokers(bootstrap.split(","), Dialing(self.clock), random.Random(1))

    async def topic(self, partitions=1, configs=None):
        """Create a topic; return its first partition once its leader answers."""
        name = f"bench-{secrets.token_hex(4)}"
        new = NewBrokerTopic(name, partitions, 1, configs or {})
        await self.brokers.create_topic(new, timeout_ms=30_000)
        while True:
            (made,) = (await self.brokers.metadata([name])).topics
            if not made.error and len(made.partitions) == partitions:
                where = BrokerPartition(made.topic_id, name, 0)
                try:
                    await self.brokers.list_offset(where, LATEST_TIMESTAMP)
                except BrokerRefusedError as error:
                    if error.code not in NOT_YET:
                        raise
                else:
                    return where
            await asyncio.sleep(0.05)

    def record_logs(self, *places):
        names = {each.topic_id: each.topic for each in places}
        seen = SeenPartitionsInStore(LocalCoordination(LocalStore(self.clock)), "bench", self.clock)
        return KafkaRecordLogs(self.brokers, self.clock, ClaimsOfATest(), seen, names.get)

    async def shard_logs(self):
        """Return logs of a new state topic."""
        where = await self.topic(configs=coordinator_topic_configs(1))
        topics = {"state": CoordinatorTopic(where.topic, where.topic_id)}
        return OwnedKafkaLogs(self.brokers, topics, self.clock), where


@asynccontextmanager
async def _client(bootstrap, pid=0):
    broker = OneBroker(bootstrap, pid)
    try:
        yield broker
    finally:
        await broker.brokers.close()


# ---- read ----------------------------------------------------------------------------------------


class Drain(asyncio.BufferedProtocol):
    """Sends one fetch after the other and throws the answers away."""

    def __init__(self, frames):
        self._frames = iter(frames)
        self._size = memoryview(bytearray(4))
        self.done = asyncio.get_running_loop().create_future()
        self.drained = 0

    def connection_made(self, transport):
        self._transport = transport
        self._next()

    def _next(self):
        frame = next(self._frames, None)
        if frame is None:
            self._transport.close()
            self.done.set_result(None)
            return
        self._transport.write(frame)
        self._part, self._at, self._is_size = self._size, 0, True

    def get_buffer(self, _):
        return self._part[self._at :]

    def buffer_updated(self, count):
        self._at += count
        self.drained += count
        if self._at < len(self._part):
            return
        if self._is_size:
            size = int.from_bytes(self._size, "big")
            self._part, self._at, self._is_size = memoryview(bytearray(size)), 0, False
        else:
            self._next()


def _fetch_frame(where, offset):
    part = {
        "partition": where.partition,
        "current_leader_epoch": -1,
        "fetch_offset": offset,
        "last_fetched_epoch": -1,
        "partition_max_bytes": MIB,
    }
    content = {
        "replica_id": -1,
        "max_wait": milliseconds(0),
        "min_bytes": 1,
        "max_bytes": MIB,
        "isolation_level": 0,
        "topics": [{"topic_id": to_uuid(where.topic_id), "partitions": [part]}],
    }
    return encode(KafkaRequest.FETCH, FETCH_VERSION, offset, "bench", content)


async def _drained(bootstrap, where):
    """Return MB a second of processor time of the bare fetches."""
    host, port = bootstrap.split(",")[0].split(":")
    frames = [_fetch_frame(where, number * RECORDS) for number in range(BATCHES)]
    began = time.process_time()
    _, drain = await asyncio.get_running_loop().create_connection(
        lambda: Drain(frames), host, int(port)
    )
    await drain.done
    used = time.process_time() - began
    assert drain.drained > BATCHES * 900 * 1_024, drain.drained
    return drain.drained / MIB / used


async def _read(bootstrap, where):
    """Return MB a second of processor time of reads that a full cache does not have."""
    async with _client(bootstrap) as broker:
        log = await broker.record_logs(where).open(TopicPartition(where.topic_id, 0), 1)
        end = BATCHES * RECORDS
        size = offset = 0
        began = 0.0
        while offset < end:
            if offset == KEPT_BATCHES * RECORDS:
                size, began = 0, time.process_time()
            found = await log.read(offset, max_bytes=MIB, end_offset=end)
            size += len(found.records)
            offset = found.headers[-1].last_offset + 1
        used = time.process_time() - began
        await log.close()
    return size / MIB / used


async def _filled(bootstrap):
    batch = encode_records(
        [DecodedRecord(value=b"v" * 1_024) for _ in range(RECORDS)], default_timestamp_ms=1
    )
    async with _client(bootstrap) as broker:
        where = await broker.topic()
        for _ in range(BATCHES):
            await broker.brokers.produce(where, batch, timeout_ms=5_000)
    return where


def read(bootstrap, runner):
    """Reads of records, against draining the same bytes."""
    where = runner.run(_filled(bootstrap))
    medians = alternate(
        lambda: runner.run(_drained(bootstrap, where)), lambda: runner.run(_read(bootstrap, where))
    )
    return Figure(
        "kafka.read", medians.measured, "MB/cpu-s", medians.baseline, medians.ratio, 0.6, goal=0.8
    )


# ---- the stamped log -----------------------------------------------------------------------------


async def _commit_times(bootstrap):
    """Return ms of bare produces and of commits of the same size, in turn."""
    records = [encode_state(each) for each in islice(made_log(random.Random(5)), 10)]
    size = sum(len(each.key) + len(each.value or b"") for each in records)
    same = encode_records([DecodedRecord(value=b"v" * size)], default_timestamp_ms=1)
    async with _client(bootstrap) as broker:
        logs, _ = await broker.shard_logs()
        log = await logs.open("state", 0, 1)
        beside = await broker.topic()
        bare, stamped = [], []
        for _ in range(COMMITS):
            began = time.perf_counter()
            await broker.brokers.produce(beside, same, timeout_ms=5_000, lane=BrokerLane.SHARD)
            between = time.perf_counter()
            log.append(records)
            await log.committed(log.end_offset)
            bare.append((between - began) * 1_000)
            stamped.append((time.perf_counter() - between) * 1_000)
        await log.close()
    return bare, stamped


def commit_ms(bootstrap, runner):
    """One commit at a time, against a bare produce of as many bytes."""
    bare, stamped = runner.run(_commit_times(bootstrap))
    found = []
    for name, place, slack in (("p50", 49, 0.7), ("p99", 98, None)):
        mine, theirs = (statistics.quantiles(each, n=100)[place] for each in (stamped, bare))
        bound = None if slack is None else theirs + slack
        found.append(
            Figure(f"kafka.commit_ms.{name}", mine, "ms", theirs, floor=bound, at_most=True)
        )
    return found


async def _writes(bootstrap):
    """Return (writes, produced batches) a second: 64 callers, and as many units of their bytes."""
    one = [encode_state(each) for each in islice(made_log(random.Random(5)), 1)]
    async with _client(bootstrap) as broker:
        logs, where = await broker.shard_logs()
        log = await logs.open("state", 0, 1)

        async def caller():
            for _ in range(CALLS):
                log.append(one)
                await log.committed(log.end_offset)

        first = log.end_offset
        began = time.perf_counter()
        await asyncio.gather(*(caller() for _ in range(CALLERS)))
        measured = CALLERS * CALLS / (time.perf_counter() - began)
        fetched, offset = [], first
        while offset < log.end_offset:
            found = await broker.brokers.fetch(where, offset, max_bytes=MIB)
            batches = list(_batches(found.records))
            fetched += [data for base, data in batches if base >= offset]
            offset = batches[-1][0] + len(decode_plain_records(batches[-1][1]))
        beside = await broker.topic()
        same = [
            encode_records(
                [DecodedRecord(value=bytes(max(1, len(data) - BATCH_OVERHEAD)))],
                default_timestamp_ms=1,
            )
            for data in fetched
        ]
        began = time.perf_counter()
        for data in same:
            await broker.brokers.produce(beside, data, timeout_ms=5_000, lane=BrokerLane.SHARD)
        bare = CALLERS * CALLS / (time.perf_counter() - began)
        await log.close()
    return measured, bare


def _batches(records):
    position, view = 0, memoryview(records)
    while position + 12 < len(view):
        size = 12 + int.from_bytes(view[position + 8 : position + 12], "big")
        if position + size > len(view):
            return
        yield int.from_bytes(view[position : position + 8], "big"), view[position : position + size]
        position += size


def state_write(bootstrap, runner):
    """Appends of 64 callers, against bare produces of the same batches, one after the other."""
    rounds = [runner.run(_writes(bootstrap)) for _ in range(5)]
    measured, bare = (statistics.median(each) for each in zip(*rounds, strict=True))
    return Figure("kafka.state_write", measured, "writes/s", bare, measured / bare, 0.45, goal=0.8)


async def _bare_load(bootstrap, where):
    async with _client(bootstrap) as broker:
        end = (await broker.brokers.list_offset(where, LATEST_TIMESTAMP)).offset
        count = offset = 0
        began = time.perf_counter()
        while offset < end:
            found = await broker.brokers.fetch(where, offset, max_bytes=MIB)
            for base, data in _batches(found.records):
                records = decode_plain_records(data)
                for record in records:
                    if record[0] is not None:  # else it is a fence
                        ShareStateRecord.FromString(record[1])
                count += len(records)
                offset = base + len(records)
    return count / (time.perf_counter() - began)


async def _loaded(bootstrap, topics, epoch, expected):
    async with _client(bootstrap) as broker:
        logs = OwnedKafkaLogs(broker.brokers, topics, broker.clock)
        logs.table.raise_to("state", 0, epoch)
        kind = state_shard_kind(ShareCoordinatorSettings())
        shards = ShardSet(kind, logs.logs, broker.clock, RuntimeLimits())
        began = time.perf_counter()
        await shards.start_shard(0, epoch)
        took = time.perf_counter() - began
        await shards.close()
    return expected / took


async def _written(bootstrap):
    async with _client(bootstrap) as broker:
        logs, where = await broker.shard_logs()
        log = await logs.open("state", 0, 1)
        part, count = [], 0
        for record in made_log(random.Random(5)):
            part.append(encode_state(record))
            count += 1
            if len(part) == 500:
                log.append(part)
                part = []
                await log.committed(log.end_offset)
            if count == LOAD_UPDATES:
                break
        await log.close()
    return where, count


def load(bootstrap, runner):
    """A shard is loaded by its coordinator, against fetching and parsing the same bytes."""
    where, count = runner.run(_written(bootstrap))
    topics = {"state": CoordinatorTopic(where.topic, where.topic_id)}
    epochs = iter(range(2, 1_000))
    medians = alternate(
        lambda: runner.run(_bare_load(bootstrap, where)),
        lambda: runner.run(_loaded(bootstrap, topics, next(epochs), count)),
    )
    return Figure(
        "kafka.load", medians.measured, "updates/s", medians.baseline, medians.ratio, 0.4, goal=0.7
    )


async def _take_overs(bootstrap):
    async with _client(bootstrap) as broker:
        logs, where = await broker.shard_logs()
        records = broker.record_logs(where)
        partition = TopicPartition(where.topic_id, 0)
        shard_ms, partition_ms = [], []
        for epoch in range(1, TAKE_OVERS + 1):
            began = time.perf_counter()
            log = await logs.open("state", 0, epoch)
            async for _ in log.replay():
                pass
            shard_ms.append((time.perf_counter() - began) * 1_000)
            await log.close()
            began = time.perf_counter()
            opened = await records.open(partition, epoch)
            partition_ms.append((time.perf_counter() - began) * 1_000)
            await opened.close()
    return statistics.median(partition_ms), statistics.median(shard_ms)


def take_over_ms(bootstrap, runner):
    """Opening a partition, and taking an empty shard over."""
    partition, shard = runner.run(_take_overs(bootstrap))
    return [
        Figure("kafka.take_over_ms.partition", partition, "ms", floor=15, at_most=True),
        Figure("kafka.take_over_ms.shard", shard, "ms", floor=25, at_most=True),
    ]


async def _idle(bootstrap, pid, count):
    """Return cores of this process and of the broker while it leads idle partitions."""
    async with _client(bootstrap, pid) as broker:
        where = await broker.topic(count)
        logs = broker.record_logs(where)
        opened = [
            await logs.open(TopicPartition(where.topic_id, number), 1) for number in range(count)
        ]
        await asyncio.sleep(IDLE_AFTER_S)
        began, mine, theirs = time.perf_counter(), time.process_time(), processor_s(pid)
        await asyncio.sleep(IDLE_S)
        took = time.perf_counter() - began
        found = (time.process_time() - mine) / took, (processor_s(pid) - theirs) / took
        await asyncio.gather(*(each.close() for each in opened))
    return found


def idle(bootstrap, runner, pid):
    """A leader that leads 1,000 partitions of which none gets a record, beside one that leads one.

    A broker that nobody uses takes more than the floor for itself: what the partitions add counts.
    """
    before, mine, after = (
        runner.run(_idle(bootstrap, pid, count)) for count in (1, IDLE_PARTITIONS, 1)
    )
    none, alone = (statistics.mean(pair) for pair in zip(before, after, strict=True))
    added = max(0.0, mine[1] - alone)
    return [
        Figure("kafka.idle.leader", mine[0], "cores", none, floor=0.03, at_most=True),
        Figure("kafka.idle.broker_added", added, "cores", alone, floor=0.03, at_most=True),
    ]


def processor_s(pid):
    """Return the processor time that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def figures(bootstrap, pid):
    """Return the figures of logs."""
    bound_heap()  # as each process of Sharemesh does
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return [
            read(bootstrap, runner),
            *commit_ms(bootstrap, runner),
            state_write(bootstrap, runner),
            load(bootstrap, runner),
            *take_over_ms(bootstrap, runner),
            *idle(bootstrap, runner, pid),
        ]
