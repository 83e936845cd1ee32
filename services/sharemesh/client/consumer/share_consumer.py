"""ShareConsumer: Kafka's share consumer for threads; the network runs in the background."""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Self, TypeVar

from sharemesh.client.background_loop import BackgroundLoop
from sharemesh.client.consumer.application_state import CommitResult
from sharemesh.client.consumer.async_share_consumer import ConsumerBase
from sharemesh.client.consumer.calls import DEFAULT_CLOSE_TIMEOUT_MS, ConsumerCalls, drive_on
from sharemesh.client.consumer.daemon_threads import DaemonThreads
from sharemesh.client.consumer.handler_calls import (
    check_concurrency,
    check_handler,
    raised_by_handler,
)
from sharemesh.client.consumer.handler_failures import RunOptions
from sharemesh.client.consumer.handler_runner import HandlerRunner
from sharemesh.client.consumer.stop_signal import stopped_by_sigterm
from sharemesh.client.environment import ClientEnvironment
from sharemesh.client.record_columns import RecordColumns
from sharemesh.client.records import ConsumerRecord
from sharemesh.domain.delivery_state import AcknowledgeType

T = TypeVar("T")


class ThreadHandlers:
    """A handler on up to ``concurrency`` threads.

    Whoever leaves the context has waited for them as long as it wants: one that hangs is left.
    """

    def __init__(
        self, handler: Callable[[ConsumerRecord], AcknowledgeType | None], concurrency: int
    ) -> None:
        check_handler(handler)
        check_concurrency(concurrency)
        self._handler = handler
        self._pool = DaemonThreads(concurrency, "sharemesh-handler")

    async def handle(self, record: ConsumerRecord) -> AcknowledgeType | None:
        """Return what the handler says."""
        return await asyncio.wrap_future(self._pool.submit(self._called, record))

    def _called(self, record: ConsumerRecord) -> AcknowledgeType | None:
        """Call the handler; whatever it raises is a failure of this record and of nothing else.

        An exit or a cancellation would end the loop of the consumer or the task behind the
        handler, and of a StopIteration no future would ever hear.
        """
        try:
            return self._handler(record)
        except BaseException as error:
            if isinstance(error, Exception) and not isinstance(error, StopIteration):
                raise
            raise raised_by_handler(error) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.close()


class ShareConsumer(ConsumerBase):
    """Consumes topics as a member of a share group, from one thread at a time (spec CL-1).

    Only ``wakeup`` and ``stop`` may be called from another thread. Deserializers and the
    acknowledgement commit callback run on the thread that calls the consumer; those of ``run``, and
    ``on_failure``, on the one that renews locks: there they must be quick, and cannot call the
    consumer. Arguments, times and errors are those of ``AsyncShareConsumer``.
    """

    def __init__(
        self, config: Mapping[str, Any], *, environment: ClientEnvironment | None = None
    ) -> None:
        super().__init__(config, environment=environment)
        self._loop: BackgroundLoop | None = None

    def subscribe(self, topics: Sequence[str]) -> None:
        """Replace the subscription; an empty one unsubscribes (spec CL-4)."""
        with self._alone():
            drive_on(self._background(), self._calls.subscribe(topics))

    def unsubscribe(self) -> None:
        """Leave the group; what was acknowledged is sent first (spec CL-5)."""
        with self._alone():
            drive_on(self._background(), self._calls.unsubscribe())

    def poll(self, timeout_ms: int = 1_000) -> list[ConsumerRecord]:
        """Return records as soon as there are some; empty after ``timeout_ms`` (spec CL-6..10)."""
        with self._alone():
            return drive_on(self._background(), self._calls.poll(timeout_ms))

    def poll_batches(self, timeout_ms: int = 1_000) -> list[RecordColumns]:
        """Return records in bulk, as columns of one partition each (spec CL-31..33)."""
        with self._alone():
            return drive_on(self._background(), self._calls.poll_batches(timeout_ms))

    def __iter__(self) -> Iterator[ConsumerRecord]:
        """Yield records without end, polling as needed."""
        while True:
            yield from self.poll()

    def commit_sync(self, timeout_ms: int | None = None) -> CommitResult:
        """Send acknowledgements and wait; per partition None or why it failed (spec CL-15)."""
        with self._alone():
            return drive_on(self._background(), self._calls.commit_sync(timeout_ms))

    def commit_async(self) -> None:
        """Send acknowledgements without waiting; the callback gets the results (spec CL-16)."""
        with self._alone():
            drive_on(self._background(), self._calls.commit_async())

    def wakeup(self) -> None:
        """Let the poll or commit_sync that waits, or the next one, raise ``WakeupError`` once."""
        if self._loop is None:
            self._calls.wakeup()
        else:
            self._loop.soon(self._calls.wakeup)

    def run(
        self,
        handler: Callable[[ConsumerRecord], AcknowledgeType | None],
        *,
        concurrency: int = 1,
        options: RunOptions | None = None,
    ) -> None:
        """Hand each record to ``handler`` on one of ``concurrency`` threads, until ``stop``.

        See ``AsyncShareConsumer.run``. Ctrl-C and SIGTERM stop too: what was not started is
        released uncounted, what runs is finished.
        """
        with self._alone(), self._until_stopped(), ThreadHandlers(handler, concurrency) as threads:
            self._runner = HandlerRunner(
                self._calls, threads.handle, concurrency, options, cancels=False
            )
            loop = self._background()
            if self._stop_wanted:
                loop.soon(self._runner.stop)
            try:
                with stopped_by_sigterm(self.stop):
                    loop.run_until_stopped(self._runner.run(), self._runner.stop)
            finally:
                self._runner = None

    @contextmanager
    def _until_stopped(self) -> Iterator[None]:
        """Forget at the end of a run that it was to stop, also what its last handlers said."""
        try:
            yield
        finally:
            self._stop_wanted = False

    def stop(self) -> None:
        """Let ``run``, or the next one, return after the handlers that run now; from any thread."""
        self._stop_wanted = True
        runner, loop = self._runner, self._loop
        if runner is not None and loop is not None:
            loop.soon(runner.stop)

    def close(self, timeout_ms: int = DEFAULT_CLOSE_TIMEOUT_MS) -> None:
        """Send explicit acknowledgements, release the rest, leave the group (spec CL-18)."""
        with self._alone():
            if self._loop is None:
                drive_without_loop(self._calls, timeout_ms)
                return
            try:
                drive_on(self._loop, self._calls.close(timeout_ms))
            finally:
                if self._calls.closed:
                    self._loop.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _on_loop(self, call: Callable[[], T]) -> T:
        loop = self._loop
        if loop is None or not loop.is_open:
            return call()

        async def called() -> T:
            return call()

        return loop.run(called())

    def _background(self) -> BackgroundLoop:
        if self._loop is None:
            self._loop = BackgroundLoop("sharemesh-consumer")
        return self._loop


def drive_without_loop(calls: ConsumerCalls, timeout_ms: int) -> None:
    """Close a consumer that never used the network."""
    for work in calls.close(timeout_ms):
        work.close()
