"""When ``run`` renews the locks of the records that it has."""

from collections.abc import Mapping, Sequence
from functools import partial

from sharemesh.client.consumer.deliveries import AcquiredIn, PartitionAcknowledgements
from sharemesh.client.consumer.handled_record import HandledRecord, confirm_renewals
from sharemesh.client.consumer.handler_failures import HandlerFailures
from sharemesh.client.records import TopicIdPartition
from sharemesh.domain.delivery_state import AcknowledgeType
from sharemesh.ports.clock import Clock

RENEWALS_PER_LOCK = 3
"""A lock is renewed when less than two thirds of its duration are left."""

LONG_LOCKS = 10
"""A handler that runs for this many lock durations is logged: it may hang."""

_LEAST_PAUSE_MS = 50
_LONGEST_PAUSE_MS = 1_000


class LockRenewals:
    """Those of ``active``; one record is renewed for at most ``most_ms``, None: without end."""

    def __init__(
        self,
        active: Mapping[tuple[TopicIdPartition, int], HandledRecord],
        most_ms: int | None,
        clock: Clock,
        failures: HandlerFailures,
    ) -> None:
        self._active = active
        self._most_ms = most_ms
        self._clock = clock
        self._failures = failures

    @property
    def pause_ms(self) -> int:
        """How long to wait before locks are looked at again."""
        shortest_ms = min(
            (active.lock_timeout_ms for active in self._active.values()), default=_LONGEST_PAUSE_MS
        )
        pause_ms = max(shortest_ms // (2 * RENEWALS_PER_LOCK), _LEAST_PAUSE_MS)
        return min(pause_ms, _LONGEST_PAUSE_MS)

    def due(self) -> Sequence[PartitionAcknowledgements]:
        """Return the renewals of what is old enough; they are taken for sent."""
        now_ms = self._clock.now_ms()
        cap_ms = self._most_ms
        due: dict[AcquiredIn, list[HandledRecord]] = {}
        for active in self._active.values():
            fresh = now_ms - active.renewed_ms < active.lock_timeout_ms // RENEWALS_PER_LOCK
            capped = cap_ms is not None and now_ms - active.since_ms >= cap_ms
            if fresh or capped or not active.is_session_open:
                continue
            active.renewed_ms = now_ms
            self._warn_long(active, now_ms)
            due.setdefault(active.acquired_in, []).append(active)
        return [
            PartitionAcknowledgements(
                *where,
                {each.record.offset: AcknowledgeType.RENEW for each in some},
                unreported=True,
                confirmed=partial(confirm_renewals, some, now_ms),
            )
            for where, some in due.items()
        ]

    def _warn_long(self, active: HandledRecord, now_ms: int) -> None:
        """Log once that a handler may hang: its renewals keep the record from all other members."""
        long_ms = now_ms - active.since_ms
        if active.is_reported_long or long_ms < LONG_LOCKS * active.lock_timeout_ms:
            return
        if active.task is not None and not active.task.done():
            active.is_reported_long = True
            self._failures.works_long(active.record, long_ms)
