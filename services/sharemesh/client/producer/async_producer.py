"""AsyncProducer: batched, idempotent production for asyncio."""

import asyncio
import copy
from collections.abc import Mapping
from functools import partial
from typing import Any, Self

from sharemesh.client.config import check_timeout_ms, producer_config
from sharemesh.client.environment import ClientEnvironment, real_environment
from sharemesh.client.errors import BufferExhaustedError, IllegalStateError
from sharemesh.client.producer.delivery import OutgoingRecord, RecordMetadata, Reports
from sharemesh.client.producer.engine import ProducerEngine
from sharemesh.client.producer.serializer import (
    HeadersLike,
    RecordSerializer,
)

DEFAULT_CLOSE_TIMEOUT_MS = 30_000


class ProducerBase:
    """What the producers for asyncio and for threads share; the first use starts the engine."""

    def __init__(
        self, config: Mapping[str, Any], *, environment: ClientEnvironment | None = None
    ) -> None:
        self._config = producer_config(config)
        self._environment = environment or real_environment(self._config)
        self._serializing = RecordSerializer(self._config, self._environment.clock)
        self._block_ms = self._config.number("max.block.ms")
        self._engine: ProducerEngine | None = None
        self._closed = False
        self._limit_bytes = self._config.number("buffer.memory")
        self._queued_bytes = 0  # changed by senders only
        self._settled_bytes = 0  # changed on the event loop only
        self._reports = Reports(self._awaited)

    def metrics(self) -> Mapping[str, int]:
        """Return counters."""
        engine = self._engine
        if engine is None:
            return {}
        return {
            "record-send-total": engine.records_sent,
            "record-error-total": engine.records_failed,
            "request-total": engine.requests,
            "buffer-used-bytes": self._queued_bytes - self._settled_bytes,
            "produce-throttle-time-avg": engine.throttled.average_ms,
            "produce-throttle-time-max": engine.throttled.max_ms,
        }

    def _awaited(self, topic: str, partition: int | None) -> str:
        """Return what a record waits for, from any thread."""
        if self._engine is None:
            return f"topic {topic}: nothing is sent yet"
        return self._engine.awaited(topic, partition)

    def _fits(self, size_bytes: int) -> bool:
        """Return whether a record has room now; one alone always has."""
        buffered = self._queued_bytes - self._settled_bytes
        return buffered <= 0 or buffered + size_bytes <= self._limit_bytes

    def _full(self) -> BufferExhaustedError:
        return BufferExhaustedError(
            f"buffer.memory = {self._limit_bytes} bytes stayed full for max.block.ms = "
            f"{self._block_ms}"
        )

    def _check_open(self) -> None:
        if self._closed:
            raise IllegalStateError("this producer is closed")

    def _started(self) -> ProducerEngine:
        if self._engine is None:
            self._engine = self._new_engine()
            self._engine.start()
        return self._engine

    def _new_engine(self) -> ProducerEngine:
        return ProducerEngine(
            self._config, self._environment, reports=self._reports, on_settled=self._on_settled
        )

    def _on_settled(self, size_bytes: int) -> None:
        """Give room to others; on the event loop."""
        self._settled_bytes += size_bytes


class AsyncProducer(ProducerBase):
    """Sends records; a future's result means that the record is on disk.

    Args:
        config: Kafka's names; ``bootstrap.servers`` is needed.
        environment: The ports; none: real connections, see ``connect``.

    Raises:
        ConfigError: A name or value is not allowed.
    """

    def __init__(
        self, config: Mapping[str, Any], *, environment: ClientEnvironment | None = None
    ) -> None:
        super().__init__(config, environment=environment)
        self._room = asyncio.Event()

    async def send(
        self,
        topic: str,
        value: Any,  # noqa: ANN401
        *,
        key: Any = None,  # noqa: ANN401
        partition: int | None = None,
        headers: HeadersLike = (),
        timestamp_ms: int | None = None,
    ) -> "asyncio.Future[RecordMetadata]":
        """Queue a record; waits only while ``buffer.memory`` is full.

        Without a partition the key decides (murmur2, as Kafka), without a key batches spread.

        Raises:
            IllegalArgumentError: An argument is not allowed.
            IllegalStateError: The producer is closed.
            MessageTooLargeError: The record does not fit into ``max.request.size``.
            BufferExhaustedError: The buffer stayed full for ``max.block.ms``.
        """
        self._check_open()
        future: asyncio.Future[RecordMetadata] = asyncio.get_running_loop().create_future()
        key, value, headers, timestamp_ms, size_bytes = self._serializing.content(
            topic, value, key, partition, headers, timestamp_ms
        )
        callback = partial(_settle, future)
        record = OutgoingRecord(
            topic, partition, key, value, headers, timestamp_ms, size_bytes, callback
        )
        if not self._fits(record.size_bytes):
            await self._wait_for_room(record.size_bytes)
        self._queued_bytes += record.size_bytes
        self._started().add(record)
        return future

    async def send_and_wait(self, topic: str, value: Any, **rest: Any) -> RecordMetadata:  # noqa: ANN401
        """Send one record and return where it is; arguments and errors as ``send``."""
        return await (await self.send(topic, value, **rest))

    async def flush(self) -> None:
        """Return when everything sent so far is confirmed or has failed."""
        if self._engine is not None:
            await self._engine.flush()

    async def partitions_for(self, topic: str) -> int:
        """Return the number of partitions of a topic.

        Raises:
            IllegalStateError: The producer is closed.
            UnknownTopicOrPartitionError: There is no such topic.
            ConnectionFailedError: No process answered within ``max.block.ms``.
        """
        self._check_open()
        return await self._started().partitions_for(topic, timeout_ms=self._block_ms)

    async def close(self, timeout_ms: int = DEFAULT_CLOSE_TIMEOUT_MS) -> None:
        """Flush for at most ``timeout_ms``; what is left fails. Repeating it is fine."""
        check_timeout_ms(timeout_ms)
        if self._closed:
            return
        self._closed = True
        if self._engine is not None:
            await self._engine.close(timeout_ms=timeout_ms)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def _on_settled(self, size_bytes: int) -> None:
        super()._on_settled(size_bytes)
        self._room.set()

    async def _wait_for_room(self, size_bytes: int) -> None:
        try:
            async with asyncio.timeout(self._block_ms / 1_000):
                while not self._fits(size_bytes):
                    self._room.clear()
                    await self._room.wait()
        except TimeoutError:
            raise self._full() from None


def _settle(
    future: "asyncio.Future[RecordMetadata]",
    metadata: RecordMetadata | None,
    error: Exception | None,
) -> None:
    if future.done():
        return
    if metadata is not None:
        future.set_result(metadata)
    elif error is not None:
        future.set_exception(copy.copy(error).with_traceback(None))
