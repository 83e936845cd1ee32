"""Producer: batched, idempotent production for threads; the network runs in the background."""

import logging
import threading
from collections import Counter, deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any, Self

from sharemesh.client.background_loop import BackgroundLoop
from sharemesh.client.config import check_timeout_ms
from sharemesh.client.environment import ClientEnvironment
from sharemesh.client.producer.async_producer import DEFAULT_CLOSE_TIMEOUT_MS, ProducerBase
from sharemesh.client.producer.batches import (
    HeadersLike,
    OutgoingRecord,
    RecordMetadata,
)
from sharemesh.client.repeated_warnings import RepeatedWarnings
from sharemesh.ports.clock import Clock

_log = logging.getLogger(__name__)

ProduceCallback = Callable[[RecordMetadata | None, Exception | None], object]


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
        self._queue: deque[OutgoingRecord] = deque()
        self._lock = threading.Lock()  # of senders, for the queue and ``_queued_bytes``
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

        A failure is in the result and passed to ``callback``; if neither is used, it is logged.

        ``callback`` is called with metadata or error on the background thread: it must be quick.
        """
        self._check_open()
        future = ProduceFuture(topic, lambda: self._awaited(topic, partition), self._forgotten)
        future.is_observed = callback is not None
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

    def _awaited(self, topic: str, partition: int | None) -> str:
        """Return what a record waits for, from any thread."""
        if self._engine is None:
            return f"topic {topic}: nothing is sent yet"
        return self._engine.awaited(topic, partition)

    def _wait_for_room(self, size: int) -> None:
        """Wait, holding the lock, until ``size`` bytes fit."""
        if self._fits(size):
            return
        deadline_ms = self._environment.clock.now_ms() + self._block_ms
        self._blocked = True
        try:
            while not self._fits(size):
                self._room.clear()
                if self._fits(size):  # it was set before it was cleared
                    return
                left_ms = deadline_ms - self._environment.clock.now_ms()
                if left_ms <= 0 or not self._room.wait(left_ms / 1_000):
                    raise self._full()
        finally:
            self._blocked = False

    def _drain(self) -> None:
        engine = self._started()
        while self._queue:
            engine.add(self._queue.popleft())

    async def _flush(self) -> None:
        self._drain()
        await self._started().flush()

    async def _partitions_for(self, topic: str) -> int:
        return await self._started().partitions_for(topic, timeout_ms=self._block_ms)

    async def _close(self, timeout_ms: int) -> None:
        self._drain()
        await self._started().close(timeout_ms=timeout_ms)


class Forgotten:
    """Logs records that were not confirmed and whose results nobody read."""

    def __init__(self, clock: Clock) -> None:
        self._warnings = RepeatedWarnings(clock)
        self._unlogged: Counter[str] = Counter()

    def note(self, topic: str, error: BaseException) -> None:
        """Count one record; the same topic is logged at growing intervals."""
        self._unlogged[topic] += 1
        if self._warnings.is_due(topic):
            self._report(topic, f": {error}")

    def close(self) -> None:
        """Log what is not logged yet."""
        for topic in list(self._unlogged):
            self._report(topic, ", for reasons such as the one logged before")

    def _report(self, topic: str, why: str) -> None:
        count = self._unlogged.pop(topic)
        records = "a record was" if count == 1 else f"{count} records were"
        _log.warning(
            "topic %s: %s not confirmed, and nobody read the result of send()%s",
            topic,
            records,
            why,
        )


class ProduceFuture(Future[RecordMetadata]):
    """A future whose time-out says what the record waits for, and whose failure is not lost.

    Attributes:
        is_observed: Whether somebody reads the outcome; a failure that nobody reads is logged.
    """

    is_observed = True  # until it is whole: an interrupt may end ``__init__``

    def __init__(self, topic: str, awaited: Callable[[], str], forgotten: Forgotten) -> None:
        super().__init__()
        self._topic = topic
        self._awaited = awaited
        self._forgotten = forgotten
        self.is_observed = False

    def __del__(self) -> None:
        """Log a failure that nobody can read any more."""
        if not self.is_observed and self.done() and (error := super().exception()):
            self._forgotten.note(self._topic, error)

    def add_done_callback(self, fn: Callable[[Future[RecordMetadata]], object]) -> None:
        """Call ``fn`` with this future once the record is confirmed or has failed."""
        self.is_observed = True
        super().add_done_callback(fn)

    def result(self, timeout: float | None = None) -> RecordMetadata:
        """Return where the record is; ``timeout`` is in seconds.

        Raises:
            TimeoutError: It is not confirmed yet; it may still be.
        """
        self.is_observed = True
        try:
            return super().result(timeout)
        except TimeoutError as error:
            raise self._overdue(error, timeout) from None

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Return why the record was not confirmed, None if it was; ``timeout`` is in seconds.

        Raises:
            TimeoutError: Neither is known yet.
        """
        self.is_observed = True
        try:
            return super().exception(timeout)
        except TimeoutError as error:
            raise self._overdue(error, timeout) from None

    def _overdue(self, error: TimeoutError, timeout: float | None) -> TimeoutError:
        if self.done():
            return error  # the outcome itself
        return TimeoutError(f"not confirmed within {timeout} s, and still tried: {self._awaited()}")
