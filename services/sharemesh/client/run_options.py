"""How ``run(handler)`` treats records."""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from sharemesh.client.config import check_timeout_ms
from sharemesh.client.errors import IllegalArgumentError
from sharemesh.client.records import ConsumerRecord
from sharemesh.domain.delivery_state import AcknowledgeType

Failed = Callable[[ConsumerRecord | None, Exception], object]

_DOUBLINGS_MAX = 30
_SPREAD = 0.2


@dataclass(frozen=True, slots=True)
class RunOptions:
    """How ``run`` treats records; times in ms.

    Attributes:
        renew: Renew the locks of records that wait for a handler, are in one, or failed and are
            kept.
        renew_max_ms: Renew one record for at most so long; None: as long as it takes.
        on_error: Type for a record whose handler raised.
        complain: The older name of ``on_failure``.
        stop_timeout_ms: Longest wait for running handlers when stopped; then they are cancelled
            and their records released.
        on_failure: Called with the record and the exception when a handler raised, and with None
            and the failure when a record could not be read, or a partition for the time being.
            Without it all that is logged, the first failure of a record with its traceback.
        retry_backoff_ms: A record whose handler raised is kept so long before it is released,
            twice as long after each further delivery. 0: released at once.
        retry_backoff_max_ms: Longest such wait; 0: released at once.

    Raises:
        IllegalArgumentError: A time is negative or no whole number, or both callbacks are given.
    """

    renew: bool = True
    renew_max_ms: int | None = None
    on_error: AcknowledgeType = AcknowledgeType.RELEASE
    complain: Failed | None = None
    stop_timeout_ms: int = 30_000
    on_failure: Failed | None = None
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 10_000

    def __post_init__(self) -> None:
        if self.complain is not None and self.on_failure is not None:
            raise IllegalArgumentError("give on_failure or complain, which are the same, not both")
        times = (self.stop_timeout_ms, self.retry_backoff_ms, self.retry_backoff_max_ms)
        for each in (*times, self.renew_max_ms or 0):
            check_timeout_ms(each)

    def retry_ms(self, delivery_count: int, chance: Random) -> int:
        """Return how long a record is kept that failed in its ``delivery_count``-th delivery.

        A fifth of it is chance, so that records that failed together are not tried together.
        """
        if self.on_error is not AcknowledgeType.RELEASE:
            return 0
        doubled = self.retry_backoff_ms << min(max(delivery_count - 1, 0), _DOUBLINGS_MAX)
        return int(min(doubled, self.retry_backoff_max_ms) * (1 - _SPREAD * chance.random()))
