"""What the runner, explain and tests may see of a share partition."""

from dataclasses import dataclass

from sharemesh.domain.delivery_state import DeliveryState
from sharemesh.domain.ids import MemberId
from sharemesh.domain.share_partition.cache.cached_batch import CachedBatch
from sharemesh.domain.share_partition.cache.in_flight import InFlight
from sharemesh.domain.share_partition.cache.record_status import RecordStatus


@dataclass(frozen=True, slots=True)
class RecordView:
    """Offsets ``first_offset..last_offset`` with all that is known of each of them.

    ``member_id`` is empty without owner. ``lock_deadline_ms`` is monotonic time, kept during a
    transition (it then may lie in the past), else None. ``not_before_ms`` is monotonic time too,
    0 for a record that is not delayed.
    """

    first_offset: int
    last_offset: int
    state: DeliveryState
    delivery_count: int
    member_id: MemberId
    lock_deadline_ms: int | None
    in_transition: bool
    not_before_ms: int = 0


@dataclass(frozen=True, slots=True)
class BatchView:
    """Where a cached batch begins and ends, and how its locks are kept (spec IFB-2, LK-2).

    ``lock_count`` counts what expires as one: the whole batch, or each offset of it.
    """

    first_offset: int
    last_offset: int
    per_offset: bool
    lock_count: int


def batch_views(flight: InFlight) -> tuple[BatchView, ...]:
    """Return the cached batches, ascending."""
    return tuple(
        BatchView(batch.first_offset, batch.last_offset, batch.per_offset, _lock_count(batch))
        for batch in flight.batches
    )


def _lock_count(batch: CachedBatch) -> int:
    locked = sum(
        last - first + 1
        for first, last, status in batch.runs()
        if status.lock is not None and not status.lock.fired
    )
    return locked if batch.per_offset else min(locked, 1)


def record_views(flight: InFlight, first: int, last: int) -> tuple[RecordView, ...]:
    """Return the cached runs of ``first..last``, ascending; a run ends where its batch ends."""
    result = []
    for batch in flight.batches.overlapping(first, last):
        low, high = max(first, batch.first_offset), min(last, batch.last_offset)
        for begin, end, status in batch.runs_between(low, high):
            result.append(_view(begin, end, status))
    return tuple(result)


def _view(first: int, last: int, status: RecordStatus) -> RecordView:
    return RecordView(
        first,
        last,
        status.state,
        status.delivery_count,
        status.member_id,
        None if status.lock is None else status.lock.deadline_ms,
        status.write_id is not None,
        status.not_before_ms,
    )
