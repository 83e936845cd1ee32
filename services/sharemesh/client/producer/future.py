"""The result of a sent record, for threads."""

import logging
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future

from sharemesh.client.producer.batches import RecordMetadata
from sharemesh.client.repeated_warnings import RepeatedWarnings
from sharemesh.ports.clock import Clock

_log = logging.getLogger(__name__)


class Forgotten:
    """Tells of records that were not confirmed, and whose results nobody looked at."""

    def __init__(self, clock: Clock) -> None:
        self._seldom = RepeatedWarnings(clock)
        self._untold: Counter[str] = Counter()

    def note(self, topic: str, error: BaseException) -> None:
        """Note one record; the same topic is told ever more seldom."""
        self._untold[topic] += 1
        if self._seldom.is_due(topic):
            self._tell(topic, f": {error}")

    def close(self) -> None:
        """Tell what is still untold."""
        for topic in list(self._untold):
            self._tell(topic, ", for reasons such as that told before")

    def _tell(self, topic: str, why: str) -> None:
        count = self._untold.pop(topic)
        records = "a record was" if count == 1 else f"{count} records were"
        _log.warning(
            "topic %s: %s not confirmed, and nobody looked at the result of send()%s",
            topic,
            records,
            why,
        )


class ProduceFuture(Future[RecordMetadata]):
    """A future whose time-out says what the record waits for, and whose failure is not lost.

    Attributes:
        is_looked_at: Whether somebody learns the outcome; a failure that nobody learns is told.
    """

    def __init__(self, topic: str, awaited: Callable[[], str], forgotten: Forgotten) -> None:
        super().__init__()
        self._topic = topic
        self._awaited = awaited
        self._forgotten = forgotten
        self.is_looked_at = False

    def __del__(self) -> None:
        """Tell a failure that nobody can learn any more."""
        if not self.is_looked_at and self.done() and (error := super().exception()):
            self._forgotten.note(self._topic, error)

    def add_done_callback(self, fn: Callable[[Future[RecordMetadata]], object]) -> None:
        """Call ``fn`` with this future once the record is confirmed or has failed."""
        self.is_looked_at = True
        super().add_done_callback(fn)

    def result(self, timeout: float | None = None) -> RecordMetadata:
        """Return where the record is; ``timeout`` is in seconds.

        Raises:
            TimeoutError: It is not confirmed yet; it may still be.
        """
        self.is_looked_at = True
        try:
            return super().result(timeout)
        except TimeoutError as error:
            raise self._overdue(error, timeout) from None

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Return why the record was not confirmed, None if it was; ``timeout`` is in seconds.

        Raises:
            TimeoutError: Neither is known yet.
        """
        self.is_looked_at = True
        try:
            return super().exception(timeout)
        except TimeoutError as error:
            raise self._overdue(error, timeout) from None

    def _overdue(self, error: TimeoutError, timeout: float | None) -> TimeoutError:
        if self.done():
            return error  # the outcome itself
        return TimeoutError(f"not confirmed within {timeout} s, and still tried: {self._awaited()}")
