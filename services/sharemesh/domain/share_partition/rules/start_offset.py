"""Movement of the share-partition start offset over finished records (spec OFF-7..14)."""

from bisect import bisect_left

from sharemesh.domain.share_partition.cache.in_flight import InFlight


def move_start_offset(flight: InFlight) -> bool:
    """Advance the start offset as far as records are done; return whether anything moved.

    Tried after initialization, so that a start offset that lags in storage catches up (PER-3), and
    after each write that may have finished something (OFF-13).
    """
    moved = _moved_inside_first(flight, flight.start_offset)
    if moved is None:
        moved = _may_move(flight) and _moved_over_batches(flight)
    return moved


def _moved_over_batches(flight: InFlight) -> bool:
    last_done = _last_done(flight)
    if last_done is None:
        return False
    old_start = flight.start_offset
    index = flight.floor(last_done)
    batch = flight.batches[index]
    gone = index + 1 if last_done == batch.last_offset else index
    if gone == len(flight.batches):
        # OFF-9. QUIRK, as Kafka's traces show: if only batches below a moved log start were left,
        # this goes back behind the last of them; the next fetch hears of the log start again.
        flight.start_offset = flight.end_offset = last_done + 1
        flight.keys, flight.batches = [], []
        flight.delivery_complete_count = 0
        return True
    new_start = last_done + 1  # OFF-11
    if gone > index:  # OFF-10
        new_start = flight.keys[gone]
        window = flight.active_window
        if window is not None:
            new_start = min(new_start, window.gap_start)
    if new_start > old_start:  # OFF-12: it never goes back; OFF-14: only what is done is passed
        if batch.first_offset <= old_start <= last_done:
            passed = last_done - old_start + 1
        else:
            passed = _cached_between(flight, old_start, last_done)
        flight.delivery_complete_count -= passed
        flight.start_offset = new_start
    if gone:
        flight.drop_front(gone)
    return new_start > old_start or gone > 0


def _moved_inside_first(flight: InFlight, start: int) -> bool | None:
    """Advance inside the first batch, if that is all that may happen (OFF-11); else None.

    It is if the start offset lies in it, all before is done, and its end is not.
    """
    if flight.window is not None or not flight.batches:
        return None
    batch = flight.batches[0]
    if not batch.first_offset <= start <= batch.last_offset or flight.done_through < start - 1:
        return None
    end = batch.done_end(start)
    if end == batch.last_offset:
        return None
    if end < start:
        return False
    flight.done_through = max(flight.done_through, end)
    flight.delivery_complete_count -= end - start + 1
    flight.start_offset = end + 1
    return True


def _may_move(flight: InFlight) -> bool:
    """The record at the start offset is done, and no hole lies before the cache (OFF-7).

    QUIRK: if the start offset lies behind the batch that precedes it, after a move of the log
    start, a batch that was never tracked per offset counts as a whole, another one does not.
    """
    index = flight.floor(flight.start_offset)
    if index < 0:
        return False
    batch = flight.batches[index]
    start = flight.start_offset
    if start > batch.last_offset:
        return not batch.per_offset and batch.status.done
    return batch.status_at(start).done


def _last_done(flight: InFlight) -> int | None:
    """Return the last offset of the longest done prefix of the cache (OFF-8)."""
    batches = flight.batches
    stop = len(batches)
    window = flight.active_window
    if window is not None:
        stop = flight.index_from(window.gap_start)
    if flight.done_through < flight.keys[0]:
        flight.done_through = flight.keys[0] - 1
    for index in range(flight.index_from(flight.done_through + 1), stop):
        batch = batches[index]
        end = batch.done_end(max(batch.first_offset, flight.done_through + 1))
        if end >= batch.first_offset:
            flight.done_through = max(flight.done_through, end)
        if end < batch.last_offset:
            break
    return _prefix_end(flight, stop)


def _prefix_end(flight: InFlight, stop: int) -> int | None:
    end = flight.done_through
    if stop < len(flight.batches) and end >= flight.keys[stop]:
        end = flight.batches[stop - 1].last_offset if stop else -1
    return end if end >= flight.keys[0] else None


def _cached_between(flight: InFlight, first: int, last: int) -> int:
    """Return how many offsets of ``first..last`` the cache holds."""
    if first > last:
        return 0
    low, high = flight.index_from(first), bisect_left(flight.keys, last + 1)
    return sum(
        min(batch.last_offset, last) - max(batch.first_offset, first) + 1
        for batch in flight.batches[low:high]
    )
