"""Fillings of the port RecordLogs, each with what others may do to its partition."""

import asyncio
from collections.abc import Callable

import pytest

from sharemesh.backends.embedded.records.record_logs import EmbeddedRecordLogs
from sharemesh.backends.embedded.settings import LogSettings
from sharemesh.codec.record_set import build_batch
from sharemesh.domain.errors import ErrorCode, RefusedError
from sharemesh.domain.ids import TopicId, TopicPartition
from sharemesh.ports.brokers import BrokerPartition
from sharemesh.ports.disk import Disk
from sharemesh.ports.record_log import PartitionLog, TopicLogConfig
from tests.backends.kafka.real_topics import RealTopics
from tests.backends.kafka.record_log_world import KafkaWorld
from tests.clocks import ManualClock

PARTITION = TopicPartition(TopicId(bytes(range(16))), 3)


def batch(count: int = 3, *, time_ms: int = 1_000, value: bytes = b"v", **fields) -> bytes:
    made = build_batch(
        [(b"k", value, (("h", b"x"),)) for _ in range(count)], timestamp_ms=time_ms, **fields
    )
    return bytes(made)


def idempotent(sequence: int, count: int = 2, *, epoch: int = 0, producer: int = 7, **fields):
    return batch(
        count, producer_id=producer, producer_epoch=epoch, base_sequence=sequence, **fields
    )


async def refused(awaitable, error: ErrorCode, match: str | None = None) -> None:
    with pytest.raises(RefusedError, match=match) as caught:
        await awaitable
    assert caught.value.error is error


async def offsets(log, start: int, end: int | None = None, max_bytes: int = 1 << 20) -> list[int]:
    found: list[int] = []
    while True:
        result = await log.read(start, max_bytes=max_bytes, end_offset=end)
        if not result.headers:
            return found
        for header in result.headers:
            found += range(header.base_offset, header.last_offset + 1)
        start = result.headers[-1].last_offset + 1


class OnDisk:
    """The embedded log, whose leader alone writes to it."""

    takes_transactions = True

    def __init__(self, disk: Disk, recent_bytes_max: int) -> None:
        settings = LogSettings(recent_bytes_max=recent_bytes_max)
        self._logs = EmbeddedRecordLogs(disk, ManualClock(), settings)
        self._log: PartitionLog | None = None

    async def open(self, epoch: int) -> PartitionLog:
        self._log = await self._logs.open(PARTITION, epoch)
        return self._log

    async def limit_batches(self, bytes_max: int) -> None:
        self._log.configure(TopicLogConfig(batch_bytes_max=bytes_max))

    async def write(self, batches: bytes) -> None:
        await self._log.append(batches)

    async def end(self, producer: int, *, commit: bool) -> None:
        await self._log.append_txn_marker(producer, 0, commit=commit)


class OnBrokers:
    """Kafka in memory: others write to the same partition."""

    takes_transactions = True

    def __init__(self, world: KafkaWorld) -> None:
        self._world = world

    async def open(self, epoch: int) -> PartitionLog:
        return await self._world.open(epoch)

    async def limit_batches(self, bytes_max: int) -> None:
        self._world.cluster.configure("orders", {"max.message.bytes": str(bytes_max)})

    async def write(self, batches: bytes) -> None:
        await self._world.write(batches)

    async def end(self, producer: int, *, commit: bool) -> None:
        await self._world.end(producer, commit=commit)


class OnKafka:
    """A topic of Apache Kafka, which wants a coordinator of its own for transactions."""

    takes_transactions = False

    def __init__(self, topics: RealTopics, where: BrokerPartition) -> None:
        self._topics = topics
        self._where = where

    async def open(self, epoch: int) -> PartitionLog:
        return await self._topics.open(self._where, epoch)

    async def limit_batches(self, bytes_max: int) -> None:
        changed = {"max.message.bytes": str(bytes_max)}
        await self._topics.brokers.alter_topic_configs(self._where.topic, changed)


async def until(condition: Callable[[], object]) -> None:
    """Return once it holds: a log that others write to learns of it a moment later."""
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.002)
