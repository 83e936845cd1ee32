"""Producer: batched, idempotent production for threads; the network runs in the background."""

import threading
from collections.abc import Mapping
from concurrent.futures import Future
from typing import Any, Self

from sharemesh.client.background_loop import BackgroundLoop
from sharemesh.client.config import check_timeout_ms
from sharemesh.client.environment import ClientEnvironment
from sharemesh.client.producer.async_producer import DEFAULT_CLOSE_TIMEOUT_MS, ProducerBase
from sharemesh.client.producer.delivery import (
    Forgotten,
    ProduceCallback,
    ProduceFuture,
    RecordMetadata,
)
from sharemesh.client.producer.serializer import HeadersLike, OutgoingRecord


class Producer(ProducerBase):
    """Sends records from any thread; a future's result means that the record is on disk.

    Arguments, times and errors are those of ``AsyncProducer``.
    """

    def __init__(
        self, config: Mapping[str, Any], *, environment: ClientEnvironment | None = None
    ) -> None:
        super().__init__(config, environment=environment)
        self._loop = BackgroundLoop("sharemesh-producer")
        self._forgotten = Forgotten(self._environment.clock)
        self._waiting = threading.Lock()  # of senders that wait for room
        self._blocked = False
        self._room = threading.Event()
        self._accumulator = self._new_accumulator(self._stir, self._room_is_there, self._forgotten)

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

        A failure is in the result and passed to ``callback``; if neither is used, it is logged.

        ``callback`` is called with metadata or error on the background thread: it must be quick.
        """
        self._check_open()
        record = self._serializing.record(topic, value, key, partition, headers, timestamp_ms)
        future = ProduceFuture(record.timestamp_ms)
        if callback is not None:
            future.is_observed = True
        if not self._accumulator.add(record, future, callback):
            self._add_later(record, future, callback)
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

    def __exit__(self, *_: object) -> None:
        self.close()

    def _stir(self) -> None:
        self._loop.soon(self._wake)

    def _wake(self) -> None:
        self._started().wake()

    def _room_is_there(self) -> None:
        if self._blocked:
            self._room.set()

    def _add_later(
        self, record: OutgoingRecord, future: ProduceFuture, callback: ProduceCallback | None
    ) -> None:
        """Add a record as soon as it has room; senders wait one after the other."""
        deadline_ms = self._environment.clock.now_ms() + self._block_ms
        with self._waiting:
            self._blocked = True
            try:
                while not self._accumulator.add(record, future, callback):
                    self._room.clear()
                    if self._accumulator.fits(record.size_bytes):
                        continue  # it was set before it was cleared
                    left_ms = deadline_ms - self._environment.clock.now_ms()
                    if left_ms <= 0 or not self._room.wait(left_ms / 1_000):
                        raise self._full()
            finally:
                self._blocked = False

    async def _flush(self) -> None:
        await self._started().flush()

    async def _partitions_for(self, topic: str) -> int:
        return await self._started().partitions_for(topic, timeout_ms=self._block_ms)

    async def _close(self, timeout_ms: int) -> None:
        await self._started().close(timeout_ms=timeout_ms)
