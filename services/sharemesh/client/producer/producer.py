"""Producer: batched, idempotent production for threads; the network runs in the background."""

import threading
from collections import deque
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from typing import Any, Self

from opentelemetry.context import get_current

from sharemesh.client.background_loop import BackgroundLoop
from sharemesh.client.config import check_timeout_ms
from sharemesh.client.environment import ClientEnvironment
from sharemesh.client.errors import BufferExhaustedError, IllegalStateError
from sharemesh.client.producer.async_producer import DEFAULT_CLOSE_TIMEOUT_MS, ProducerBase
from sharemesh.client.producer.delivery import (
    RECORD_OVERHEAD_BYTES,
    RUN_RECORDS_MAX,
    Forgotten,
    OutgoingRecord,
    ProduceCallback,
    RecordMetadata,
    Reports,
    SentRecords,
    SentRun,
    fail_contents,
    light_future,
)
from sharemesh.client.producer.engine import ProducerEngine, not_in_time
from sharemesh.client.producer.left_unsent import warn_at_exit
from sharemesh.client.producer.serializer import HeadersLike, check_topic


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
        self._reports = Reports(self._awaited, self._forgotten, self._loop.check_may_wait)
        self._handed: deque[SentRun] = deque()  # the last one may be appended to
        self._run: SentRun | None = None  # the last one; None: the next record begins a run
        self._is_stirred = False
        self._takes_bytes = self._serializing.takes_bytes
        self._value_bytes_max = self._serializing.value_bytes_max
        self._wall_ms = self._environment.clock.wall_ms
        self._senders = threading.Lock()  # nobody waits for anything who has it
        self._open_bytes = self._limit_bytes  # -1 while somebody waits for room: others line up
        self._turn = threading.Lock()  # of those who wait for room
        self._room = threading.Event()
        self._failing = threading.Lock()
        self._over: Exception | None = None  # set when nobody takes records over any more
        warn_at_exit(self, self._unsettled_bytes)

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
        What it sends itself is refused, with ``BufferExhaustedError``, while there is no room.
        """
        if self._closed:
            self._check_open()
        future = light_future()
        if (
            key is None
            and partition is None
            and callback is None
            and not headers
            and timestamp_ms is None
            and type(value) is bytes
            and self._takes_bytes
            and len(value) <= self._value_bytes_max
            and not get_current()  # no span whose context is to go along
        ):
            content: Any = value
            common_ms = self._wall_ms()
            size_bytes = RECORD_OVERHEAD_BYTES + len(value)
        else:
            future.has_callback = callback is not None
            key, value, headers, timestamp_ms, size_bytes = self._content(
                topic, value, key, partition, headers, timestamp_ms
            )
            content = OutgoingRecord(
                topic, partition, key, value, headers, timestamp_ms, size_bytes, callback
            )
            common_ms = None
            future.timestamp_ms = timestamp_ms
        while True:
            with self._senders:
                # As ``_fits``, without the call; that one alone has room is looked at there.
                if (
                    self._queued_bytes - self._settled_bytes + size_bytes <= self._open_bytes
                    or not size_bytes
                ):
                    run = self._run
                    if (
                        run is None
                        or run.timestamp_ms != common_ms
                        or run.topic != topic
                        or not self._is_stirred
                        or len(run.contents) >= RUN_RECORDS_MAX
                    ):
                        run = self._begin_run(topic, common_ms)
                    future.run, future.index = run, len(run.contents)
                    run.contents.append(content)
                    self._queued_bytes += size_bytes
                    break
            check_topic(topic)
            self._wait_for_room(size_bytes)
            size_bytes = 0  # they are counted
        if not self._is_stirred:
            self._is_stirred = True  # the engine looks each second too: an interrupt may come now
            try:
                self._loop.soon(self._take_in)
            except IllegalStateError:
                self._closed = True  # nobody would ever take anything over
                raise
        if self._over is not None:  # closed meanwhile
            self._fail_handed(self._over)
        return future

    def _begin_run(self, topic: str, timestamp_ms: int | None) -> SentRun:
        """Begin a run behind the others; under ``_senders``."""
        check_topic(topic)
        run = SentRun(topic, timestamp_ms, self._reports)
        self._run = None  # an interrupt may come now: a run is appended to only while it is last
        self._handed.append(run)
        self._run = run
        return run

    def flush(self, timeout_ms: int | None = None) -> None:
        """Return when everything sent so far is confirmed or has failed.

        Raises:
            TimeoutError: It took longer than ``timeout_ms``.
        """
        if timeout_ms is not None:
            check_timeout_ms(timeout_ms)
        try:
            self._loop.run(self._flush(), timeout_ms=timeout_ms)
        except TimeoutError:
            why = "nothing is sent yet" if self._engine is None else self._engine.awaited_of_all()
            raise TimeoutError(
                f"not everything is confirmed within {timeout_ms} ms, and still tried: {why}"
            ) from None

    def partitions_for(self, topic: str) -> int:
        """Return the number of partitions of a topic."""
        return self._loop.run(self._partitions_for(topic))

    def close(self, timeout_ms: int = DEFAULT_CLOSE_TIMEOUT_MS) -> None:
        """Flush for at most ``timeout_ms``; what is left fails. Repeating it is fine."""
        check_timeout_ms(timeout_ms)
        if self._closed:
            return
        self._loop.check_may_wait()
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

    def _hand_over(self) -> Iterator[SentRecords]:
        """Yield what was sent since; on the loop's thread, while senders go on.

        No sender is waited for: a signal handler on its thread may wait for this one.
        """
        self._is_stirred = False
        while self._handed:
            run = self._handed[0]
            is_over = len(self._handed) > 1  # looked at before: nothing is appended any more
            found = run.take()
            if found is not None:
                yield found
            elif not is_over:
                break
            if is_over:
                self._handed.popleft()
        if self._handed and self._senders.acquire(blocking=False):
            try:  # end the last run, or it would be kept, and with it what became of its records
                if self._handed[0].is_taken:
                    self._run = None
                    self._handed.popleft()
            finally:
                self._senders.release()

    def _fail_handed(self, error: Exception) -> None:
        """Fail what no loop will take over; the last run stays for senders that are about to."""
        with self._failing:
            while self._handed:
                run = self._handed[0]
                is_over = len(self._handed) > 1
                found = run.take()
                if found is not None:
                    fail_contents(run, found.contents, error, self._reports)
                if not is_over:
                    break
                self._handed.popleft()

    def _on_settled(self, size_bytes: int) -> None:
        super()._on_settled(size_bytes)
        if self._open_bytes < 0:
            self._room.set()

    def _wait_for_room(self, size_bytes: int) -> None:
        """Wait, in turn, until ``size_bytes`` fit, and count them."""
        if self._loop.is_own_thread:
            if self._claims(size_bytes):
                return
            raise self._full_for_callback()
        deadline_ms = self._environment.clock.now_ms() + self._block_ms
        if not self._turn.acquire(timeout=self._block_ms / 1_000):
            raise self._full()
        try:
            self._open_bytes = -1
            while not self._claims(size_bytes):
                self._room.clear()
                if self._claims(size_bytes):  # it was set before it was cleared
                    return
                left_ms = deadline_ms - self._environment.clock.now_ms()
                if left_ms <= 0 or not self._room.wait(left_ms / 1_000):
                    raise self._full()
        finally:
            self._open_bytes = self._limit_bytes
            self._turn.release()

    def _claims(self, size_bytes: int) -> bool:
        """Count bytes if they fit now; return whether they do."""
        with self._senders:
            is_room = self._fits(size_bytes)
            if is_room:
                self._queued_bytes += size_bytes
            return is_room

    def _full_for_callback(self) -> BufferExhaustedError:
        return BufferExhaustedError(
            f"buffer.memory = {self._limit_bytes} bytes is full, and a callback cannot wait on the "
            "thread that makes room: send it from another thread"
        )

    def _unsettled_bytes(self) -> int:
        """Return the size of records whose outcome is not known; 0 once it is closed."""
        return 0 if self._closed else self._queued_bytes - self._settled_bytes

    async def _flush(self) -> None:
        await self._started().flush()

    async def _partitions_for(self, topic: str) -> int:
        return await self._started().partitions_for(topic, timeout_ms=self._block_ms)

    async def _close(self, timeout_ms: int) -> None:
        await self._started().close(timeout_ms=timeout_ms)
