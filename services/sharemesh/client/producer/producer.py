"""Producer: batched, idempotent production for threads; the network runs in the background."""

import threading
from collections import deque
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from typing import Any, Self

from sharemesh.client.background_loop import BackgroundLoop
from sharemesh.client.config import check_timeout_ms
from sharemesh.client.environment import ClientEnvironment
from sharemesh.client.producer.async_producer import DEFAULT_CLOSE_TIMEOUT_MS, ProducerBase
from sharemesh.client.producer.delivery import (
    BatchOutcome,
    Forgotten,
    OutgoingFields,
    OutgoingRecord,
    ProduceCallback,
    RecordMetadata,
    Reports,
    light_future,
)
from sharemesh.client.producer.engine import ProducerEngine, not_in_time
from sharemesh.client.producer.serializer import HeadersLike


class Producer(ProducerBase):
    """Sends records from any thread; a future's result means that the record is on disk.

    Arguments, times and errors are those of ``AsyncProducer``.
    """

    def __init__(
        self, config: Mapping[str, Any], *, environment: ClientEnvironment | None = None
    ) -> None:
        super().__init__(config, environment=environment)
        self._content = self._serializing.content
        self._loop = BackgroundLoop("sharemesh-producer")
        self._forgotten = Forgotten(self._environment.clock)
        self._reports = Reports(self._awaited, self._forgotten)
        self._unplaced = BatchOutcome(
            "", None, self._reports
        )  # never known: of what is handed over
        self._handed: deque[OutgoingFields] = deque()
        self._is_stirred = False
        self._senders = threading.Lock()  # never taken on the loop's thread: see ``close``
        self._blocked = False
        self._room = threading.Event()
        self._over: Exception | None = None  # set when nobody takes records over any more

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
        if self._closed:
            self._check_open()
        future = light_future(self._unplaced)
        if callback is not None:
            future.has_callback = True
        key, value, headers, timestamp_ms, size_bytes = self._content(
            topic, value, key, partition, headers, timestamp_ms
        )
        record = (
            topic, partition, key, value, headers, timestamp_ms, size_bytes, future, callback
        )  # fmt: skip
        with self._senders:
            # As ``_fits``, without the call; the exception for a single one is looked at there.
            if self._queued_bytes - self._settled_bytes + size_bytes > self._limit_bytes:
                self._wait_for_room(size_bytes)
            self._handed.append(record)
            self._queued_bytes += size_bytes
        if not self._is_stirred:
            self._is_stirred = True  # the engine looks each second too: an interrupt may come now
            self._loop.soon(self._take_in)
        if self._over is not None:  # closed meanwhile
            self._fail_handed(self._over)
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
            self._over = not_in_time()
            self._fail_handed(self._over)
            self._forgotten.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _new_engine(self) -> ProducerEngine:
        return ProducerEngine(
            self._config,
            self._environment,
            reports=self._reports,
            on_settled=self._on_settled,
            hand_over=self._hand_over,
        )

    def _take_in(self) -> None:
        self._started().take_in()

    def _hand_over(self) -> Iterator[OutgoingFields]:
        """Yield what was sent since; on the loop's thread, while senders go on."""
        self._is_stirred = False
        while self._handed:
            yield self._handed.popleft()

    def _fail_handed(self, error: Exception) -> None:
        """Fail what no loop will take over."""
        while self._handed:
            try:
                record = OutgoingRecord._make(self._handed.popleft())
            except IndexError:  # another thread does the same
                return
            outcome = BatchOutcome(record.topic, record.partition, self._reports)
            outcome.add(record, 0)
            outcome.fail(error)

    def _on_settled(self, size_bytes: int) -> None:
        super()._on_settled(size_bytes)
        if self._blocked:
            self._room.set()

    def _wait_for_room(self, size_bytes: int) -> None:
        """Wait, in turn, until ``size_bytes`` fit."""
        deadline_ms = self._environment.clock.now_ms() + self._block_ms
        self._blocked = True
        try:
            while not self._fits(size_bytes):
                self._room.clear()
                if self._fits(size_bytes):  # it was set before it was cleared
                    return
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
