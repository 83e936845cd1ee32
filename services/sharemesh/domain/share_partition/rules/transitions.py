"""The legal moves of a record and what brings them about (spec RS-3..8)."""

from enum import Enum

from sharemesh.domain.delivery_state import AcknowledgeType, Cause, DeliveryState

_AVAILABLE = DeliveryState.AVAILABLE
_ACQUIRED = DeliveryState.ACQUIRED
_ACKNOWLEDGED = DeliveryState.ACKNOWLEDGED
_ARCHIVED = DeliveryState.ARCHIVED


class Trigger(Enum):
    """What ends an acquisition, apart from what its member says of the record."""

    RELEASE_AT_LIMIT = "release at the delivery limit"
    HANDED_BACK = "release of what was never handed out"
    LOCK_EXPIRY = "lock expiry"
    LOCK_EXPIRY_BELOW_START = "lock expiry below the start"
    SESSION_CLOSE = "session close"


TARGETS: dict[AcknowledgeType | Trigger, DeliveryState] = {
    AcknowledgeType.ACCEPT: _ACKNOWLEDGED,  # T3
    AcknowledgeType.REJECT: _ARCHIVED,  # T4
    AcknowledgeType.GAP: _ARCHIVED,  # T5
    AcknowledgeType.RELEASE: _AVAILABLE,  # T6
    Trigger.RELEASE_AT_LIMIT: _ARCHIVED,  # T7, T10
    AcknowledgeType.RENEW: _ACQUIRED,  # T8
    Trigger.LOCK_EXPIRY: _AVAILABLE,  # T9
    Trigger.LOCK_EXPIRY_BELOW_START: _ARCHIVED,  # T11
    Trigger.SESSION_CLOSE: _AVAILABLE,  # T12
    Trigger.HANDED_BACK: _AVAILABLE,  # HBK-2
}
"""Where each event moves an acquired record (RS-3, RS-4, RS-5).

What acquires a record (T1, T2) and what archives it because the log lost it (T13, T14, T15) has
one target each, in ``acquisition`` and ``archive``. T16 and RS-16 belong to the dead-letter queue,
left out.
"""

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
