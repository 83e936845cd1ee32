"""What became of records: one outcome for each batch, and light futures that share it."""

import asyncio
import contextlib
import copy
import logging
import threading
from bisect import bisect_right
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

RECORD_OVERHEAD_BYTES = 32
"""Counted against buffer.memory for each record besides its key, value and headers."""

_WHOLE = threading.Lock()
"""Held while a future becomes whole, and while an outcome becomes known: never for a record."""


class OutgoingRecord(NamedTuple):
    """One record to be sent; ``size_bytes`` is what it counts against buffer.memory."""

    topic: str
    partition: int | None
    key: bytes | None
    value: bytes | None
    headers: Headers
    timestamp_ms: int
    size_bytes: int
    callback: ProduceCallback | None


@dataclass(frozen=True, slots=True)
class Reports:
    """What is said of records: what they wait for, from any thread; and failures nobody read.

    ``check_may_wait`` raises IllegalStateError for a thread on which an outcome would never come.
    """

    awaited: Callable[[str, int | None], str]
    forgotten: "Forgotten | None" = None
    check_may_wait: Callable[[], object] = bool


RUN_RECORDS_MAX = 500
"""A future that is kept keeps what is known of its run."""


class SentRun:
    """Records that were sent one after the other, and the outcomes that they got.

    Senders append to it, under their lock; the event loop takes what is new and says where it is.
    Futures know their run and their place in it, and neither knows them, but for those that
    somebody waits for: one that nobody keeps is gone at once, and a record that waits is no object
    of its own but its value.

    Attributes:
        topic: The topic of all.
        timestamp_ms: The timestamp of all, that have a value and nothing else; None: others.
        contents: The values, None once taken; or an ``OutgoingRecord`` for each other record,
            None once it has an outcome.
        waiting: Those whole futures whose outcome is not known.
    """

    __slots__ = (
        "_first",
        "_outcomes",
        "_placed",
        "_positions",
        "_taken",
        "contents",
        "reports",
        "timestamp_ms",
        "topic",
        "waiting",
    )

    def __init__(self, topic: str, timestamp_ms: int | None, reports: Reports) -> None:
        self.topic = topic
        self.timestamp_ms = timestamp_ms
        self.reports = reports
        self.contents: list[Any] = []
        self.waiting: dict[ProduceFuture, None] = {}
        self._taken = 0
        self._placed = 0
        self._first: list[int] = []  # of each row of records with one outcome
        self._outcomes: list[BatchOutcome] = []
        self._positions: list[int] = []

    def take(self) -> "SentRecords | None":
        """Return what was appended since the last time."""
        first, last = self._taken, len(self.contents)
        if first == last:
            return None
        contents = self.contents[first:last]
        self._taken = last
        if self.timestamp_ms is not None:  # they are kept no longer than needed
            self.contents[first:last] = [None] * len(contents)
        return SentRecords(self, first, contents)

    @property
    def is_taken(self) -> bool:
        """Whether all that was appended is taken."""
        return self._taken == len(self.contents)

    @property
    def placed(self) -> int:
        """How many records have an outcome, known or not."""
        return self._placed

    def place(self, count: int, outcome: "BatchOutcome", position: int) -> None:
        """Say where the next ``count`` records are: in this batch, from this position on."""
        first = self._placed
        if not (self._outcomes and self._outcomes[-1] is outcome) or (
            self._positions[-1] + first - self._first[-1] != position
        ):
            self._outcomes.append(outcome)
            self._positions.append(position)
            self._first.append(first)
            outcome.of_run(self)
        if self.timestamp_ms is None:
            self.contents[first : first + count] = [None] * count
        self._placed = first + count  # last: others look at it first

    def outcome_at(self, index: int) -> "tuple[BatchOutcome, int] | None":
        """Return the outcome of a record and its position there; None while it has none."""
        if index >= self._placed:
            return None
        row = bisect_right(self._first, index) - 1
        return self._outcomes[row], self._positions[row] + index - self._first[row]

    def awaited(self, index: int) -> str:
        """Return what a record waits for, in words; from any thread."""
        found = self.outcome_at(index)
        return self.reports.awaited(self.topic, None if found is None else found[0].partition)


class SentRecords(NamedTuple):
    """What was taken of a run at a time: ``contents`` from the place ``first`` on."""

    run: SentRun
    first: int
    contents: list[Any]


class BatchOutcome:
    """What becomes of the records of one batch, or of some that have no batch.

    Attributes:
        partition: None while it is not known.
        callbacks: Position in the batch, timestamp and callback of records that have one.
    """

    __slots__ = (
        "_runs",
        "_unread",
        "_untold",
        "base_offset",
        "callbacks",
        "error",
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
        self.callbacks: list[tuple[int, int, ProduceCallback]] = []
        self._runs: list[SentRun] = []  # until it is known
        self._untold = 0  # futures of records without a callback
        self._unread: Unread | None = None

    def of_run(self, run: SentRun) -> None:
        """Note that records of a run are in this batch."""
        if not self._runs or self._runs[-1] is not run:
            self._runs.append(run)

    def put(self, run: SentRun, count: int, position: int) -> None:
        """Let the next ``count`` records of a run have this outcome, from ``position`` on."""
        self._untold += count
        run.place(count, self, position)

    def add(self, record: OutgoingRecord, run: SentRun | None, position: int) -> None:
        """Let a record, the next one of a run if it has one, have this outcome."""
        if record.callback is not None:
            self.callbacks.append((position, record.timestamp_ms, record.callback))
        elif run is not None:
            self._untold += 1
        if run is not None:
            run.place(1, self, position)

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
            waiting = [
                future
                for run in self._runs
                for future in run.waiting
                if (found := run.outcome_at(future.index)) is not None and found[0] is self
            ]
            for future in waiting:
                del future.run.waiting[future]
            self._runs = []
            if self.error is not None and forgotten is not None:
                read = sum(each.is_observed and not each.has_callback for each in waiting)
                self._unread = Unread(forgotten, self.topic, self.error, self._untold - read)
        for future in waiting:
            _tell_application(future.settle)
        callbacks, self.callbacks = self.callbacks, []
        for position, timestamp_ms, callback in callbacks:
            metadata = None if self.error is not None else self.metadata(position, timestamp_ms)
            _tell_application(callback, metadata, self.error)


def _tell_application(call: Callable[..., object], *arguments: object) -> None:
    """Call what the application gave, and log whatever it raises.

    An exit would end only the thread of the network, and no other record would have an outcome.
    """
    try:
        call(*arguments)
    except (Exception, SystemExit, asyncio.CancelledError):
        _log.exception("the callback of a produced record failed")


def fail_contents(
    run: SentRun | None, contents: list[Any], error: Exception, reports: Reports
) -> tuple[int, int]:
    """Fail records of one topic that are in no batch, the next ones of their run.

    Return how many, and what they count against buffer.memory.
    """
    if run is not None and run.timestamp_ms is not None:
        outcome = BatchOutcome(run.topic, None, reports)
        outcome.put(run, len(contents), 0)
        outcome.fail(error)
        return len(contents), RECORD_OVERHEAD_BYTES * len(contents) + sum(map(len, contents))
    for record in contents:
        outcome = BatchOutcome(record.topic, record.partition, reports)
        outcome.add(record, run, 0)
        outcome.fail(error)
    return len(contents), sum(record.size_bytes for record in contents)


class ProduceFuture(Future[RecordMetadata]):
    """A future whose time-out says what the record waits for, and whose failure is not lost.

    It is light: what ``Future`` needs (a lock, a condition) is made only for who waits before
    the outcome is known.

    Attributes:
        has_callback: Whether a callback is told of the outcome.
        is_observed: Whether somebody reads the outcome; a failure that nobody reads is logged.
        is_whole: Whether somebody may be waiting for it.
        run: Knows what becomes of the record; the place in it is ``index``.
        timestamp_ms: Of the record, if it is not that of the run.
    """

    has_callback = False
    is_observed = False
    is_whole = False
    run: SentRun
    index: int
    timestamp_ms = -1

    def __init__(self) -> None:
        """Leave everything out: ``light_future`` does not even call it."""
        # Not Future's: __getattr__ does that when it is needed.

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - as object's
        """Make the future whole when something asks for what only a whole one has."""
        if name not in _OF_A_WHOLE_FUTURE or "run" not in self.__dict__:
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
        with _WHOLE:
            self._become_whole()
        self._settle_late()
        return self.__dict__[name]

    def _known(self) -> tuple[BatchOutcome, int] | None:
        """Return the outcome and the position in it; None while nothing is known."""
        found = self.run.outcome_at(self.index)
        return found if found is not None and found[0].is_known else None

    def _metadata(self, outcome: BatchOutcome, position: int) -> RecordMetadata:
        common_ms = self.run.timestamp_ms
        return outcome.metadata(position, self.timestamp_ms if common_ms is None else common_ms)

    def _become_whole(self) -> None:
        """Get a lock and a condition, and be told of the outcome; under ``_WHOLE``."""
        if self.is_whole:
            return
        super().__init__()
        self._state = "RUNNING"  # a queued record cannot be called back
        self.is_whole = True
        if self._known() is None:
            self.run.waiting[self] = None  # whoever tells the outcome looks there, under _WHOLE
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
        """Pass the outcome, which is known, on to those who wait."""
        found = self._known()
        assert found is not None
        outcome, position = found
        if outcome.error is not None:
            self.set_exception(_own(outcome.error))
        else:
            self.set_result(self._metadata(outcome, position))

    def _observe(self) -> None:
        """Note that somebody reads the outcome; before it is known that is who waits for it."""
        with _WHOLE:
            found = self._known()
            if found is None:
                self._become_whole()
            elif not (self.is_observed or self.has_callback):
                found[0].note_read()
            self.is_observed = True

    def done(self) -> bool:
        """Return whether the record is confirmed or has failed."""
        return self._known() is not None

    def add_done_callback(self, fn: Callable[[Future[RecordMetadata]], object]) -> None:
        """Call ``fn`` with this future once the record is confirmed or has failed."""
        self._observe()
        super().add_done_callback(fn)

    def result(self, timeout: float | None = None) -> RecordMetadata:
        """Return where the record is; ``timeout`` is in seconds.

        Raises:
            TimeoutError: It is not confirmed yet; it may still be.
            IllegalStateError: As ``exception``.
        """
        found = self._known()
        if found is None or found[0].error is not None:
            error = self.exception(timeout)
            if error is not None:
                try:
                    raise error
                finally:
                    del error  # it and this frame would keep each other
            found = self._known()
            assert found is not None
        return self._metadata(*found)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Return why the record was not confirmed, None if it was; ``timeout`` is in seconds.

        Raises:
            TimeoutError: Neither is known yet.
            IllegalStateError: Neither is known, and waiting here is waiting for ever: a callback
                waits on the thread that would bring it, or a fork left that thread behind.
        """
        self._observe()
        found = self._known()
        if found is None:
            if timeout is None or timeout > 0:
                self.run.reports.check_may_wait()
            with contextlib.suppress(TimeoutError):
                super().exception(timeout)
            found = self._known()
        if found is None:
            why = self.run.awaited(self.index)
            raise TimeoutError(f"not confirmed within {timeout} s, and still tried: {why}")
        # Known may come before settled: a callback may look at the next future of its batch.
        return _own(found[0].error)


def _own(error: Exception | None) -> Exception | None:
    """Return a copy: each raise makes a traceback longer, and a batch has many futures."""
    return None if error is None else copy.copy(error).with_traceback(None)


_OF_A_WHOLE_FUTURE = frozenset(vars(Future()))

_bare = object.__new__


def light_future() -> ProduceFuture:
    """Return a future without what ``Future`` needs, in a third of a constructor's time.

    ``run`` and ``index`` are to be set.
    """
    return _bare(ProduceFuture)


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
