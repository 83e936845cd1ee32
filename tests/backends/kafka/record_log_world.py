"""Record logs on a cluster of brokers in memory, and what others do to their topics."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from random import Random

import pytest

from sharemesh.backends.kafka.record_logs.record_logs import KafkaRecordLogs
from sharemesh.backends.kafka.record_logs.settings import TopicLogBounds
from sharemesh.backends.local.coordination import LocalCoordination
from sharemesh.backends.local.coordination_store import LocalStore
from sharemesh.cluster.seen_logs import SeenPartitionsInStore
from sharemesh.codec.record_set import build_batch, decode_records
from sharemesh.domain.errors import ErrorCode, RefusedError
from sharemesh.domain.ids import TopicId, TopicPartition
from sharemesh.ports.brokers import BrokerPartition, NewBrokerTopic, WatchAnswer
from sharemesh.ports.shard_log import FencedError
from sharemesh.testing.memory_brokers.cluster import MemoryCluster
from tests.clocks import LoopClock

QUICK = TopicLogBounds(
    open_wait_ms=500, read_wait_ms=400, watch_pause_ms=1, retry_first_ms=5, retry_most_ms=20
)


class ClaimsOfATest:
    """Who leads what, as a test says (port Ownership)."""

    def __init__(self) -> None:
        self.epochs: dict[TopicPartition, int] = {}

    async def still(self, kind: object, shard: int, epoch: int) -> None:
        raise AssertionError("record logs hold no shard")

    async def leads(self, partition: TopicPartition, epoch: int) -> None:
        newest = self.epochs.get(partition, epoch)
        if newest != epoch:
            raise FencedError(f"epoch {newest} leads", fence_epoch=newest)


class KafkaWorld:
    """One topic ``orders`` of some partitions, and record logs of one process over it."""

    def __init__(self, cluster: MemoryCluster, bounds: TopicLogBounds, configs: dict) -> None:
        self.cluster = cluster
        self.clock = LoopClock()
        self.topic_id: TopicId = cluster.create(NewBrokerTopic("orders", 2, 3, configs))
        self.partition = TopicPartition(self.topic_id, 0)
        self.where = BrokerPartition(self.topic_id, "orders", 0)
        self.client = cluster.client()
        self.claims = ClaimsOfATest()
        self.bounds = bounds
        self.store = LocalStore(self.clock)
        self.coordination = LocalCoordination(self.store)
        self.logs = self.other_process()

    def other_process(self) -> KafkaRecordLogs:
        """Return the record logs of a process that begins now."""
        self.seen = SeenPartitionsInStore(self.coordination, "mesh", self.clock)
        return KafkaRecordLogs(
            self.client,
            self.clock,
            self.claims,
            self.seen,
            {self.topic_id: "orders"}.get,
            self.bounds,
        )

    async def open(self, epoch: int = 1, partition: int = 0):
        where = TopicPartition(self.topic_id, partition)
        self.claims.epochs[where] = epoch
        return await self.logs.open(where, epoch)

    async def write(self, data: bytes, partition: int = 0) -> None:
        """Append as another producer does, until it is committed."""
        base = self.cluster.append("orders", partition, data)
        await until(lambda: self.cluster.high_watermark("orders", partition) > base)

    def leave_in_sync(self, broker_id: int) -> None:
        """Let what is committed wait for a broker no more."""
        _, image = self.cluster.controller.partition("orders", 0)
        leader = self.cluster.brokers[image.leader]
        replica = leader.replicas[self.topic_id, 0]
        left = tuple(each for each in image.in_sync if each != broker_id)
        self.cluster.controller.change_in_sync(leader, replica, left)

    def replica_end(self, broker_id: int) -> int:
        """Return where the log of a broker ends."""
        return self.cluster.brokers[broker_id].replicas[self.topic_id, 0].log.end_offset

    async def end(self, producer: int, *, commit: bool) -> None:
        """End a transaction as Kafka's coordinator does."""
        base = self.cluster.end_transaction("orders", 0, (producer, 0), commit=commit)
        await until(lambda: self.cluster.high_watermark("orders") > base)


@asynccontextmanager
async def kafka_world(
    bounds: TopicLogBounds = QUICK, seed: int = 1, **configs: str
) -> AsyncIterator[KafkaWorld]:
    cluster = MemoryCluster(LoopClock(), Random(seed))
    try:
        world = KafkaWorld(cluster, bounds, configs)
        yield world
        await world.seen.close()
    finally:
        await cluster.close()


async def one_behind(w: KafkaWorld):
    """Open the log, write 3 records, and let one replica copy nothing more; return all three."""
    log = await w.open()
    await w.write(batch(3))
    await until(lambda: log.high_watermark == 3)
    leader = w.cluster.leader("orders")
    behind = next(each for each in (1, 2, 3) if each != leader)
    w.cluster.pause_replication(behind)
    w.leave_in_sync(behind)
    return log, leader, behind


def hear_nothing_of_epoch(log, epoch: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a log not hear what leaders under an epoch of Kafka tell the watch, however late."""
    heard = log._log.heard

    def heard_of_others(answer: WatchAnswer) -> bool:
        if answer.fetched is not None and answer.fetched.leader_epoch == epoch:
            return False
        return heard(answer)

    monkeypatch.setattr(log._log, "heard", heard_of_others)


def batch(count: int = 3, *, time_ms: int = 1_000, value: bytes = b"v", **fields) -> bytes:
    made = build_batch(
        [(b"k", value, (("h", b"x"),)) for _ in range(count)], timestamp_ms=time_ms, **fields
    )
    return bytes(made)


def transactional(producer: int, sequence: int = 0, count: int = 2, **fields) -> bytes:
    return batch(
        count,
        producer_id=producer,
        producer_epoch=0,
        base_sequence=sequence,
        is_transactional=True,
        **fields,
    )


async def until(condition: Callable[[], object], timeout_s: float = 60) -> None:
    """Return once it holds; the loop does other things meanwhile."""
    async with asyncio.timeout(timeout_s):
        while not condition():
            await asyncio.sleep(0.002)


async def all_read(log, start: int = 0, *, max_bytes: int = 1 << 20, **how) -> list[int]:
    """Return the offsets of all batches from ``start`` on, as headers tell them."""
    found: list[int] = []
    end = log.last_stable_offset if how.get("committed") else log.high_watermark
    while start < end:
        read = await log.read(start, max_bytes=max_bytes, **how)
        assert read.headers, f"nothing at {start} of {end}"
        for header in read.headers:
            found += range(header.base_offset, header.last_offset + 1)
        start = read.headers[-1].last_offset + 1
    return found


def values_of(read) -> list[bytes | None]:
    """Return the values of the records that are in a read, of whole batches."""
    found, left = [], memoryview(read.records)
    while left:
        size = 12 + int.from_bytes(left[8:12])  # base offset and length come first
        found += [record.value for record in decode_records(left[:size])]
        left = left[size:]
    return found


async def refused(awaitable, error: ErrorCode, match: str | None = None) -> None:
    with pytest.raises(RefusedError, match=match) as caught:
        await awaitable
    assert caught.value.error is error
