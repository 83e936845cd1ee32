"""The result of a sent record, for threads."""

from collections.abc import Callable
from concurrent.futures import Future

from sharemesh.client.produce_batches import RecordMetadata


class ProduceFuture(Future[RecordMetadata]):
    """A future whose time-out says what the record waits for."""

    def __init__(self, awaited: Callable[[], str]) -> None:
        super().__init__()
        self._awaited = awaited

    def result(self, timeout: float | None = None) -> RecordMetadata:
        """Return where the record is; ``timeout`` is in seconds.

        Raises:
            TimeoutError: It is not confirmed yet; it may still be.
        """
        try:
            return super().result(timeout)
        except TimeoutError as error:
            raise self._overdue(error, timeout) from None

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Return why the record was not confirmed, None if it was; ``timeout`` is in seconds.

        Raises:
            TimeoutError: Neither is known yet.
        """
        try:
            return super().exception(timeout)
        except TimeoutError as error:
            raise self._overdue(error, timeout) from None

    def _overdue(self, error: TimeoutError, timeout: float | None) -> TimeoutError:
        if self.done():
            return error  # the outcome itself
        return TimeoutError(f"not confirmed within {timeout} s, and still tried: {self._awaited()}")
