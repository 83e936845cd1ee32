"""Fillings of the port Brokers, each with an operator that moves leaders, trims, denies.

A filling that cannot do one of the operator's verbs leaves it out, and the test is skipped.
"""

import asyncio
import contextlib
import itertools
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any

import pytest
from confluent_kafka import Producer

from sharemesh.codec.batch_frame import frame_of
from sharemesh.codec.record_set import build_batch
from sharemesh.kafka.brokers_client import KafkaBrokers
from sharemesh.kafka.dialing import Dialing
from sharemesh.ports.brokers import (
    BrokerPartition,
    BrokerRefusedError,
    Brokers,
    BrokerUnreachableError,
    NewBrokerTopic,
)
from sharemesh.testing.memory_brokers import MemoryCluster
from tests.clocks import LoopClock

PASSING = frozenset({3, 5, 6, 7, 13, 14, 15, 19, 41, 74, 75, 78, 100})
"""Errors that a leader change or a topic that is not known everywhere yet explains."""

SETTLED_S = 20.0
_AGAIN_S = 0.05
_TOPICS = itertools.count(1)


async def settled(call: Callable[[], Awaitable[Any]]) -> Any:
    """Repeat a request for as long as it is refused for a reason that passes."""
    end_s = asyncio.get_running_loop().time() + SETTLED_S
    while True:
        try:
            return await call()
        except (BrokerRefusedError, BrokerUnreachableError) as error:
            passes = getattr(error, "code", 13) in PASSING
            if not passes or asyncio.get_running_loop().time() > end_s:
                raise
            await asyncio.sleep(_AGAIN_S)


def batch_of(*values: bytes, timestamp_ms: int = 1_000, **options: Any) -> bytes:
    """Return one record batch with these values."""
    records = [(None, value, ()) for value in values]
    return bytes(build_batch(records, timestamp_ms=timestamp_ms, **options))


class BrokerFilling:
    """What a filling can do beside the port; each verb that is left out skips the test."""

    name = ""
    gaps: frozenset[str] = frozenset()
    """What these brokers do otherwise than Kafka."""

    def need(self, what: str) -> None:
        """Skip the test where the brokers do this otherwise than Kafka."""
        if what in self.gaps:
            pytest.skip(f"{self.name} does otherwise: {what}")

    async def start(self) -> None:
        """Begin; called once a test."""

    async def stop(self) -> None:
        """End what was begun."""

    def client(self) -> Brokers:
        """Return a new client of the cluster."""
        raise NotImplementedError

    async def make_topic(
        self, *, partitions: int = 1, name: str = "", configs: dict[str, str] | None = None
    ) -> BrokerPartition:
        """Create a topic that every broker knows; return its first partition."""
        client = self.client()
        topic = name or f"topic-{next(_TOPICS)}-{random.SystemRandom().randrange(1 << 32):08x}"
        await client.create_topic(
            NewBrokerTopic(topic, partitions, -1, configs or {}), timeout_ms=15_000
        )
        found = await self.topic_id_of(client, topic)
        await client.close()
        return BrokerPartition(found, topic, 0)

    async def topic_id_of(self, client: Brokers, topic: str) -> Any:
        """Return the id of a topic once every broker that is asked knows a leader of each part."""

        async def look() -> Any:
            [found] = (await client.metadata([topic])).topics
            if found.error or any(each.leader < 0 for each in found.partitions):
                raise BrokerRefusedError(found.error or 5, "NOT_KNOWN_YET")
            return found.topic_id

        for _ in (await client.metadata()).brokers:
            topic_id = await settled(look)
        return topic_id

    async def move_leader(self, partition: BrokerPartition) -> None:
        """Let another replica lead."""
        self._cannot("move a leader")

    async def write_transaction(
        self, partition: BrokerPartition, values: Sequence[bytes], *, commit: bool | None
    ) -> tuple[int, int]:
        """Write a transaction, and end it unless None; return producer id and first offset."""
        self._cannot("write a transaction")

    async def remove_records(self, partition: BrokerPartition, offsets: Sequence[int]) -> None:
        """Remove records as compaction does."""
        self._cannot("compact")

    async def evict_sessions(self) -> None:
        """Let the brokers forget all fetch sessions."""
        self._cannot("evict fetch sessions")

    async def deny(self, topic: str) -> None:
        """Take the rights on a topic from the clients."""
        self._cannot("take rights")

    async def allow(self, topic: str) -> None:
        """Give them back."""
        self._cannot("give rights")

    @contextlib.asynccontextmanager
    async def answers_lost(self) -> AsyncIterator[None]:
        """Let what is asked be done, and every answer be lost."""
        self._cannot("lose answers")
        yield

    @contextlib.asynccontextmanager
    async def replication_held(self, partition: BrokerPartition) -> AsyncIterator[None]:
        """Let no follower copy; all stay in sync meanwhile."""
        self._cannot("hold the replication")
        yield

    async def too_few_in_sync(self, partition: BrokerPartition) -> None:
        """Leave fewer replicas in sync than ``min.insync.replicas``."""
        self._cannot("take replicas out of sync")

    async def lose_newest(self, partition: BrokerPartition, batch: bytes) -> int:
        """Commit a batch at the leader alone, and let another lead that lacks it; its offset."""
        self._cannot("elect an unclean leader")

    async def throttle(self, duration_ms: int) -> None:
        """Let the next request be throttled for so long."""
        self._cannot("throttle")

    def _cannot(self, what: str) -> Any:
        pytest.skip(f"{self.name} cannot {what}")


class MemoryFilling(BrokerFilling):
    """The cluster in memory, on the loop's own time; it can do everything."""

    name = "memory"

    async def start(self) -> None:
        self.cluster = MemoryCluster(LoopClock(), random.Random(7))

    async def stop(self) -> None:
        await self.cluster.close()

    def client(self) -> Brokers:
        return self.cluster.client()

    async def move_leader(self, partition: BrokerPartition) -> None:
        self.cluster.move_leader(partition.topic, partition.partition)

    async def write_transaction(
        self, partition: BrokerPartition, values: Sequence[bytes], *, commit: bool | None
    ) -> tuple[int, int]:
        producer_id = self.cluster.next_producer_id()
        batch = batch_of(
            *values,
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=0,
            is_transactional=True,
        )
        place = (partition.topic, partition.partition)
        first = self.cluster.append(*place, batch)
        if commit is not None:
            self.cluster.end_transaction(*place, (producer_id, 0), commit=commit)
        return producer_id, first

    async def remove_records(self, partition: BrokerPartition, offsets: Sequence[int]) -> None:
        self.cluster.compact(partition.topic, partition.partition, offsets)

    async def evict_sessions(self) -> None:
        self.cluster.evict_sessions()

    async def deny(self, topic: str) -> None:
        self.cluster.deny(topic)

    async def allow(self, topic: str) -> None:
        self.cluster.allow(topic)

    @contextlib.asynccontextmanager
    async def answers_lost(self) -> AsyncIterator[None]:
        self.cluster.troubles.unanswered = 1_000
        yield
        self.cluster.troubles.unanswered = 0

    @contextlib.asynccontextmanager
    async def replication_held(self, partition: BrokerPartition) -> AsyncIterator[None]:
        for broker_id in self._followers(partition):
            self.cluster.pause_replication(broker_id)
        yield
        for broker_id in self._followers(partition):
            self.cluster.resume_replication(broker_id)

    async def too_few_in_sync(self, partition: BrokerPartition) -> None:
        for broker_id in self._followers(partition):
            self.cluster.kill(broker_id)

    async def lose_newest(self, partition: BrokerPartition, batch: bytes) -> int:
        place = (partition.topic, partition.partition)
        followers = self._followers(partition)
        for broker_id in followers:
            self.cluster.kill(broker_id)
        offset = self.cluster.append(*place, batch)
        self.cluster.kill(self.cluster.leader(*place))
        for broker_id in followers:
            self.cluster.start(broker_id)
        self.cluster.elect_unclean(*place, followers[0])
        return offset

    async def throttle(self, duration_ms: int) -> None:
        self.cluster.troubles.throttle_ms = (duration_ms, duration_ms)
        self.cluster.troubles.throttled = 1_000

    def _followers(self, partition: BrokerPartition) -> list[int]:
        leader = self.cluster.leader(partition.topic, partition.partition)
        return [each for each in self.cluster.brokers if each != leader]


class RealFilling(BrokerFilling):
    """The client of room ``kafka`` at brokers that run already."""

    def __init__(self, name: str, bootstrap: str) -> None:
        self.name = name
        self.gaps = GAPS.get(name, frozenset())
        self._servers = bootstrap.split(",")
        self._open: list[Producer] = []

    def client(self) -> Brokers:
        return KafkaBrokers(self._servers, Dialing(LoopClock()), random.Random(1))

    async def write_transaction(
        self, partition: BrokerPartition, values: Sequence[bytes], *, commit: bool | None
    ) -> tuple[int, int]:
        first = await asyncio.to_thread(self._write_transaction, partition, values, commit)
        client = self.client()
        fetched = await settled(lambda: client.fetch(partition, first, max_bytes=1))
        await client.close()
        return frame_of(fetched.records, first).producer_id, first

    def _write_transaction(
        self, partition: BrokerPartition, values: Sequence[bytes], commit: bool | None
    ) -> int:
        number = next(_TOPICS)
        producer = Producer(
            {
                "bootstrap.servers": ",".join(self._servers),
                "transactional.id": f"{partition.topic}-{number}",
            }
        )
        offsets: list[int] = []
        producer.init_transactions(SETTLED_S)
        producer.begin_transaction()
        for value in values:
            producer.produce(
                partition.topic,
                value,
                partition=partition.partition,
                on_delivery=lambda _, message: offsets.append(message.offset()),
            )
        producer.flush(SETTLED_S)
        if commit is None:
            self._open.append(producer)  # it is aborted when its object goes
        elif commit:
            producer.commit_transaction(SETTLED_S)
        else:
            producer.abort_transaction(SETTLED_S)
        return min(offsets)


GAPS = {
    "kfake": frozenset(
        {
            "append time",
            "compression of topics",
            "deletion below the log start",
            "cleanup policies",
            "unknown settings",
        }
    )
}
