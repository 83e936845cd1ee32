"""AsyncShareConsumer: a share consumer for asyncio (spec CL); one task uses it at a time."""

import asyncio
import threading
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, Self, TypeVar

from sharemesh.client.admin_results import TopicPartition
from sharemesh.client.consumer.application_state import CommitCallback, CommitResult
from sharemesh.client.consumer.calls import DEFAULT_CLOSE_TIMEOUT_MS, ConsumerCalls, drive
from sharemesh.client.consumer.handler_calls import check_handler
from sharemesh.client.consumer.handler_failures import RunOptions
from sharemesh.client.consumer.handler_runner import HandlerRunner
from sharemesh.client.consumer.stop_signal import stopped_by_sigterm
from sharemesh.client.environment import ClientEnvironment
from sharemesh.client.errors import ConcurrentModificationError
from sharemesh.client.record_columns import RecordColumns
from sharemesh.client.records import ConsumerRecord
from sharemesh.domain.delivery_state import AcknowledgeType

T = TypeVar("T")


class ConsumerBase:
    """What the consumers for asyncio and for threads share: calls that send nothing."""

    def __init__(
        self, config: Mapping[str, Any], *, environment: ClientEnvironment | None = None
    ) -> None:
        self._calls = ConsumerCalls(config, environment)
        self._runner: HandlerRunner | None = None
        self._stop_wanted = False  # by who called ``stop``, until a run has ended (CL-46)
        self._owner = threading.Lock()

    @property
    def member_id(self) -> str:
        """The member id, made at construction (spec CL-28)."""
        return self._calls.member_id

    def subscription(self) -> frozenset[str]:
        """Return the subscribed topic names."""
        return self._calls.state.subscription

    def acknowledge(
        self,
        record: ConsumerRecord,
        kind: AcknowledgeType = AcknowledgeType.ACCEPT,
        *,
        delay: float | timedelta | None = None,
        counted: bool = True,
    ) -> None:
        """Say what became of a record of the last poll; sent by the next poll or commit (CL-11).

        Args:
            record: One that the last poll returned.
            kind: What became of it.
            delay: Of a RELEASE: seconds, or a duration up to a day, before the record is
                delivered again; 0: at once. None: as the group's share.retry settings say.
            counted: False for a RELEASE of a record that was never worked on: the delivery does
                not count against share.delivery.count.limit.

        Raises:
            IllegalArgumentError: The delay is negative or above a day; or not a RELEASE.
            IllegalStateError: Implicit mode, or the record is not in flight.
            UnsupportedVersionError: RENEW, and the cluster does not know it.
        """
        with self._alone():
            self._calls.acknowledge(record, kind, delay, counted=counted)

    def acknowledge_batch(
        self,
        columns: RecordColumns,
        kind: AcknowledgeType = AcknowledgeType.ACCEPT,
        *,
        offsets: Iterable[int] | None = None,
    ) -> None:
        """Say what became of records of the last ``poll_batches``: all, or these offsets (CL-31).

        Raises:
            IllegalStateError: Implicit mode, or one is not in flight; nothing is decided then.
            IllegalArgumentError: RENEW, which columns do not have (spec CL-33).
        """
        with self._alone():
            self._calls.acknowledge_batch(columns, kind, offsets)

    def acknowledge_offset(
        self, topic: str, partition: int, offset: int, kind: AcknowledgeType
    ) -> None:
        """Override what is done with a record that made poll raise (spec CL-12).

        Raises:
            IllegalStateError: Implicit mode, or that offset did not make the last poll raise.
        """
        with self._alone():
            self._calls.acknowledge_offset(topic, partition, offset, kind)

    def set_acknowledgement_commit_callback(self, callback: CommitCallback | None) -> None:
        """Register ``callback(offsets by partition, error or None)``; None unregisters (CL-17)."""
        with self._alone():
            self._calls.set_callback(callback)

    def acquisition_lock_timeout_ms(self) -> int | None:
        """Return the lock duration of the last returned records; None before (spec CL-26)."""
        return self._calls.state.lock_timeout_ms

    def client_instance_id(self) -> str:
        """Return a unique id of this client instance."""
        return self._calls.instance_id

    def assignment(self) -> frozenset[TopicPartition]:
        """Return the partitions that this member has now."""
        return self._on_loop(self._calls.assignment)

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Get nothing of these partitions until they are resumed, or assigned away (spec PAU-6).

        Other members get their records; what waits here goes back to the group, uncounted. What the
        application holds it acknowledges as ever. Handlers of ``run`` may call it.

        Raises:
            IllegalStateError: One is not assigned to this consumer; nothing is paused then.
        """
        wanted = tuple(partitions)
        self._on_loop(lambda: self._calls.pause(wanted))

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        """Get records of these partitions again.

        Raises:
            IllegalStateError: One is not assigned to this consumer; nothing is resumed then.
        """
        wanted = tuple(partitions)
        self._on_loop(lambda: self._calls.resume(wanted))

    def paused(self) -> frozenset[TopicPartition]:
        """Return the partitions that are paused."""
        return self._on_loop(self._calls.paused)

    def _on_loop(self, call: Callable[[], T]) -> T:
        """Return what a call says that must run on the event loop's thread, as this one is."""
        return call()

    def metrics(self) -> Mapping[str, int]:
        """Return counters with the names of spec MET-7; latencies in milliseconds."""
        return self._calls.metrics()

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Only one thread or task at a time (spec CL-1, CL-17)."""
        self._calls.state.check_not_in_callback()
        if not self._owner.acquire(blocking=False):
            raise ConcurrentModificationError(
                "another thread or task uses this consumer; only wakeup and stop may be called"
            )
        try:
            yield
        finally:
            self._owner.release()


class AsyncShareConsumer(ConsumerBase):
    """Consumes topics as a member of a share group.

    Args:
        config: Kafka's names; ``group.id`` and ``bootstrap.servers`` are needed.
        environment: The ports; none: real connections, see ``connect``.

    Raises:
        ConfigError: A name or value is not allowed (spec CL-3).
        InvalidGroupIdError: ``group.id`` is missing or blank.

    All times are milliseconds.
    """

    async def subscribe(self, topics: Sequence[str]) -> None:
        """Replace the subscription; an empty one unsubscribes (spec CL-4).

        Raises:
            IllegalArgumentError: ``topics`` is None or holds a blank name.
        """
        with self._alone():
            await drive(self._calls.subscribe(topics))

    async def unsubscribe(self) -> None:
        """Leave the group; what was acknowledged is sent first (spec CL-5)."""
        with self._alone():
            await drive(self._calls.unsubscribe())

    async def poll(self, timeout_ms: int = 1_000) -> list[ConsumerRecord]:
        """Return records as soon as there are some; empty after ``timeout_ms`` (spec CL-6..10).

        Raises:
            IllegalStateError: Not subscribed, closed, or unacknowledged records in explicit mode.
            WakeupError: ``wakeup`` was called.
            RecordDeserializationError: See spec CL-13.
            CorruptRecordError: See spec CL-13.
            ServiceError: The membership ended, or a partition cannot be read.
        """
        with self._alone():
            return await drive(self._calls.poll(timeout_ms))

    async def poll_batches(self, timeout_ms: int = 1_000) -> list[RecordColumns]:
        """Return records in bulk, as columns of one partition each (spec CL-31..33).

        As ``poll``, in the errors too, but what is not looked at is not decoded, and
        deserializers are not applied.

        Raises:
            IllegalStateError: As ``poll``, or records of ``poll`` were renewed.
        """
        with self._alone():
            return await drive(self._calls.poll_batches(timeout_ms))

    async def __aiter__(self) -> AsyncIterator[ConsumerRecord]:
        """Yield records without end, polling as needed."""
        while True:
            for record in await self.poll():
                yield record

    async def commit_sync(self, timeout_ms: int | None = None) -> CommitResult:
        """Send acknowledgements and wait; per partition None or why it failed (spec CL-15).

        None: ``default.api.timeout.ms``. Never takes more than 100 ms longer.

        Raises:
            WakeupError: ``wakeup`` was called.
        """
        with self._alone():
            return await drive(self._calls.commit_sync(timeout_ms))

    async def commit_async(self) -> None:
        """Send acknowledgements without waiting; the callback gets the results (spec CL-16)."""
        with self._alone():
            await drive(self._calls.commit_async())

    def wakeup(self) -> None:
        """Let the poll or commit_sync that waits, or the next one, raise ``WakeupError`` once."""
        self._calls.wakeup()

    async def close(self, timeout_ms: int = DEFAULT_CLOSE_TIMEOUT_MS) -> None:
        """Send explicit acknowledgements, release the rest, leave the group (spec CL-18).

        Never takes more than ``timeout_ms`` by more than 100 ms. Repeating it is fine.

        Raises:
            IllegalArgumentError: ``timeout_ms`` is negative.
        """
        with self._alone():
            await drive(self._calls.close(timeout_ms))

    async def run(
        self,
        handler: Callable[[ConsumerRecord], Awaitable[AcknowledgeType | None]],
        *,
        concurrency: int = 1,
        options: RunOptions | None = None,
    ) -> None:
        """Hand each record to ``handler``, up to ``concurrency`` at a time, until ``stop``.

        The record is accepted when the handler returns None, acknowledged as it says when it
        returns a type, and released when it raises. Each acknowledgement is sent at once and is
        held back by no other record. Locks are renewed while handlers run. When stopped, records
        that were not started are released uncounted and running handlers are waited for. SIGTERM
        stops too, unless the program handles it (spec CL-46).

        Raises:
            IllegalStateError: Not subscribed.
            ServiceError: The membership ended.
        """
        with self._alone():
            check_handler(handler)
            self._runner = runner = HandlerRunner(self._calls, handler, concurrency, options)
            loop = asyncio.get_running_loop()
            if self._stop_wanted:
                runner.stop()
            try:
                with stopped_by_sigterm(lambda: loop.call_soon_threadsafe(runner.stop)):
                    await runner.run()
            finally:
                self._runner = None
                self._stop_wanted = False

    def stop(self) -> None:
        """Let ``run``, or the next one, return after the handlers that run now (spec CL-46)."""
        self._stop_wanted = True
        if self._runner is not None:
            self._runner.stop()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
