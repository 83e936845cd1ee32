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


@dataclass(frozen=True, slots=True)
class Transition:
    """One row of the table: from a state, on an event, to a state."""

    rule: str
    source: DeliveryState | None
    event: AcknowledgeType | str
    target: DeliveryState
    count_change: int
    written: Written


TRANSITION_TABLE = (  # spec RS-5; T16 and RS-16 belong to the dead-letter queue, left out
    Transition("T1", None, "first acquire of a range", _ACQUIRED, 1, Written.NO),
    Transition("T2", _AVAILABLE, "acquire", _ACQUIRED, 1, Written.NO),
    Transition("T3", _ACQUIRED, AcknowledgeType.ACCEPT, _ACKNOWLEDGED, 0, Written.BEFORE),
    Transition("T4", _ACQUIRED, AcknowledgeType.REJECT, _ARCHIVED, 0, Written.BEFORE),
    Transition("T5", _ACQUIRED, AcknowledgeType.GAP, _ARCHIVED, 0, Written.BEFORE),
    Transition("T6", _ACQUIRED, AcknowledgeType.RELEASE, _AVAILABLE, 0, Written.BEFORE),
    Transition("T7", _ACQUIRED, "release at the delivery limit", _ARCHIVED, 0, Written.BEFORE),
    Transition("T8", _ACQUIRED, AcknowledgeType.RENEW, _ACQUIRED, 0, Written.NO),
    Transition("T9", _ACQUIRED, "lock expiry", _AVAILABLE, 0, Written.AFTER),
    Transition("T10", _ACQUIRED, "lock expiry at the delivery limit", _ARCHIVED, 0, Written.AFTER),
    Transition("T11", _ACQUIRED, "lock expiry below the start", _ARCHIVED, 0, Written.AFTER),
    Transition("T12", _ACQUIRED, "session close", _AVAILABLE, 0, Written.BEFORE),
    Transition("T13", _AVAILABLE, "log start moved past it", _ARCHIVED, 0, Written.NO),
    Transition("T14", _AVAILABLE, "compacted away", _ARCHIVED, 0, Written.NO),
    Transition("T15", _ACQUIRED, "aborted transaction", _ARCHIVED, 0, Written.NO),
)

LEGAL_MOVES = frozenset((row.source, row.target) for row in TRANSITION_TABLE)  # RS-4

ACKNOWLEDGED_AS = {  # RS-3
    row.event: row.target for row in TRANSITION_TABLE if isinstance(row.event, AcknowledgeType)
}

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
        return _ARCHIVED, Cause.DELIVERY_LIMIT
    return target, cause
