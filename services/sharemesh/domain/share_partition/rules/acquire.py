"""A member acquires records that were read from the log (spec ACQ).

Offsets that the cache holds are acquired where they are available (T2); ranges that it does not
hold yet become new batches (T1, ACQ-13..20).
"""

from bisect import bisect_right
from collections.abc import Sequence
from operator import attrgetter

from sharemesh.domain.delivery_state import DeliveryState
from sharemesh.domain.group_config import IsolationLevel
from sharemesh.domain.share_partition.cache.cached_batch import CachedBatch, Run
from sharemesh.domain.share_partition.cache.in_flight import InFlight
from sharemesh.domain.share_partition.effects import AcquiredRun, RecordsAcquired
from sharemesh.domain.share_partition.events import Acquire, AcquireMode, LogBatch
from sharemesh.domain.share_partition.rules.acquisition import (
    Acquisition,
    ThrottledLot,
    is_throttled,
)
from sharemesh.domain.share_partition.rules.archive import archive_aborted, archive_available

_BASE_OFFSET = attrgetter("base_offset")


def acquire(flight: InFlight, request: Acquire, now_ms: int) -> RecordsAcquired:
    """Return the ranges that the member holds now, and how many offsets were acquired (ACQ-21)."""
    nothing = RecordsAcquired(request.request_id, (), 0)
    log_batches = request.log_batches
    if request.max_fetch_records <= 0 or not log_batches:  # ACQ-1
        return nothing
    last = log_batches[-1].last_offset
    if last < flight.start_offset:  # ACQ-1
        return nothing
    budget, last = _budget(flight, request, last)
    if budget <= 0:
        return nothing
    base = log_batches[0].base_offset
    if request.fetch_offset < base and archive_available(
        flight, request.fetch_offset, base - 1
    ):  # ACQ-3
        flight.find_next = True
    taken = Acquisition(flight, request, now_ms, budget)
    position = _position(flight, base)
    if position <= last:
        _walk(taken, position, base, last)
    ranges = tuple(AcquiredRun(first, end, count) for first, end, count in taken.ranges)
    if request.isolation_level is IsolationLevel.READ_COMMITTED and request.aborted:
        ranges = archive_aborted(flight, request, ranges)
        taken.count = sum(each.last_offset - each.first_offset + 1 for each in ranges)
    return RecordsAcquired(request.request_id, ranges, taken.count, throttled=taken.throttled)


def acquire_new_range(taken: Acquisition, first: int, last: int) -> None:
    """Acquire ``first..last``, or as much as the budget allows, as new batches (rule T1).

    A log batch is acquired whole (ACQ-15), with holes of the log inside the range (ACQ-16).
    """
    flight = taken.flight
    if flight.end_offset > first and not flight.batches:  # ACQ-13
        first = flight.end_offset
    if first > last:
        return
    cached_last = acquired_last = last
    if taken.remaining < last - first + 1:
        acquired_last = first + taken.remaining - 1
        cached_last = _end_of_log_batch(taken.request.log_batches, acquired_last)  # ACQ-14
        if cached_last > last and flight.active_window is not None:  # ACQ-17
            cached_last = last
    if taken.request.mode is AcquireMode.RECORD_LIMIT:
        _add_limited(taken, first, acquired_last, cached_last)
        acquired_last = min(acquired_last, cached_last)
    else:
        acquired_last = cached_last
        _add_pieces(taken, first, cached_last)
    if flight.batches.first_offset == first:  # OFF-15
        flight.start_offset = first
    flight.end_offset = max(flight.end_offset, cached_last)  # OFF-16
    if flight.window is not None:
        taken.move_window(acquired_last + 1)
    taken.took(acquired_last - first + 1)


def _end_of_log_batch(log_batches: Sequence[LogBatch], offset: int) -> int:
    """Return the end of the log batch that holds ``offset``, or ``offset`` itself (ACQ-14)."""
    index = bisect_right(log_batches, offset, key=_BASE_OFFSET) - 1
    return offset if index < 0 else max(offset, log_batches[index].last_offset)


def _add_pieces(taken: Acquisition, first: int, last: int) -> None:
    """Add batches of about the wanted size, cut where log batches begin (ACQ-18, ACQ-19)."""
    size = taken.request.batch_size
    begin = first
    if last - first + 1 > size:
        for log_batch in taken.request.log_batches:
            base = log_batch.base_offset
            if base > last:
                break
            if base - begin >= size:
                _add(taken, begin, base - 1)
                begin = base
    _add(taken, begin, last)


def _add(taken: Acquisition, first: int, last: int) -> None:
    taken.flight.insert(CachedBatch(first, last, taken.status(first, last, 1)))
    taken.ranges.append((first, last, 1))


def _add_limited(taken: Acquisition, first: int, acquired_last: int, cached_last: int) -> None:
    """Add one batch of which only the first offsets are acquired (ACQ-20)."""
    if acquired_last >= cached_last:
        _add(taken, first, cached_last)
        return
    flight = taken.flight
    batch = CachedBatch(first, cached_last, taken.status(first, acquired_last, 1))
    batch.per_offset = True
    rest = flight.settled.get(DeliveryState.AVAILABLE, 0)
    batch.replace(acquired_last + 1, cached_last, rest)
    flight.insert(batch)
    flight.find_next = True  # OFF-4
    taken.ranges.append((first, acquired_last, 1))


def _budget(flight: InFlight, request: Acquire, last: int) -> tuple[int, int]:
    """Return how many offsets may be acquired, and up to which one (ACQ-2, WIN-3, WIN-5)."""
    room = flight.room
    if room > 0:
        return min(request.max_fetch_records, room), last
    if request.fetch_offset > flight.end_offset:
        return 0, last
    behind = min(flight.end_offset - request.fetch_offset + 1, flight.lock_room)
    return min(request.max_fetch_records, behind), min(last, flight.end_offset)


def _position(flight: InFlight, base: int) -> int:
    """Return where to begin in the cache (ACQ-4)."""
    batch = flight.batches.at_or_below(base)
    if batch is None and base < flight.start_offset:
        base = flight.start_offset
        batch = flight.batches.at_or_below(base)
    if batch is None:
        return base
    return batch.first_offset if batch.last_offset >= base else base


def _walk(taken: Acquisition, position: int, base: int, last: int) -> None:
    """Go through the cached batches that the read data meets, in order (ACQ-5 to ACQ-11).

    What lies between the first and the last offset counts even if its log batch is gone (ACQ-6).
    """
    flight = taken.flight
    batches = flight.batches.starting_in(position, last)
    if not batches:  # ACQ-5
        acquire_new_range(taken, position, last)
        return
    for batch in batches:
        if taken.remaining <= 0:
            break
        if flight.active_window is not None:  # ACQ-7
            if position < batch.first_offset:
                acquire_new_range(taken, position, batch.first_offset - 1)
            position = batch.last_offset + 1
            if taken.remaining <= 0:
                break
        if not _take(taken, batch, max(base, batch.first_offset), min(last, batch.last_offset)):
            break
    else:
        if taken.remaining > 0 and batches[-1].last_offset < last:  # ACQ-11
            acquire_new_range(taken, batches[-1].last_offset + 1, last)
    if taken.ranges and flight.window is not None:
        taken.move_window(taken.ranges[-1][1] + 1)


def _take(taken: Acquisition, batch: CachedBatch, first: int, last: int) -> bool:
    """Acquire what is available of one cached batch; return whether to continue behind it."""
    config = taken.flight.config
    if first > last:
        return True
    runs = batch.runs_between(first, last)
    throttled = is_throttled(config, runs)
    if throttled and taken.count > 0:  # THR-3
        taken.throttled = True
        return False
    if not any(status.acquirable for _, _, status in runs):
        return True
    limit: int | None = None
    if taken.request.mode is AcquireMode.RECORD_LIMIT:
        limit = taken.remaining  # ACQ-10
    whole = first == batch.first_offset and last == batch.last_offset
    if not whole or throttled or (limit is not None and len(batch) > limit):
        taken.flight.track_per_offset(batch)  # ACQ-8, ACQ-9, IFB-2, IFB-4
    before = taken.count
    _take_lot(taken, batch, ThrottledLot(config, len(batch), limit), runs)
    taken.throttled = throttled and taken.count > before
    return not taken.throttled  # THR-4


def _take_lot(taken: Acquisition, batch: CachedBatch, lot: ThrottledLot, runs: list[Run]) -> None:
    """Acquire as much of the available runs as the lot allows."""
    merge_from = len(taken.ranges)  # results merge within this batch only (ACQ-9)
    for begin, end, status in runs:
        if status.acquirable:
            size = lot.take(status.delivery_count, end - begin + 1)
            if size:
                taken.acquire_run(batch, begin, begin + size - 1, status, merge_from=merge_from)
            if lot.closed:
                return
