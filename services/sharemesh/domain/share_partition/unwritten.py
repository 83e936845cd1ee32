"""What ended locks left and no write has stored yet (spec LK-6, RS-11)."""

from collections.abc import Iterable

from sharemesh.domain.delivery_state import DeliveryState
from sharemesh.domain.share_partition.cache.in_flight import InFlight
from sharemesh.domain.share_partition.cache.record_status import RecordStatus
from sharemesh.domain.share_partition.rules.pending_transitions import PendingTransitions, Written


def note_again(flight: InFlight, unwritten: Iterable[Written], changes: PendingTransitions) -> None:
    """Write it again, but for what somebody has moved since: whoever does writes himself.

    Who has acquired a record may hand it back, and writes nothing then (HBK-6). What was archived
    and passed by the start offset is told too: the group gave it up (ARC-3).
    """
    start = flight.start_offset
    for first, last, state, count, cause in sorted(unwritten):
        left = flight.settled.get(state, count)
        if first < start and state is DeliveryState.ARCHIVED:
            changes.note(first, min(last, start - 1), left, cause)
        for batch in flight.overlapping(max(first, start), last):
            low, high = max(first, start, batch.first_offset), min(last, batch.last_offset)
            for begin, end, status in batch.runs_between(low, high):
                if _is_left(status, state, count):
                    changes.note(begin, end, left, cause)


def _is_left(status: RecordStatus, state: DeliveryState, count: int) -> bool:
    """Whether a record is as an ended lock left it, or was acquired since, and no more."""
    if status.write_id is not None:
        saved = status.saved
        is_handed_back = saved is not None and status.delivery_count < saved.delivery_count
        return is_handed_back and (status.state, status.delivery_count) == (state, count)
    if status.state is DeliveryState.ACQUIRED:
        return state is DeliveryState.AVAILABLE and status.delivery_count == count + 1
    return status.state is state and status.delivery_count == count
