"""What became of records: one outcome for each batch, and light futures that share it."""

import copy
import logging
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from sharemesh.client.records import Headers
from sharemesh.client.repeated_warnings import RepeatedWarnings
from sharemesh.ports.clock import Clock

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RecordMetadata:
    """Where a confirmed record is: on disk at this offset; -1 if only that is not known."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int


ProduceCallback = Callable[[RecordMetadata | None, Exception | None], object]

_WHOLE = threading.Lock()
"""Held while a future becomes whole, and while an outcome becomes known: never for a record."""


class OutgoingRecord:
    """One record to be sent; ``size_bytes`` is what it counts against buffer.memory."""

    __slots__ = (
        "callback",
        "future",
        "headers",
        "key",
        "partition",
        "size_bytes",
        "timestamp_ms",
        "topic",
        "value",
    )

    def __init__(
        self,
        topic: str,
        partition: int | None,
        key: bytes | None,
        value: bytes | None,
        headers: Headers,
        timestamp_ms: int,
        size_bytes: int,
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.key = key
        self.value = value
        self.headers = headers
        self.timestamp_ms = timestamp_ms
        self.size_bytes = size_bytes
        self.future: ProduceFuture | None = None
        self.callback: ProduceCallback | None = None


@dataclass(frozen=True, slots=True)
class Reports:
    """What is said of records: what they wait for, from any thread; and failures nobody read."""

    awaited: Callable[[str, int | None], str]
    forgotten: "Forgotten | None" = None


class BatchOutcome:
    """What becomes of the records of one batch, or of one record that has no batch yet.

    Attributes:
        partition: None while it is not known.
        futures: Those of the records, while nothing is known.
        callbacks: Position in the batch, timestamp and callback of records that have one.
    """

    __slots__ = (
        "base_offset",
        "callbacks",
        "error",
        "futures",
        "is_known",
        "partition",
        "reports",
        "topic",
    )

    def __init__(self, topic: str, partition: int | None, reports: Reports) -> None:
        self.topic = topic
        self.partition = partition
        self.reports = reports
        self.base_offset = -1
        self.error: Exception | None = None
        self.is_known = False
        self.futures: list[ProduceFuture] = []
        self.callbacks: list[tuple[int, int, ProduceCallback]] = []

    def add(self, record: OutgoingRecord, position: int) -> None:
        """Let a record have this outcome, instead of the one that it had."""
        future = record.future
        if future is not None:
            future.position = position
            future.outcome = self
            self.futures.append(future)
        if record.callback is not None:
            self.callbacks.append((position, record.timestamp_ms, record.callback))

    def confirm(self, base_offset: int) -> None:
        """Complete each record with its offset; -1: it is not known."""
        self.base_offset = base_offset
        self._tell()

    def fail(self, error: Exception) -> None:
        """Fail each record with the reason."""
        self.error = error
        self._tell()

    def metadata(self, position: int, timestamp_ms: int) -> RecordMetadata:
        """Return where the confirmed record at this position of the batch is."""
        offset = self.base_offset + position if self.base_offset >= 0 else -1
        partition = -1 if self.partition is None else self.partition
        return RecordMetadata(self.topic, partition, offset, timestamp_ms)

    def _tell(self) -> None:
        with _WHOLE:
            self.is_known = True
            futures, self.futures = self.futures, []
            whole = [future for future in futures if future.is_whole]
        for future in whole:
            future.settle()
        forgotten = self.reports.forgotten
        if self.error is not None and forgotten is not None:
            for future in futures:
                future.note_failure(Unread(forgotten, self.topic, self.error))
        callbacks, self.callbacks = self.callbacks, []
        for position, timestamp_ms, callback in callbacks:
            metadata = None if self.error is not None else self.metadata(position, timestamp_ms)
            try:
                callback(metadata, self.error)
            except Exception:
                _log.exception("the callback of a produced record failed")


class ProduceFuture(Future[RecordMetadata]):
    """A future whose time-out says what the record waits for, and whose failure is not lost.

    It is light: what ``Future`` needs (a lock, a condition) is made only for who waits before
    the outcome is known.

    Attributes:
        is_observed: Whether somebody reads the outcome; a failure that nobody reads is logged.
        outcome: What becomes of the batch; the place in it is ``position``.
    """

    is_observed = False
    _unread: "Unread | None" = None

    def __init__(self, timestamp_ms: int, outcome: BatchOutcome) -> None:
        """``outcome`` is one that is never known, until the record is in a batch."""
        # Not Future's: __getattr__ does that when it is needed.
        self.timestamp_ms = timestamp_ms
        self.outcome = outcome
        self.position = 0

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - as object's
        """Make the future whole when something asks for what only a whole one has."""
        if name not in _OF_A_WHOLE_FUTURE or "outcome" not in self.__dict__:
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
        self._become_whole()
        return self.__dict__[name]

    @property
    def is_whole(self) -> bool:
        """Whether somebody may be waiting for it."""
        return "_done_callbacks" in self.__dict__

    def _become_whole(self) -> None:
        with _WHOLE:
            if self.is_whole:
                return
            super().__init__()
            self._state = "RUNNING"  # a queued record cannot be called back
            known = self.outcome.is_known
        if known:
            self.settle()

    def settle(self) -> None:
        """Pass the outcome on to those who wait."""
        error = self.outcome.error
        if error is not None:
            # Of its own: each raise makes a traceback longer, and a batch has many futures.
            self.set_exception(copy.copy(error).with_traceback(None))
        else:
            self.set_result(self.outcome.metadata(self.position, self.timestamp_ms))

    def note_failure(self, unread: "Unread") -> None:
        """Keep what logs the failure when the future is dropped, unless somebody reads it."""
        self._unread = unread
        if self.is_observed:  # looked at after it is kept: an observer may come in between
            self._observe()

    def _observe(self) -> None:
        self.is_observed = True
        if self._unread is not None:
            self._unread.is_read = True
            self._unread = None

    def done(self) -> bool:
        """Return whether the record is confirmed or has failed."""
        return self.outcome.is_known

    def add_done_callback(self, fn: Callable[[Future[RecordMetadata]], object]) -> None:
        """Call ``fn`` with this future once the record is confirmed or has failed."""
        self._observe()
        super().add_done_callback(fn)

    def result(self, timeout: float | None = None) -> RecordMetadata:
        """Return where the record is; ``timeout`` is in seconds.

        Raises:
            TimeoutError: It is not confirmed yet; it may still be.
        """
        self._observe()
        outcome = self.outcome
        if outcome.is_known and outcome.error is None:
            return outcome.metadata(self.position, self.timestamp_ms)
        try:
            return super().result(timeout)
        except TimeoutError as error:
            raise self._overdue(error, timeout) from None

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Return why the record was not confirmed, None if it was; ``timeout`` is in seconds.

        Raises:
            TimeoutError: Neither is known yet.
        """
        self._observe()
        if self.outcome.is_known:
            return super().exception(0)
        try:
            return super().exception(timeout)
        except TimeoutError as error:
            raise self._overdue(error, timeout) from None

    def _overdue(self, error: TimeoutError, timeout: float | None) -> TimeoutError:
        outcome = self.outcome
        if outcome.is_known:
            return error  # the outcome itself
        why = outcome.reports.awaited(outcome.topic, outcome.partition)
        return TimeoutError(f"not confirmed within {timeout} s, and still tried: {why}")


_OF_A_WHOLE_FUTURE = frozenset(vars(Future()))


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


class Unread:
    """A failure that is logged when the future that holds it is dropped before it was read."""

    __slots__ = ("_error", "_forgotten", "_topic", "is_read")

    def __init__(self, forgotten: Forgotten, topic: str, error: Exception) -> None:
        self._forgotten = forgotten
        self._topic = topic
        self._error = error
        self.is_read = False

    def __del__(self) -> None:
        """Log it, unless it was read."""
        if not self.is_read:
            self._forgotten.note(self._topic, self._error)
