"""How the start offset, the log start and the next fetch offset move (spec OFF).

The start offset advances over finished records (OFF-7..14) and follows the log start (OFF-17..22);
the next fetch offset is the first one that may still be acquired (OFF-1..6).
"""

from bisect import bisect_left

from sharemesh.domain.share_partition.cache.in_flight import GapWindow, InFlight
from sharemesh.domain.share_partition.rules.archive import archive_available


def move_start_offset(flight: InFlight) -> bool:
    """Advance the start offset as far as records are done; return whether anything moved.

    Tried after initialization, so that a start offset that lags in storage catches up (PER-3), and
    after each write that may have finished something (OFF-13).
    """
    moved = _moved_inside_first(flight, flight.start_offset)
    if moved is None:
        moved = _may_move(flight) and _moved_over_batches(flight)
    return moved


def next_fetch_offset(flight: InFlight) -> int:
    """Return the offset from which the log should be read next."""
    batches = flight.batches
    if not batches or flight.start_offset > batches[-1].last_offset:  # OFF-1, OFF-21
        flight.find_next = False
        return flight.end_offset
    if not flight.find_next:  # OFF-1
        return flight.end_offset + 1
    available = flight.first_available()  # OFF-2
    window = flight.active_window
    hole = None if window is None else first_hole(flight, window)
    if available is None and hole is None:
        flight.find_next = False
        return flight.end_offset + 1
    if available is None or (hole is not None and hole < available):
        return hole if hole is not None else flight.end_offset + 1
    return available


def first_hole(flight: InFlight, window: GapWindow) -> int | None:
    """Return the first offset of the window that no batch holds but some batch follows (OFF-3)."""
    position = window.scan_from
    for index in range(flight.index_from(position), len(flight.batches)):
        batch = flight.batches[index]
        if batch.first_offset > position:
            window.scan_from = position
            return position
        position = batch.last_offset + 1
    window.scan_from = position
    return None


def can_acquire(flight: InFlight) -> bool:
    """Return whether a fetch may find something (spec OFF-6); always with an empty cache."""
    if next_fetch_offset(flight) != flight.end_offset + 1:
        return True
    return flight.in_flight_count < flight.config.partition_max_record_locks


def move_log_start(flight: InFlight, log_start_offset: int) -> bool:
    """Follow the log start; return whether anything changed (spec OFF-18).

    ACQUIRED records below it keep their locks and are archived when these end (OFF-19); nothing
    is written now (OFF-20).
    """
    old_start = flight.start_offset
    if log_start_offset <= old_start:
        return _pass_holes(flight, log_start_offset) or _archive_below(flight, log_start_offset)
    if not flight.batches:
        flight.start_offset = flight.end_offset = log_start_offset
        return True
    for batch in flight.overlapping(old_start, log_start_offset - 1):  # OFF-22
        low = max(old_start, batch.first_offset)
        high = min(log_start_offset - 1, batch.last_offset)
        for begin, end, status in batch.runs_between(low, high):
            if status.terminal:
                flight.delivery_complete_count -= end - begin + 1
    flight.start_offset = log_start_offset
    flight.end_offset = max(flight.end_offset, log_start_offset)
    _archive_below(flight, log_start_offset)
    return True


def _pass_holes(flight: InFlight, log_start_offset: int) -> bool:
    """Drop what the gap window has below the log start; return whether there was anything.

    Kafka keeps it, asks for it again and again, and the share partition stands still: a move that
    the start offset has followed already comes a second time only because of such a hole.
    """
    window = flight.window
    if window is None or window.gap_start >= log_start_offset:
        return False
    window.move(log_start_offset)
    _archive_below(flight, log_start_offset)
    return True


def _archive_below(flight: InFlight, offset: int) -> bool:
    """Archive what is AVAILABLE below an offset; return whether anything was.

    Not only from the start offset on (OFF-18): a log batch that straddles the log start may have
    been cached whole (ACQ-4), and what nobody can read would keep the start offset for ever.
    """
    if flight.batches and archive_available(flight, flight.keys[0], offset - 1):
        flight.find_next = True  # OFF-4
        return True
    return False


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
        # this goes back behind the last of them; the next fetch reports the log start again.
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
