"""Producer: batched, idempotent production for threads; the network runs in the background."""

import logging
import threading
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from types import TracebackType
from typing import Any, Self

from sharemesh.client.background_loop import BackgroundLoop
from sharemesh.client.config import check_timeout_ms, producer_config
from sharemesh.client.environment import ClientEnvironment
from sharemesh.client.errors import BufferExhaustedError, IllegalStateError
from sharemesh.client.grpc_environment import real_environment
from sharemesh.client.producer.batches import OutgoingRecord, RecordMetadata
from sharemesh.client.producer.engine import ProducerEngine
from sharemesh.client.producer.future import Forgotten, ProduceFuture
from sharemesh.client.producer.serializer import HeadersLike, RecordSerializer

_log = logging.getLogger(__name__)

DEFAULT_CLOSE_TIMEOUT_MS = 30_000

ProduceCallback = Callable[[RecordMetadata | None, Exception | None], object]


class Producer:
    """Sends records from any thread; a future's result means that the record is on disk.

    Arguments, times and errors are those of ``AsyncProducer``.
    """

    def __init__(
        self, config: Mapping[str, Any], *, environment: ClientEnvironment | None = None
    ) -> None:
        self._config = producer_config(config)
        environment = environment or real_environment(self._config)
        self._environment = environment
        self._serializing = RecordSerializer(self._config, environment.clock)
        self._limit = self._config.number("buffer.memory")
        self._loop = BackgroundLoop("sharemesh-producer")
        self._engine: ProducerEngine | None = None
        self._closed = False
        self._forgotten = Forgotten(environment.clock)
        self._queue: deque[OutgoingRecord] = deque()
        self._lock = threading.Lock()
        self._queued_bytes = 0  # changed by senders, with the lock
        self._settled_bytes = 0  # changed by the background thread only
        self._blocked = False
        self._room = threading.Event()

    def send(
        self,
        topic: str,
        value: Any,  # noqa: ANN401
        *,
        key: Any = None,  # noqa: ANN401
        partition: int | None = None,
        headers: HeadersLike = (),
        timestamp_ms: int | None = None,
        callback: ProduceCallback | None = None,
    ) -> "Future[RecordMetadata]":
        """Queue a record; blocks only while ``buffer.memory`` is full.

        A failure is in the result, and told to ``callback``; if neither is used, it is logged.

        ``callback`` is called with metadata or error on the background thread: it must be quick.
        """
        if self._closed:
            raise IllegalStateError("this producer is closed")
        future = ProduceFuture(topic, lambda: self._awaited(topic, partition), self._forgotten)
        future.is_looked_at = callback is not None
        future.set_running_or_notify_cancel()  # a queued record cannot be called back
        size = 0

        def done(metadata: RecordMetadata | None, error: Exception | None) -> None:
            self._settled_bytes += size
            if self._blocked:
                self._room.set()
            if metadata is not None:
                future.set_result(metadata)
            else:
                future.set_exception(error)
            if callback is not None:
                try:
                    callback(metadata, error)
                except Exception:
                    _log.exception("the callback of a produced record failed")

        record = self._serializing.record(topic, value, key, partition, headers, timestamp_ms, done)
        size = record.size_bytes
        with self._lock:
            if self._buffered + size > self._limit:
                self._wait_for_room(size)
            self._queued_bytes += size
            self._queue.append(record)
            wake = len(self._queue) == 1
        if wake:
            self._loop.soon(self._drain)
        return future

    def flush(self, timeout_ms: int | None = None) -> None:
        """Return when everything sent so far is confirmed or has failed.

        Raises:
            TimeoutError: It took longer than ``timeout_ms``.
        """
        if timeout_ms is not None:
            check_timeout_ms(timeout_ms)
        self._loop.run(self._flush(), timeout_ms=timeout_ms)

    def partitions_for(self, topic: str) -> int:
        """Return the number of partitions of a topic."""
        return self._loop.run(self._partitions_for(topic))

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

    def close(self, timeout_ms: int = DEFAULT_CLOSE_TIMEOUT_MS) -> None:
        """Flush for at most ``timeout_ms``; what is left fails. Repeating it is fine."""
        check_timeout_ms(timeout_ms)
        if self._closed:
            return
        self._closed = True
        try:
            self._loop.run(self._close(timeout_ms))
        finally:
            self._loop.stop()
            self._forgotten.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _awaited(self, topic: str, partition: int | None) -> str:
        """Return what a record waits for, from any thread."""
        if self._engine is None:
            return f"topic {topic}: nothing is sent yet"
        return self._engine.awaited(topic, partition)

    @property
    def _buffered(self) -> int:
        return self._queued_bytes - self._settled_bytes

    def _wait_for_room(self, size: int) -> None:
        """Wait, holding the lock, until ``size`` bytes fit; one record alone always does."""
        block_ms = self._config.number("max.block.ms")
        deadline_ms = self._environment.clock.now_ms() + block_ms
        self._blocked = True
        try:
            while self._buffered and self._buffered + size > self._limit:
                self._room.clear()
                if not self._buffered or self._buffered + size <= self._limit:
                    return
                left_ms = deadline_ms - self._environment.clock.now_ms()
                if left_ms <= 0 or not self._room.wait(left_ms / 1_000):
                    raise BufferExhaustedError(
                        f"buffer.memory = {self._limit} bytes stayed full for max.block.ms = "
                        f"{block_ms}"
                    )
        finally:
            self._blocked = False

    def _started(self) -> ProducerEngine:
        if self._engine is None:
            self._engine = ProducerEngine(self._config, self._environment)
            self._engine.start()
        return self._engine

    def _drain(self) -> None:
        engine = self._started()
        while self._queue:
            engine.add(self._queue.popleft())

    async def _flush(self) -> None:
        self._drain()
        await self._started().flush()

    async def _partitions_for(self, topic: str) -> int:
        return await self._started().partitions_for(
            topic, timeout_ms=self._config.number("max.block.ms")
        )

    async def _close(self, timeout_ms: int) -> None:
        self._drain()
        await self._started().close(timeout_ms=timeout_ms)
