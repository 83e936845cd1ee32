"""What ``run`` does with a record whose handler raised (spec CL-41)."""

from dataclasses import dataclass
from random import Random

from sharemesh.backoff import backoff_ms
from sharemesh.client.argument_checks import check_ms, check_whole, exceptions_of
from sharemesh.client.consumer.raised import is_of
from sharemesh.domain.delivery_state import AcknowledgeType

ATTEMPTS_MAX = 1_000


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Which failures are tried again, how often and when; times in ms.

    Attributes:
        retry_on: Exceptions after which the record is delivered again; after others it is rejected.
            Of an exception group, as ``asyncio.TaskGroup`` raises one, each exception must be such.
        reject_on: Exceptions after which it is rejected although they are of ``retry_on``.
        attempts: After this many deliveries it is rejected. None: as often as the group delivers it
            (share.delivery.count.limit), which bounds it in any case.
        backoff_ms: Wait before it is released; doubled with each further delivery. 0: none.
        backoff_max_ms: Longest such wait.

    Raises:
        IllegalArgumentError: A number is out of its bounds, or something is no exception class.
    """

    retry_on: tuple[type[Exception], ...] = (Exception,)
    reject_on: tuple[type[Exception], ...] = ()
    attempts: int | None = None
    backoff_ms: int = 100
    backoff_max_ms: int = 10_000

    def __post_init__(self) -> None:
        for name in ("retry_on", "reject_on"):
            object.__setattr__(self, name, exceptions_of(name, getattr(self, name)))
        if self.attempts is not None:
            check_whole("attempts", self.attempts, 1, ATTEMPTS_MAX)
        check_ms("backoff_ms", self.backoff_ms)
        check_ms("backoff_max_ms", self.backoff_max_ms)

    def retries(self, error: Exception) -> bool:
        """Whether a record whose handler raised this may be tried again."""
        return is_of(error, self.retry_on, but=self.reject_on)

    def decide(
        self, error: Exception, delivery_count: int, chance: Random
    ) -> tuple[AcknowledgeType, int]:
        """Return RELEASE with the wait before it, or REJECT."""
        is_last = self.attempts is not None and delivery_count >= self.attempts
        if is_last or not self.retries(error):
            return AcknowledgeType.REJECT, 0
        failures = max(delivery_count - 1, 0)
        wait_ms = backoff_ms(failures, self.backoff_ms, self.backoff_max_ms, chance)
        return AcknowledgeType.RELEASE, wait_ms
