"""Records that are archived without asking anybody (spec RS-14)."""

from sharemesh.domain.delivery_state import DeliveryState
from sharemesh.domain.share_partition.cache.in_flight import InFlight
from sharemesh.domain.share_partition.cache.record_status import NO_MEMBER, RecordStatus


def archive_available(flight: InFlight, first: int, last: int) -> bool:
    """Archive what is AVAILABLE in ``first..last``, in transition or not; return whether any.

    A batch of which only a part is meant is tracked per offset from then on (IFB-2). An
    outstanding write no longer changes what was archived, but the transition lasts until then.
    """
    archived = False
    if first > last:
        return archived
    for batch in flight.overlapping(first, last):
        low, high = max(first, batch.first_offset), min(last, batch.last_offset)
        partial = low > batch.first_offset or high < batch.last_offset
        if partial and not batch.per_offset and batch.status.state is DeliveryState.AVAILABLE:
            flight.track_per_offset(batch)
        for begin, end, status in batch.runs_between(low, high):
            if status.state is DeliveryState.AVAILABLE:
                flight.put(batch, begin, end, status, archived_status(flight, status))
                archived = True
    return archived


def archived_status(flight: InFlight, status: RecordStatus) -> RecordStatus:
    """Return ARCHIVED without member and lock; an outstanding write stays noted (RS-14)."""
    if status.write_id is None:
        return flight.settled.get(DeliveryState.ARCHIVED, status.delivery_count)
    return RecordStatus(
        DeliveryState.ARCHIVED, status.delivery_count, NO_MEMBER, None, status.write_id, None
    )
