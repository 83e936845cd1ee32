"""Archives records without a member: aborted transactions, deleted ranges (RS-14)."""

from collections.abc import Sequence

from sharemesh.domain.delivery_state import DeliveryState
from sharemesh.domain.share_partition.cache.in_flight import InFlight
from sharemesh.domain.share_partition.cache.record_status import NO_MEMBER, RecordStatus
from sharemesh.domain.share_partition.effects import AcquiredRun
from sharemesh.domain.share_partition.events import AbortedTransaction, Acquire, LogBatch


def archive_available(flight: InFlight, first: int, last: int) -> bool:
    """Archive what is AVAILABLE in ``first..last``, in transition or not; return whether any.

    A batch of which only a part is meant is tracked per offset from then on (IFB-2). An
    outstanding write no longer changes what was archived, but the transition lasts until then.
    """
    archived = False
    if first > last:
        return archived
    for batch in flight.batches.unfinished(first, last):
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


def aborted_batches(
    log_batches: Sequence[LogBatch], aborted: Sequence[AbortedTransaction]
) -> list[tuple[int, int]]:
    """Return the offset ranges of log batches that belong to aborted transactions (ISO-2).

    A producer enters the set with the first of its transactions that begins at or below the end
    of a batch, and leaves it at its abort marker.
    """
    pending = sorted(aborted, key=lambda transaction: transaction.first_offset)
    producers: set[int] = set()
    result: list[tuple[int, int]] = []
    index = 0
    for batch in log_batches:
        while index < len(pending) and pending[index].first_offset <= batch.last_offset:
            producers.add(pending[index].producer_id)
            index += 1
        if batch.is_control:  # ISO-4: markers stay inside acquired ranges
            if batch.is_abort_marker:
                producers.discard(batch.producer_id)
        elif batch.is_transactional and batch.producer_id in producers:
            result.append((batch.base_offset, batch.last_offset))
    return result


def archive_aborted(
    flight: InFlight, request: Acquire, ranges: Sequence[AcquiredRun]
) -> tuple[AcquiredRun, ...]:
    """Archive what was just acquired of aborted batches; return the ranges without it (ISO-3)."""
    dropped = aborted_batches(request.log_batches, request.aborted)
    for first, last in dropped:
        for acquired in ranges:
            low, high = max(first, acquired.first_offset), min(last, acquired.last_offset)
            if low <= high:
                _archive(flight, low, high)
    return without(ranges, dropped)


def _archive(flight: InFlight, first: int, last: int) -> None:
    for batch in flight.batches.overlapping(first, last):
        low, high = max(first, batch.first_offset), min(last, batch.last_offset)
        if low > batch.first_offset or high < batch.last_offset:
            flight.track_per_offset(batch)
        for begin, end, status in batch.runs_between(low, high):
            flight.put(batch, begin, end, status, archived_status(flight, status))


def without(
    ranges: Sequence[AcquiredRun], dropped: Sequence[tuple[int, int]]
) -> tuple[AcquiredRun, ...]:
    """Return the acquired ranges minus sorted, disjoint offset ranges."""
    result: list[AcquiredRun] = []
    for acquired in ranges:
        begin = acquired.first_offset
        for first, last in dropped:
            if last < begin or first > acquired.last_offset:
                continue
            if first > begin:
                result.append(AcquiredRun(begin, first - 1, acquired.delivery_count))
            begin = last + 1
        if begin == acquired.first_offset:
            result.append(acquired)
        elif begin <= acquired.last_offset:
            result.append(AcquiredRun(begin, acquired.last_offset, acquired.delivery_count))
    return tuple(result)
