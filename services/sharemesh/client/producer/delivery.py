"""What became of records: one outcome for each batch, and light futures that share it."""

import copy
import logging
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, NamedTuple

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


class OutgoingRecord(NamedTuple):
    """One record to be sent; ``size_bytes`` is what it counts against buffer.memory.

    Without ``future`` and ``callback`` nobody is told what became of it.
    """

    topic: str
    partition: int | None
    key: bytes | None
    value: bytes | None
    headers: Headers
    timestamp_ms: int
    size_bytes: int
    future: "ProduceFuture | None"
    callback: ProduceCallback | None


OutgoingFields = tuple[Any, ...]
"""The fields of an ``OutgoingRecord`` in order, made in a third of the time of the class."""


@dataclass(frozen=True, slots=True)
class Reports:
    """What is said of records: what they wait for, from any thread; and failures nobody read."""

    awaited: Callable[[str, int | None], str]
    forgotten: "Forgotten | None" = None


class BatchOutcome:
    """What becomes of the records of one batch, or of one record that has no batch yet.

    Futures know their outcome and not the other way round, but for those that somebody waits for:
    one that nobody keeps is gone as soon as its record is in a batch.

    Attributes:
        partition: None while it is not known.
        waiting: The whole futures of the records, while nothing is known.
        callbacks: Position in the batch, timestamp and callback of records that have one.
    """

    __slots__ = (
        "_unread",
        "_untold",
        "base_offset",
        "callbacks",
        "error",
        "is_known",
        "partition",
        "reports",
        "topic",
        "waiting",
    )

    def __init__(self, topic: str, partition: int | None, reports: Reports) -> None:
        self.topic = topic
        self.partition = partition
        self.reports = reports
        self.base_offset = -1
        self.error: Exception | None = None
        self.is_known = False
        self.waiting: dict[ProduceFuture, None] = {}
        self.callbacks: list[tuple[int, int, ProduceCallback]] = []
        self._untold = 0  # futures of records without a callback
        self._unread: Unread | None = None

    def add(self, record: OutgoingRecord, position: int) -> None:
        """Let a record have this outcome, instead of the one that it had."""
        self.put(record.future, record.callback, record.timestamp_ms, position)

    def put(
        self,
        future: "ProduceFuture | None",
        callback: ProduceCallback | None,
        timestamp_ms: int,
        position: int,
    ) -> None:
        """As ``add``, of the fields that count."""
        if future is not None:
            future.timestamp_ms = timestamp_ms
            future.position = position
            before, future.outcome = future.outcome, self
            if future.is_whole:  # looked at last: who makes it whole after this finds ``self``
                with _WHOLE:
                    before.waiting.pop(future, None)
                    self.waiting[future] = None
        if callback is not None:
            self.callbacks.append((position, timestamp_ms, callback))
        elif future is not None:
            self._untold += 1

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

    def note_read(self) -> None:
        """Count one failure as read, if it is a failure; under ``_WHOLE``."""
        if self._unread is not None:
            self._unread.count -= 1

    def _tell(self) -> None:
        forgotten = self.reports.forgotten
        with _WHOLE:
            self.is_known = True
            waiting, self.waiting = self.waiting, {}
            if self.error is not None and forgotten is not None:
                read = sum(each.is_observed and not each.has_callback for each in waiting)
                self._unread = Unread(forgotten, self.topic, self.error, self._untold - read)
        for future in waiting:
            future.settle()
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
        has_callback: Whether a callback is told of the outcome.
        is_observed: Whether somebody reads the outcome; a failure that nobody reads is logged.
        is_whole: Whether somebody may be waiting for it.
        outcome: What becomes of the batch; the place in it is ``position``.
    """

    has_callback = False
    is_observed = False
    is_whole = False
    outcome: BatchOutcome
    position = 0
    timestamp_ms = 0

    def __init__(self) -> None:
        """Leave everything out: ``light_future`` does not even call it."""
        # Not Future's: __getattr__ does that when it is needed.

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - as object's
        """Make the future whole when something asks for what only a whole one has."""
        if name not in _OF_A_WHOLE_FUTURE or "outcome" not in self.__dict__:
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
        with _WHOLE:
            self._become_whole()
        self._settle_late()
        return self.__dict__[name]

    def _become_whole(self) -> None:
        """Get a lock and a condition, and be told of the outcome; under ``_WHOLE``."""
        if self.is_whole:
            return
        super().__init__()
        self._state = "RUNNING"  # a queued record cannot be called back
        self.is_whole = True  # before the outcome is looked at: see BatchOutcome.add
        if not self.outcome.is_known:
            self.outcome.waiting[self] = None
        else:
            self._is_late = True

    _is_late = False

    def _settle_late(self) -> None:
        """Settle it if it became whole when the outcome was known; not under ``_WHOLE``."""
        if self._is_late:
            with _WHOLE:
                late, self._is_late = self._is_late, False
            if late:
                self.settle()

    def settle(self) -> None:
        """Pass the outcome on to those who wait."""
        error = self.outcome.error
        if error is not None:
            # Of its own: each raise makes a traceback longer, and a batch has many futures.
            self.set_exception(copy.copy(error).with_traceback(None))
        else:
            self.set_result(self.outcome.metadata(self.position, self.timestamp_ms))

    def _observe(self) -> None:
        """Note that somebody reads the outcome; before it is known that is who waits for it."""
        with _WHOLE:
            if self.outcome.is_known:
                if not (self.is_observed or self.has_callback):
                    self.outcome.note_read()
            else:
                self._become_whole()
            self.is_observed = True

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
        outcome = self.outcome
        if outcome.is_known and outcome.error is None:
            return outcome.metadata(self.position, self.timestamp_ms)
        self._observe()
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

_bare = object.__new__


def light_future(outcome: BatchOutcome) -> ProduceFuture:
    """Return a future without what ``Future`` needs, in a third of a constructor's time.

    ``outcome`` is one that is never known, until the record is in a batch.
    """
    future = _bare(ProduceFuture)
    future.outcome = outcome
    return future


class Forgotten:
    """Logs records that were not confirmed and whose results nobody read."""

    def __init__(self, clock: Clock) -> None:
        self._warnings = RepeatedWarnings(clock)
        self._unlogged: Counter[str] = Counter()

    def note(self, topic: str, error: BaseException, count: int) -> None:
        """Count records; the same topic is logged at growing intervals."""
        self._unlogged[topic] += count
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
    """Failures that are logged when their outcome is dropped, unless they were read before.

    An outcome lives as long as one of its futures is kept.
    """

    __slots__ = ("_error", "_forgotten", "_topic", "count")

    def __init__(self, forgotten: Forgotten, topic: str, error: Exception, count: int) -> None:
        self._forgotten = forgotten
        self._topic = topic
        self._error = error
        self.count = count

    def __del__(self) -> None:
        """Log those that were not read."""
        if self.count > 0:
            self._forgotten.note(self._topic, self._error, self.count)
