"""Measures every request to a Kafka cluster, outside of what sends it."""

from collections.abc import Awaitable, Mapping, Sequence
from typing import TypeVar

from sharemesh.domain.ids import TopicId
from sharemesh.ports.brokers import (
    BrokerLane,
    BrokerPartition,
    BrokerRefusedError,
    Brokers,
    BrokerUnreachableError,
    BrokerWatch,
    ClusterMetadata,
    FetchedRecords,
    FoundOffset,
    Isolation,
    NewBrokerTopic,
    ProducedBatch,
    UnsupportedRequestError,
)
from sharemesh.telemetry import names
from sharemesh.telemetry.telemetry import Telemetry

Answer = TypeVar("Answer")

UNREACHABLE = "unreachable"
UNSUPPORTED = "unsupported"


class MeasuredBrokers:
    """Fills ``ports.brokers.Brokers`` before another one: durations and refusals, by API.

    Polls of a watch are not measured: they wait for records, and tell errors by partition.
    """

    def __init__(self, brokers: Brokers, telemetry: Telemetry) -> None:
        self._brokers = brokers
        self._registry = telemetry.registry
        self._now_ns = telemetry.spans.now_ns
        for api in ("produce", "fetch"):  # alerts ask for these: they begin at 0
            self._registry.histogram(names.KAFKA_REQUEST_DURATION, api)
            self._registry.counter(names.KAFKA_FAILURES, api, UNREACHABLE)

    async def metadata(
        self, topics: Sequence[str] = (), *, topic_ids: Sequence[TopicId] = ()
    ) -> ClusterMetadata:
        """See the port."""
        asked = self._brokers.metadata(topics, topic_ids=topic_ids)
        return await self._measured("metadata", asked)

    async def produce(
        self,
        partition: BrokerPartition,
        batch: bytes,
        *,
        timeout_ms: int,
        lane: BrokerLane = BrokerLane.PRODUCE,
    ) -> ProducedBatch:
        """See the port."""
        asked = self._brokers.produce(partition, batch, timeout_ms=timeout_ms, lane=lane)
        return await self._measured("produce", asked)

    async def fetch(
        self,
        partition: BrokerPartition,
        offset: int,
        *,
        max_bytes: int,
        max_wait_ms: int = 0,
        isolation: Isolation = Isolation.READ_UNCOMMITTED,
        last_fetched_epoch: int = -1,
    ) -> FetchedRecords:
        """See the port."""
        asked = self._brokers.fetch(
            partition,
            offset,
            max_bytes=max_bytes,
            max_wait_ms=max_wait_ms,
            isolation=isolation,
            last_fetched_epoch=last_fetched_epoch,
        )
        return await self._measured("fetch", asked)

    def watch(self) -> BrokerWatch:
        """See the port."""
        return self._brokers.watch()

    async def list_offset(
        self,
        partition: BrokerPartition,
        timestamp_ms: int,
        *,
        isolation: Isolation = Isolation.READ_UNCOMMITTED,
    ) -> FoundOffset:
        """See the port."""
        asked = self._brokers.list_offset(partition, timestamp_ms, isolation=isolation)
        return await self._measured("list_offset", asked)

    async def end_offset_of_epoch(
        self, partition: BrokerPartition, leader_epoch: int
    ) -> tuple[int, int]:
        """See the port."""
        asked = self._brokers.end_offset_of_epoch(partition, leader_epoch)
        return await self._measured("end_offset_of_epoch", asked)

    async def delete_records(
        self, partition: BrokerPartition, before_offset: int, *, timeout_ms: int
    ) -> int:
        """See the port."""
        asked = self._brokers.delete_records(partition, before_offset, timeout_ms=timeout_ms)
        return await self._measured("delete_records", asked)

    async def create_topic(self, topic: NewBrokerTopic, *, timeout_ms: int) -> None:
        """See the port."""
        await self._measured(
            "create_topic", self._brokers.create_topic(topic, timeout_ms=timeout_ms)
        )

    async def create_partitions(self, topic: str, partitions: int, *, timeout_ms: int) -> None:
        """See the port."""
        asked = self._brokers.create_partitions(topic, partitions, timeout_ms=timeout_ms)
        await self._measured("create_partitions", asked)

    async def delete_topic(self, topic: str, *, timeout_ms: int) -> None:
        """See the port."""
        await self._measured(
            "delete_topic", self._brokers.delete_topic(topic, timeout_ms=timeout_ms)
        )

    async def topic_configs(self, topic: str) -> Mapping[str, str]:
        """See the port."""
        return await self._measured("topic_configs", self._brokers.topic_configs(topic))

    async def alter_topic_configs(self, topic: str, changes: Mapping[str, str | None]) -> None:
        """See the port."""
        await self._measured(
            "alter_topic_configs", self._brokers.alter_topic_configs(topic, changes)
        )

    async def new_producer_id(self) -> tuple[int, int]:
        """See the port."""
        return await self._measured("new_producer_id", self._brokers.new_producer_id())

    async def close(self) -> None:
        """See the port."""
        await self._brokers.close()

    async def _measured(self, api: str, asked: Awaitable[Answer]) -> Answer:
        duration = self._registry.histogram(names.KAFKA_REQUEST_DURATION, api)
        began_ns = self._now_ns()
        try:
            return await asked
        except BrokerRefusedError as error:
            self._failed(api, error.name.lower())
            raise
        except BrokerUnreachableError:
            self._failed(api, UNREACHABLE)
            raise
        except UnsupportedRequestError:
            self._failed(api, UNSUPPORTED)
            raise
        finally:
            duration.record((self._now_ns() - began_ns) / 1e9)

    def _failed(self, api: str, error: str) -> None:
        self._registry.counter(names.KAFKA_FAILURES, api, error).add()
