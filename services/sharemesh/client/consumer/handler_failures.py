"""How ``run`` treats records that failed: its options, the report of a failure, the retry."""

import asyncio
import heapq
import logging
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from itertools import count
from random import Random
from typing import Generic, TypeVar

from sharemesh.backoff import backoff_ms
from sharemesh.client.argument_checks import (
    check_callback,
    check_instance,
    check_ms,
    is_number,
)
from sharemesh.client.consumer.circuit_breaker import (
    DEFAULT_BREAKER,
    BreakerPolicy,
    CircuitBreaker,
)
from sharemesh.client.consumer.handled_record import HandledRecord
from sharemesh.client.consumer.retry_policy import RetryPolicy
from sharemesh.client.errors import IllegalArgumentError, SharemeshError
from sharemesh.client.records import ConsumerRecord, TopicIdPartition
from sharemesh.domain.delivery_state import AcknowledgeType
from sharemesh.ports.clock import Clock
from sharemesh.tasks import wait_until_set

ENDINGS = (AcknowledgeType.ACCEPT, AcknowledgeType.RELEASE, AcknowledgeType.REJECT)
"""What becomes of a record that a handler had."""

KEPT_MAX = 500
"""More are released early, those first that are due first: each holds a lock."""

RATE_MIN, RATE_MAX = 0.001, 1_000_000

REMEMBERED_MAX = 1_000
"""Failures whose traceback was logged; the oldest are forgotten."""

_REASON_CHARACTERS_MAX = 200
_PLACES_MAX = 10

_log = logging.getLogger(__name__)

Failed = Callable[[ConsumerRecord | None, Exception], object]
_Known = tuple[TopicIdPartition, int, str]
Kept = TypeVar("Kept", bound=Hashable)


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
            and their records released. One that does not end is left behind, and said so.
        on_failure: Called with the record and the exception when a handler raised; with None and
            the error when a record, or for now a partition, could not be read. Without it, these
            errors are logged, the first of each record with its traceback. It runs where the
            consumer renews locks, so it must be quick, and cannot call the consumer.
        retry_backoff_ms: Wait before a record whose handler raised is released; doubled with each
            further delivery. 0: released at once.
        retry_backoff_max_ms: Longest such wait; 0: released at once.
        retry: What becomes of a record whose handler raised, instead of ``on_error`` and
            the two back-offs.
        breaker: Take no records for a while when too many fail (spec CL-42). None: go on.
        records_per_second: Hand no more than this to handlers each second; None: no limit.
        deadline_ms: A handler that runs for longer has failed with TimeoutError, and is cancelled.
            On a thread, or if it does not end then, it runs on, and what it returns is ignored.
            None: it may take its time.

    Raises:
        IllegalArgumentError: A time is negative or no whole number, the rate is out of bounds, an
            option is of another type, both callbacks are given, or ``retry`` and ``on_error``.
    """

    renew: bool = True
    renew_max_ms: int | None = None
    on_error: AcknowledgeType = AcknowledgeType.RELEASE
    complain: Failed | None = None
    stop_timeout_ms: int = 30_000
    on_failure: Failed | None = None
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 10_000
    retry: RetryPolicy | None = None
    breaker: BreakerPolicy | None = DEFAULT_BREAKER
    records_per_second: float | None = None
    deadline_ms: int | None = None

    def __post_init__(self) -> None:
        if self.complain is not None and self.on_failure is not None:
            raise IllegalArgumentError("give on_failure or complain, which are the same, not both")
        for name in ("on_failure", "complain"):
            check_callback(name, getattr(self, name))
        for name in ("stop_timeout_ms", "retry_backoff_ms", "retry_backoff_max_ms"):
            check_ms(name, getattr(self, name))
        for name, least in (("renew_max_ms", 0), ("deadline_ms", 1)):
            if getattr(self, name) is not None:
                check_ms(name, getattr(self, name), least=least)
        check_instance("retry", self.retry, RetryPolicy, "a RetryPolicy, or None")
        check_instance(
            "breaker", self.breaker, BreakerPolicy, "a BreakerPolicy, or None for no breaker"
        )
        if self.on_error not in ENDINGS:
            raise IllegalArgumentError(
                f"on_error is {self.on_error!r}: give AcknowledgeType.RELEASE, REJECT or ACCEPT"
            )
        if self.retry is not None and self.on_error is not AcknowledgeType.RELEASE:
            raise IllegalArgumentError("give retry or on_error, not both")
        rate = self.records_per_second
        is_rate = is_number(rate) and RATE_MIN <= rate <= RATE_MAX
        if rate is not None and not is_rate:
            raise IllegalArgumentError(
                f"records_per_second must be from {RATE_MIN} to {RATE_MAX}, but is {rate!r}"
            )

    def is_outage(self, error: Exception | None) -> bool:
        """Whether the breaker counts it; what a retry policy rejects is the record's own."""
        if error is None or (self.retry is not None and not self.retry.retries(error)):
            return False
        return self.breaker is not None and self.breaker.is_outage(error)

    def after(
        self, error: Exception, delivery_count: int, chance: Random
    ) -> tuple[AcknowledgeType, int]:
        """Return what becomes of a record whose handler raised, and the wait before."""
        if self.retry is not None:
            return self.retry.decide(error, delivery_count, chance)
        return self.on_error, self.retry_ms(delivery_count, chance)

    def retry_ms(self, delivery_count: int, chance: Random) -> int:
        """Return how long a record is kept that failed in its ``delivery_count``-th delivery.

        Up to a fifth less at random, so that records that failed together are not retried together.
        """
        if self.on_error is not AcknowledgeType.RELEASE:
            return 0
        failures = max(delivery_count - 1, 0)
        return backoff_ms(failures, self.retry_backoff_ms, self.retry_backoff_max_ms, chance)


class RetryQueue(Generic[Kept]):
    """Keeps failed records for a while, so that they are not tried again at once.

    Calls ``release`` with each when it is due; ``run`` is the owner task.
    """

    def __init__(self, clock: Clock, release: Callable[[Kept], None]) -> None:
        self._clock = clock
        self._release = release
        self._due: list[tuple[int, int, Kept]] = []
        self._kept: set[Kept] = set()
        self._numbers = count()
        self._changed = asyncio.Event()

    def keep(self, kept: Kept, until_ms: int) -> None:
        """Release it then, or before if there are too many."""
        heapq.heappush(self._due, (until_ms, next(self._numbers), kept))
        self._kept.add(kept)
        if len(self._kept) > KEPT_MAX:
            self._pop()
        self._changed.set()

    def forget(self, kept: Kept) -> None:
        """Do not release it."""
        self._kept.discard(kept)

    def release_all(self) -> None:
        """Wait no longer."""
        while self._due:
            self._pop()

    async def run(self) -> None:
        """Release what is due, until cancelled."""
        while True:
            self._changed.clear()
            now_ms = self._clock.now_ms()
            while self._due and self._due[0][0] <= now_ms:
                self._pop()
            await wait_until_set(self._changed, self._due[0][0] - now_ms if self._due else None)

    def _pop(self) -> None:
        """Release the next one that was not forgotten."""
        while self._due:
            _, _, kept = heapq.heappop(self._due)
            if kept in self._kept:
                self._kept.discard(kept)
                self._release(kept)
                return


class HandlerFailures:
    """Reports each failure to the application's callback, else to the log.

    The traceback is logged the first time that a record fails so.
    """

    def __init__(self, on_failure: Failed | None) -> None:
        self._on_failure = on_failure
        self._known: OrderedDict[_Known, None] = OrderedDict()
        self._lost: dict[TopicIdPartition, list[HandledRecord]] = {}

    def handler_failed(
        self, record: ConsumerRecord, error: Exception, kind: AcknowledgeType, retry_ms: int
    ) -> None:
        """Report that a handler raised, and what becomes of the record."""
        if self._is_reported(record, error):
            return
        place = f"{record.topic_id_partition}@{record.offset}"
        _log.error(
            "the handler failed on %s, delivery %d: %r; %s",
            place,
            record.delivery_count,
            error,
            _what_becomes(kind, retry_ms),
            exc_info=error if self._is_new(record, error) else None,
        )

    def breaker_opened(self, breaker: CircuitBreaker, error: Exception | None) -> None:
        """Log that no records are taken for a while, and why."""
        _log.warning(
            "the circuit breaker of run is open: too many records failed (last: %r); this member "
            "takes none for %.1f s, then it tries %d",
            error,
            breaker.open_ms / 1_000,
            breaker.policy.probes,
        )

    def breaker_closed(self) -> None:
        """Log that records are taken again."""
        _log.warning("the circuit breaker of run is closed: records succeed again")

    def works_long(self, record: ConsumerRecord, long_ms: int) -> None:
        """Log that a handler may hang."""
        _log.warning(
            "the handler has had %s@%d for %.0f s: its lock is renewed, so nobody else gets the "
            "record, until the handler ends; RunOptions(renew_max_ms=…) bounds that",
            record.topic_id_partition,
            record.offset,
            long_ms / 1_000,
        )

    def did_not_end(self, left: Iterable[HandledRecord], stop_timeout_ms: int) -> None:
        """Log which handlers a stop does not wait for any longer."""
        places = [f"{active.record.topic_id_partition}@{active.record.offset}" for active in left]
        _log.warning(
            "the handlers of %s did not end within stop_timeout_ms (%d ms), nor when they were "
            "cancelled: run returns without them, and their records are released",
            ", ".join(places[:_PLACES_MAX]) + (" and others" if places[_PLACES_MAX:] else ""),
            stop_timeout_ms,
        )

    def say_all_late(self, running: Iterable[HandledRecord], most: int) -> None:
        """Log it if no place is left, so that nothing is handled before a handler ends."""
        if sum(active.late is not None for active in running) < most:
            return
        _log.warning(
            "all %d handlers of run are past deadline_ms and go on, on threads or although they "
            "were cancelled: no record is handled until one of them ends; give the handler "
            "time-outs of its own, and let it end when it is cancelled",
            most,
        )

    def lock_lost(self, active: HandledRecord) -> None:
        """Remember that a handler works on a record that others may have by now."""
        self._lost.setdefault(active.key[0], []).append(active)

    def say_lost(self, now_ms: int) -> None:
        """Log what was lost since the last time: a line a partition."""
        lost, self._lost = self._lost, {}
        for partition, some in lost.items():
            offsets = [active.record.offset for active in some]
            first, last = min(offsets), max(offsets)
            _log.warning(
                "the lock of %s is gone after %.1f s, while its handler worked: the handler is "
                "cancelled, or finds record.lock_lost if it has a thread; what it returns counts "
                "for nothing, and the record is delivered again",
                f"{partition}@{first}"
                if len(some) == 1
                else f"each of {len(some)} records of {partition} ({first} to {last})",
                (now_ms - min(active.since_ms for active in some)) / 1_000,
            )

    def unreadable(self, error: SharemeshError) -> None:
        """Report that a record or batch could not be read."""
        if not self._is_reported(None, error):
            _log.error("%s", error)

    def partition_failed(self, error: SharemeshError) -> None:
        """Report that a partition cannot be read for the time being."""
        _log.warning("%s; run continues", error)
        self._is_reported(None, error)

    def _is_reported(self, record: ConsumerRecord | None, error: Exception) -> bool:
        """Call the application's callback; False if there is none."""
        if self._on_failure is None:
            return False
        try:
            self._on_failure(record, error)
        except (Exception, asyncio.CancelledError, SystemExit):
            _log.exception("on_failure of run failed itself, on %r", error)
        return True

    def _is_new(self, record: ConsumerRecord, error: Exception) -> bool:
        reason = repr(error)[:_REASON_CHARACTERS_MAX]
        known = (record.topic_id_partition, record.offset, reason)
        new = known not in self._known
        self._known[known] = None
        self._known.move_to_end(known)
        if len(self._known) > REMEMBERED_MAX:
            self._known.popitem(last=False)
        return new


def _what_becomes(kind: AcknowledgeType, retry_ms: int) -> str:
    if kind is not AcknowledgeType.RELEASE:
        return f"it is acknowledged with {kind.name}"
    when = f"in {retry_ms} ms" if retry_ms else "at once"
    return (
        f"it is released for another try {when}, unless this delivery was the group's last one "
        "(share.delivery.count.limit): then it is archived"
    )
