"""Sends acknowledgements to their sessions, retries some, and reports each result once."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from sharemesh.client.consumer.consume_stream import REDELIVERED, LeaderSession
from sharemesh.client.consumer.deliveries import (
    AcknowledgementResult,
    Delivery,
    PartitionAcknowledgements,
    Route,
    span_of,
)
from sharemesh.client.errors import (
    InvalidRecordStateError,
    NetworkError,
    NotLeaderOrFollowerError,
    ServiceError,
)
from sharemesh.domain.errors import ErrorCode, coordinator_moved
from sharemesh.ports.clock import Clock
from sharemesh.tasks import cancel_and_wait

ACKNOWLEDGE_RETRY_MS = 100
"""Wait before a commit sends refused acknowledgements again."""

_LEADER_STAYS = frozenset(
    {
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)
"""Errors after which the same leader may accept a retry; another leader does not know the lock.

Errors of the share coordinator are retried too: the leader finds it again. A leader that locks were
handed over to knows them, and may not lead yet (HND-11).
"""


class AcknowledgementSender:
    """Sends acknowledgements; results go to ``on_outcomes``, each exactly once.

    ``buffered`` returns the deliveries that no poll has returned yet; ``on_confirmed`` is told
    what a leader has confirmed, before anybody else.

    Attributes:
        unanswered: Offsets whose result is not known.
        sent: Offsets sent, repetitions included.
        failed: Offsets refused for good.
        lost_locks: Those of them that the application acknowledged after it had lost the lock.
    """

    def __init__(
        self,
        clock: Clock,
        buffered: Callable[[], Iterable[Delivery]],
        on_outcomes: Callable[[Sequence[AcknowledgementResult]], None],
        on_confirmed: Callable[[PartitionAcknowledgements], None] = lambda _: None,
    ) -> None:
        self._clock = clock
        self._buffered = buffered
        self._on_outcomes = on_outcomes
        self._on_confirmed = on_confirmed
        self._retries: dict[asyncio.Task[None], _Refused] = {}
        self.unanswered = 0
        self.sent = 0
        self.failed = 0
        self.lost_locks = 0

    def send(
        self, acknowledgements: Sequence[PartitionAcknowledgements], *, may_wait: bool = False
    ) -> None:
        """Send; never blocks. With ``may_wait`` soon, with what is sent anyway."""
        self.unanswered += sum(len(each.types) for each in acknowledgements)
        self._send(acknowledgements, may_wait=may_wait)

    def finished(self, outcomes: Sequence[AcknowledgementResult]) -> None:
        """Report results; retry refusals that may pass (spec CL-22)."""
        final: list[AcknowledgementResult] = []
        for outcome in outcomes:
            if outcome.error is None:
                self._on_confirmed(outcome.acknowledgements)
                if outcome.acknowledgements.confirmed is not None:
                    outcome.acknowledgements.confirmed()
                final.append(outcome)
            elif self._may_pass(outcome):
                refused = _Refused(outcome.acknowledgements)
                task = asyncio.ensure_future(self._send_again(refused))
                self._retries[task] = refused
                task.add_done_callback(lambda task: self._retries.pop(task, None))
            elif halves := _halves_of_hand_back(outcome):
                self._send(halves)
            else:
                self._count_failed(outcome)
                final.append(outcome)
        self._report(final)

    def _fail(self, lost: Sequence[AcknowledgementResult]) -> None:
        """Report what no leader is asked any more."""
        for outcome in lost:
            self._count_failed(outcome)
        self._report(lost)

    def _count_failed(self, outcome: AcknowledgementResult) -> None:
        asked = outcome.acknowledgements
        self.failed += len(asked.types)
        if isinstance(outcome.error, InvalidRecordStateError) and not asked.unreported:
            self.lost_locks += len(asked.types)

    def _report(self, final: Sequence[AcknowledgementResult]) -> None:
        self.unanswered -= sum(len(each.acknowledgements.types) for each in final)
        self._on_outcomes([each for each in final if not each.acknowledgements.unreported])

    def redelivered(self, delivery: Delivery) -> None:
        """Fail what waits to be sent again, of records that come anew (spec CL-36)."""
        lost: list[AcknowledgementResult] = []
        for refused in self._retries.values():
            refused.asked = _without(refused.asked, (delivery,), lost)
        if lost:
            self._fail(lost)

    async def close(self) -> None:
        """Cancel all retries."""
        await cancel_and_wait(*self._retries)

    def _send(
        self, acknowledgements: Sequence[PartitionAcknowledgements], *, may_wait: bool = False
    ) -> None:
        by_route: dict[Route, list[PartitionAcknowledgements]] = {}
        lost: list[AcknowledgementResult] = []
        for each in acknowledgements:
            kept = _without(each, self._buffered(), lost)
            if kept.types:
                by_route.setdefault(each.route, []).append(kept)
        if lost:
            self._fail(lost)
        for route, group in by_route.items():
            assert isinstance(route, LeaderSession)
            self.sent += sum(len(each.types) for each in group)
            route.acknowledge(group, may_wait=may_wait)

    def _may_pass(self, outcome: AcknowledgementResult) -> bool:
        asked, error = outcome.acknowledgements, outcome.error
        until_ms = asked.deadline_ms
        follows = isinstance(error, NotLeaderOrFollowerError | NetworkError)
        if not follows and not (
            isinstance(error, ServiceError)
            and (coordinator_moved(error.code) or error.code in _LEADER_STAYS)
        ):
            return False
        follows_ms = asked.route.follows_until_ms(asked.source, asked.leader_epoch)
        until_ms = follows_ms if follows else max(follows_ms, until_ms)
        return until_ms - self._clock.now_ms() > ACKNOWLEDGE_RETRY_MS

    async def _send_again(self, refused: "_Refused") -> None:
        await self._clock.sleep_ms(ACKNOWLEDGE_RETRY_MS)
        asked, refused.asked = refused.asked, replace(refused.asked, types={})
        self._send([asked])  # from now on its result comes from the leader, and from there alone


def _halves_of_hand_back(outcome: AcknowledgementResult) -> list[PartitionAcknowledgements]:
    """Return what to send of records that were given back and refused for one of them (HBK-20).

    An acknowledgement of an earlier delivery may have been taken for that one. Of n records, all
    refused, 2n - 1 acknowledgements are sent.
    """
    asked = outcome.acknowledgements
    if (
        asked.uncounted is None
        or len(asked.types) < 2
        or not isinstance(outcome.error, InvalidRecordStateError)
        or not asked.route.is_open_for(asked.source, asked.leader_epoch)
    ):
        return []
    offsets, middle = sorted(asked.types), len(asked.types) // 2
    counts = asked.uncounted
    return [
        replace(
            asked,
            types={offset: asked.types[offset] for offset in half},
            uncounted={offset: counts[offset] for offset in half},
        )
        for half in (offsets[:middle], offsets[middle:])
    ]


@dataclass(slots=True)
class _Refused:
    """What is to be sent again, less what came anew meanwhile."""

    asked: PartitionAcknowledgements


def _without(
    asked: PartitionAcknowledgements,
    anew: Iterable[Delivery],
    lost: list[AcknowledgementResult],
) -> PartitionAcknowledgements:
    """Leave out offsets that a delivery has acquired again: their old locks are lost.

    Deliveries of earlier leader epochs do not count: they are older than the acknowledgements.
    """
    if not asked.types:
        return asked
    first, last = span_of(asked.types)
    again = [
        held
        for held in anew
        if held.source == asked.source
        and held.leader_epoch >= asked.leader_epoch
        and held.overlaps(first, last)
    ]
    gone = {
        offset: kind
        for offset, kind in (asked.types.items() if again else ())
        if any(held.overlaps(offset, offset) for held in again)
    }
    if not gone:
        return asked
    error = InvalidRecordStateError(REDELIVERED, about=str(asked.source))
    lost.append(AcknowledgementResult(replace(asked, types=gone), error, 0))
    kept = {offset: kind for offset, kind in asked.types.items() if offset not in gone}
    counts = asked.uncounted
    if counts is not None:  # else its leader refuses all for those that are lost (HBK-7)
        counts = {offset: counts[offset] for offset in kept}
    return replace(asked, types=kept, uncounted=counts)
