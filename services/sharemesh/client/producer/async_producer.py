"""AsyncProducer: batched, idempotent production for asyncio."""

import asyncio
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

from sharemesh.client.config import check_timeout_ms, producer_config
from sharemesh.client.environment import ClientEnvironment
from sharemesh.client.errors import BufferExhaustedError, IllegalStateError
from sharemesh.client.grpc_environment import real_environment
from sharemesh.client.producer.batches import RecordMetadata
from sharemesh.client.producer.engine import ProducerEngine
from sharemesh.client.producer.serializer import HeadersLike, RecordSerializer

DEFAULT_CLOSE_TIMEOUT_MS = 30_000


class AsyncProducer:
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
        self._config = producer_config(config)
        environment = environment or real_environment(self._config)
        self._environment = environment
        self._serializing = RecordSerializer(self._config, environment.clock)
        self._engine: ProducerEngine | None = None
        self._closed = False
        self._buffered = 0
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
        if self._closed:
            raise IllegalStateError("this producer is closed")
        future: asyncio.Future[RecordMetadata] = asyncio.get_running_loop().create_future()
        size = 0

        def done(metadata: RecordMetadata | None, error: Exception | None) -> None:
            self._buffered -= size
            self._room.set()
            if future.done():
                return
            if metadata is not None:
                future.set_result(metadata)
            elif error is not None:
                future.set_exception(error)

        record = self._serializing.record(topic, value, key, partition, headers, timestamp_ms, done)
        size = record.size_bytes
        await self._wait_for_room(size)
        self._buffered += size
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
            UnknownTopicOrPartitionError: There is no such topic.
            ConnectionFailedError: No process answered within ``max.block.ms``.
        """
        return await self._started().partitions_for(
            topic, timeout_ms=self._config.number("max.block.ms")
        )

    def metrics(self) -> Mapping[str, int]:
        """Return counters."""
        engine = self._engine
        if engine is None:
            return {}
        return {
            "record-send-total": engine.records_sent,
            "record-error-total": engine.records_failed,
            "request-total": engine.requests,
            "buffer-used-bytes": self._buffered,
        }

    async def close(self, timeout_ms: int = DEFAULT_CLOSE_TIMEOUT_MS) -> None:
        """Flush for at most ``timeout_ms``; what is left fails. Repeating it is fine."""
        check_timeout_ms(timeout_ms)
        self._closed = True
        if self._engine is not None:
            engine, self._engine = self._engine, None
            await engine.close(timeout_ms=timeout_ms)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    def _started(self) -> ProducerEngine:
        if self._engine is None:
            self._engine = ProducerEngine(self._config, self._environment)
            self._engine.start()
        return self._engine

    async def _wait_for_room(self, size: int) -> None:
        limit = self._config.number("buffer.memory")
        if self._buffered + size <= limit or not self._buffered:
            return
        block_ms = self._config.number("max.block.ms")
        try:
            async with asyncio.timeout(block_ms / 1_000):
                while self._buffered and self._buffered + size > limit:
                    self._room.clear()
                    await self._room.wait()
        except TimeoutError:
            raise BufferExhaustedError(
                f"buffer.memory = {limit} bytes stayed full for max.block.ms = {block_ms}"
            ) from None
