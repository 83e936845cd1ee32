"""Events of one record: domain <-> message; causes and states stand by name."""

from sharemesh.domain.delivery_state import Cause, DeliveryState
from sharemesh.domain.ids import MemberId
from sharemesh.domain.share_state.record_history import RecordChange
from sharemesh.domain.share_state.records import Origin
from sharemesh.v1.common_pb2 import RecordEvent as RecordEventMessage


def encode_event(event: RecordChange) -> RecordEventMessage:
    """Return the message of an event."""
    return RecordEventMessage(
        timestamp_ms=event.timestamp_ms,
        cause=event.cause.name,
        member_id=event.member_id,
        delivery_state="" if event.state is None else event.state.name,
        delivery_count=event.delivery_count,
        start_offset=event.start_offset,
        log_offset=event.log_offset,
        trace_id=event.origin.trace_id,
        span_id=event.origin.span_id,
        not_before_ms=event.not_before_ms,
        acquired_at_ms=event.acquired_at_ms,
    )


def decode_event(message: RecordEventMessage) -> RecordChange:
    """Return the event; a cause that is not known here is UNSPECIFIED, a state none."""
    cause = Cause.__members__.get(message.cause, Cause.UNSPECIFIED)
    return RecordChange(
        message.log_offset,
        message.timestamp_ms,
        cause,
        Origin(cause, MemberId(message.member_id), message.trace_id, message.span_id),
        message.start_offset,
        DeliveryState.__members__.get(message.delivery_state),
        message.delivery_count,
        message.not_before_ms,
        message.acquired_at_ms,
    )
