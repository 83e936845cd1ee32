"""Ranges that the cache does not hold yet (spec ACQ-13..20)."""

from bisect import bisect_right
from collections.abc import Sequence
from operator import attrgetter

from sharemesh.domain.delivery_state import DeliveryState
from sharemesh.domain.share_partition.cache.cached_batch import CachedBatch
from sharemesh.domain.share_partition.events import AcquireMode, LogBatch
from sharemesh.domain.share_partition.rules.acquisition import Acquisition

_BASE_OFFSET = attrgetter("base_offset")


def acquire_new_range(taken: Acquisition, first: int, last: int) -> None:
    """Acquire ``first..last``, or as much as the budget allows, as new batches (rule T1).

    A log batch is acquired whole (ACQ-15), with holes of the log inside the range (ACQ-16).
    """
    flight = taken.flight
    if not flight.batches and flight.end_offset > first:  # ACQ-13
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
    if flight.keys[0] == first:  # OFF-15
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
