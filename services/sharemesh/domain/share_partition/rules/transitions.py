"""The legal moves of a record and what brings them about (spec RS-3..8)."""

from dataclasses import dataclass
from enum import Enum

from sharemesh.domain.delivery_state import AcknowledgeType, Cause, DeliveryState

_AVAILABLE = DeliveryState.AVAILABLE
_ACQUIRED = DeliveryState.ACQUIRED
_ACKNOWLEDGED = DeliveryState.ACKNOWLEDGED
_ARCHIVED = DeliveryState.ARCHIVED


class Written(Enum):
    """Whether a move is made durable."""

    NO = "no"
    BEFORE = "before it takes effect"  # two steps: start, then commit or roll back (RS-9)
    AFTER = "after it took effect"  # LK-6


class Trigger(Enum):
    """What moves a record, apart from what a member says of it."""

    FIRST_ACQUIRE = "first acquire of a range"
    ACQUIRE = "acquire"
    RELEASE_AT_LIMIT = "release at the delivery limit"
    HANDED_BACK = "release of what was never handed out"
    LOCK_EXPIRY = "lock expiry"
    LOCK_EXPIRY_AT_LIMIT = "lock expiry at the delivery limit"
    LOCK_EXPIRY_BELOW_START = "lock expiry below the start"
    SESSION_CLOSE = "session close"
    LOG_START_MOVED = "log start moved past it"
    COMPACTED = "compacted away"
    ABORTED = "aborted transaction"


@dataclass(frozen=True, slots=True)
class Transition:
    """One row of the table: from a state, on an event, to a state."""

    rule: str
    source: DeliveryState | None
    event: AcknowledgeType | Trigger
    target: DeliveryState
    count_change: int
    written: Written


TRANSITION_TABLE = (  # spec RS-5; T16 and RS-16 belong to the dead-letter queue, left out
    Transition("T1", None, Trigger.FIRST_ACQUIRE, _ACQUIRED, 1, Written.NO),
    Transition("T2", _AVAILABLE, Trigger.ACQUIRE, _ACQUIRED, 1, Written.NO),
    Transition("T3", _ACQUIRED, AcknowledgeType.ACCEPT, _ACKNOWLEDGED, 0, Written.BEFORE),
    Transition("T4", _ACQUIRED, AcknowledgeType.REJECT, _ARCHIVED, 0, Written.BEFORE),
    Transition("T5", _ACQUIRED, AcknowledgeType.GAP, _ARCHIVED, 0, Written.BEFORE),
    Transition("T6", _ACQUIRED, AcknowledgeType.RELEASE, _AVAILABLE, 0, Written.BEFORE),
    Transition("T7", _ACQUIRED, Trigger.RELEASE_AT_LIMIT, _ARCHIVED, 0, Written.BEFORE),
    Transition("T8", _ACQUIRED, AcknowledgeType.RENEW, _ACQUIRED, 0, Written.NO),
    Transition("T9", _ACQUIRED, Trigger.LOCK_EXPIRY, _AVAILABLE, 0, Written.AFTER),
    Transition("T10", _ACQUIRED, Trigger.LOCK_EXPIRY_AT_LIMIT, _ARCHIVED, 0, Written.AFTER),
    Transition("T11", _ACQUIRED, Trigger.LOCK_EXPIRY_BELOW_START, _ARCHIVED, 0, Written.AFTER),
    Transition("T12", _ACQUIRED, Trigger.SESSION_CLOSE, _AVAILABLE, 0, Written.BEFORE),
    Transition("T13", _AVAILABLE, Trigger.LOG_START_MOVED, _ARCHIVED, 0, Written.NO),
    Transition("T14", _AVAILABLE, Trigger.COMPACTED, _ARCHIVED, 0, Written.NO),
    Transition("T15", _ACQUIRED, Trigger.ABORTED, _ARCHIVED, 0, Written.NO),
    Transition("HBK-2", _ACQUIRED, Trigger.HANDED_BACK, _AVAILABLE, -1, Written.NO),
)

TARGETS = {row.event: row.target for row in TRANSITION_TABLE}
"""Where each event moves a record (RS-3, RS-4): the only place that the machine takes it from."""

CAUSES = {
    AcknowledgeType.GAP: Cause.GAP,
    AcknowledgeType.ACCEPT: Cause.ACCEPT,
    AcknowledgeType.RELEASE: Cause.RELEASE,
    AcknowledgeType.REJECT: Cause.REJECT,
}


def limited(
    target: DeliveryState, cause: Cause, delivery_count: int, limit: int
) -> tuple[DeliveryState, Cause]:
    """Return ARCHIVED instead of AVAILABLE for a record at the delivery limit (RS-7, T7, T10)."""
    if target is _AVAILABLE and delivery_count >= limit:
        return TARGETS[Trigger.RELEASE_AT_LIMIT], Cause.DELIVERY_LIMIT
    return target, cause
