"""What the share coordinator says of one record: how it ended, also below the start offset."""

import asyncio
from datetime import UTC, datetime

from sharemesh.codec.record_event import encode_event
from sharemesh.domain.delivery_state import Cause, DeliveryState
from sharemesh.domain.errors import ErrorCode
from sharemesh.domain.group_config.retry_delays import RELEASE_DELAY_MAX_MS
from sharemesh.domain.handed_lock import HandedLock
from sharemesh.domain.ids import SharePartitionKey
from sharemesh.domain.share_state.record_history import RecordChange
from sharemesh.domain.state_batch import TERMINAL
from sharemesh.ports.share_state import RecordHistoryResult
from sharemesh.share_leader.environment import LeaderEnvironment
from sharemesh.share_leader.requests.reasons import Reason, ending_of
from sharemesh.v1 import share_leader_pb2 as pb

_OPEN = frozenset({Reason.BELOW_START_OFFSET, Reason.ARCHIVED})
"""Answers from memory that the durable state may know more of."""


SEARCHES_AT_ONCE = 4
"""Searches that a leader asks share coordinators for at the same time; of one principal half of
them, so that its questions do not take all places of a coordinator (EXP-11)."""


class DurableRecords:
    """Asks share coordinators what became of records, a few questions at a time."""

    def __init__(self, environment: LeaderEnvironment) -> None:
        self._environment = environment
        self._places = environment.settings.places(SEARCHES_AT_ONCE)

    async def find(
        self, principal: str, key: SharePartitionKey, offset: int, leader_epoch: int
    ) -> RecordHistoryResult:
        """Ask in turn; a missing answer is returned as an error, not raised."""
        settings = self._environment.settings
        limit_ms = settings.explain_state_ms
        told = principal if settings.callers_have_names else ""
        asked = False
        try:
            async with asyncio.timeout(limit_ms / 1_000), self._places.place(principal):
                asked = True
                return await self._environment.persister.read_history(
                    key, offset, told, leader_epoch
                )
        except TimeoutError:
            why = f"the share coordinator did not answer in {limit_ms} ms"
            if not asked:
                why = f"other searches took longer than {limit_ms} ms; ask for fewer at once"
            return RecordHistoryResult(ErrorCode.REQUEST_TIMED_OUT, why)


def refined(reason: Reason, durable: RecordHistoryResult, offset: int) -> Reason:
    """Return the reason with what is durable; memory alone knows of locks and of waiting."""
    if durable.error is not ErrorCode.NONE or durable.state_epoch < 0:
        return reason
    if reason is Reason.GROUP_NOT_SEEN:
        known = Reason.NO_MEMBER_ASKS
        if offset < durable.start_offset:
            known = Reason.BELOW_START_OFFSET
        return ended_as(durable) or known
    if reason in _OPEN:
        return ended_as(durable) or reason
    return reason


def ended_as(durable: RecordHistoryResult) -> Reason | None:
    """Return how the record ended for the group, None if that is not known or it did not end."""
    last = last_state(durable)
    if durable.state in TERMINAL:
        cause = durable.cause
        if cause is Cause.UNSPECIFIED and last is not None and last.state is durable.state:
            cause = last.cause
        return ending_of(durable.state, cause)
    if durable.state is None and last is not None and last.state in TERMINAL:
        return ending_of(last.state, last.cause)
    return None


def left_of(durable: RecordHistoryResult, wall_ms: int) -> int:
    """Return how long a leader that loaded this state now would delay the record (spec RTY-8)."""
    return min(durable.not_before_ms - wall_ms, RELEASE_DELAY_MAX_MS)


def lock_of(durable: RecordHistoryResult) -> HandedLock | None:
    """Return the lock that a leader which loaded this state now would put on it (HND-7)."""
    lock = durable.handed_over
    if lock is None or durable.state is None:
        return lock
    is_open = durable.state is DeliveryState.AVAILABLE
    return lock if is_open and durable.delivery_count <= lock.delivery_count else None


def last_state(durable: RecordHistoryResult) -> RecordChange | None:
    """Return the last event if it says a delivery state: nothing has happened since."""
    last = durable.events[-1] if durable.events else None
    return last if last is not None and last.state is not None else None


def describe(durable: RecordHistoryResult, response: pb.ExplainResponse) -> None:
    """Add the events, and what memory did not say; numbers that are not known stay absent."""
    if durable.error is not ErrorCode.NONE:
        response.events_note = f"the durable state is not known now: {durable.message}"
        return
    response.events.extend(map(encode_event, durable.events))
    if not durable.is_whole and durable.from_ms and (durable.events or durable.state_epoch >= 0):
        response.events_from_ms = durable.from_ms
    response.events_note = _note(durable)
    if durable.state_epoch >= 0 and not response.HasField("state_epoch"):
        response.state_epoch = durable.state_epoch
        if durable.start_offset >= 0:
            response.start_offset = durable.start_offset
    if not response.delivery_state:
        _describe_state(durable, response)


def _describe_state(durable: RecordHistoryResult, response: pb.ExplainResponse) -> None:
    last = last_state(durable)
    state: DeliveryState | None = durable.state
    count = durable.delivery_count
    if state is None and last is not None and last.state in TERMINAL:
        state, count = last.state, last.delivery_count
    if state is not None:
        response.delivery_state, response.delivery_count = state.name, count


def in_words(event: RecordChange) -> str:
    """Return an event as part of a sentence."""
    said = f"{event.cause.name} at {_utc(event.timestamp_ms)}"
    if event.member_id:
        said += f" by member {event.member_id}"
    if event.state is not None:
        return f"{said}, delivery {event.delivery_count}"
    return f"{said}, start offset {event.start_offset}" if event.start_offset >= 0 else said


def _note(durable: RecordHistoryResult) -> str:
    if durable.problem:
        return f"events may be missing: {durable.problem}"
    if durable.state_epoch < 0 or durable.is_whole:
        return ""
    since = f" before {_utc(durable.from_ms)}" if durable.from_ms else ""
    return (
        f"what happened{since} is pruned from the state log, or too far back to be searched: "
        "see sharemesh-spark history"
    )


def _utc(timestamp_ms: int) -> str:
    moment = datetime.fromtimestamp(timestamp_ms / 1_000, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
