"""How the start offset, the log start and the next fetch offset move (spec OFF).

The start offset advances over finished records (OFF-7..14) and follows the log start (OFF-17..22);
the next fetch offset is the first one that may still be acquired (OFF-1..6).
"""

from sharemesh.domain.share_partition.cache.in_flight import GapWindow, InFlight
from sharemesh.domain.share_partition.rules.archive import archive_available


def move_start_offset(flight: InFlight) -> bool:
    """Advance the start offset as far as records are done; return whether anything moved.

    Tried after initialization, so that a start offset that lags in storage catches up (PER-3), and
    after each write that may have finished something (OFF-13).
    """
    if flight.window is not None and (flight.counts_locks or _stands_still(flight)):
        _narrow(flight, flight.window)
    moved = _moved_inside_first(flight, flight.start_offset)
    if moved is None:
        moved = _may_move(flight) and _moved_over_batches(flight)
    return moved


def pass_missing(flight: InFlight, first: int, last: int) -> None:
    """Follow the log over offsets that it no longer has (OFF-23).

    What is available there is archived; the gap window's holes there are none; a start offset in
    front of the cache goes on to the first cached batch. Kafka does only the first (ACQ-3): it
    reads such a hole again and again, or never moves its start offset any more.
    """
    if archive_available(flight, first, last):
        flight.find_next = True  # OFF-4
    window = flight.active_window
    hole = None if window is None else first_hole(flight, window)
    if window is not None and hole is not None and first <= hole <= last:
        window.move(last + 1)
        _narrow(flight, window)
    start, batches = flight.start_offset, flight.batches
    if first <= start <= last and batches and batches.first_offset > start:
        flight.start_offset = min(last + 1, batches.first_offset)


def move_idle_start_offset(flight: InFlight) -> None:
    """Advance the start offset where no write will come to do it (OFF-24).

    A window without holes goes, whatever the limit counts: it would keep back what is done.
    """
    if flight.window is not None:
        _narrow(flight, flight.window)
    move_start_offset(flight)


def _stands_still(flight: InFlight) -> bool:
    """All in flight is done, the span as wide as its limit, no hole is left to read (OFF-25)."""
    is_idle = not (flight.locks.held_count or flight.delays.record_count)
    if not is_idle or flight.room > 0 or flight.first_available() is not None:
        return False
    window = flight.active_window
    return window is None or first_hole(flight, window) is None


def _narrow(flight: InFlight, window: GapWindow) -> None:
    """Let the window begin at its first hole, and end with its last one (WIN-6)."""
    hole = None if flight.active_window is None else first_hole(flight, window)
    if hole is None:
        flight.window = None
    else:
        window.move(hole)


def next_fetch_offset(flight: InFlight) -> int:
    """Return the offset from which the log should be read next."""
    batches = flight.batches
    if not batches or flight.start_offset > batches.last_offset:  # OFF-1, OFF-21
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
    for first, last, _ in flight.batches.spans(position):
        if first > position:
            window.scan_from = position
            return position
        position = last + 1
    window.scan_from = position
    return None


def can_acquire(flight: InFlight) -> bool:
    """Return whether a fetch may find something (spec OFF-6, WIN-3); always with an empty cache."""
    if flight.lock_room <= 0:
        return False
    if next_fetch_offset(flight) != flight.end_offset + 1:
        return True
    return flight.room > 0


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
    for batch in flight.batches.overlapping(old_start, log_start_offset - 1):  # OFF-22
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
    if flight.batches and archive_available(flight, flight.batches.first_offset, offset - 1):
        flight.find_next = True  # OFF-4
        return True
    return False


def _moved_over_batches(flight: InFlight) -> bool:
    last_done = _last_done(flight)
    if last_done is None:
        return False
    old_start = flight.start_offset
    batches = flight.batches
    batch = batches.at_or_below(last_done)
    assert batch is not None
    is_whole = last_done == batch.last_offset
    stays: int | None = batch.first_offset
    if is_whole:
        stays = batches.first_after(batch.first_offset)
    if stays is None:
        # OFF-9. QUIRK, as Kafka's traces show: if only batches below a moved log start were left,
        # this goes back behind the last of them; the next fetch reports the log start again.
        flight.start_offset = flight.end_offset = last_done + 1
        flight.clear()
        return True
    new_start = last_done + 1  # OFF-11
    if is_whole:  # OFF-10
        new_start = stays
        window = flight.active_window
        if window is not None:
            new_start = min(new_start, window.gap_start)
    if new_start > old_start:  # OFF-12: it never goes back; OFF-14: only what is done is passed
        if batch.first_offset <= old_start <= last_done:
            passed = last_done - old_start + 1
        else:
            passed = batches.offsets_between(old_start, last_done)
        flight.delivery_complete_count -= passed
        flight.start_offset = new_start
    gone = flight.drop_below(stays)
    return new_start > old_start or gone


def _moved_inside_first(flight: InFlight, start: int) -> bool | None:
    """Advance inside the first batch (OFF-11), or over it if it is the only one (OFF-9).

    None: that is not all that may happen. It is if the start offset lies in the batch, all before
    is done, and its end is not, or ends the cache.
    """
    if flight.window is not None:
        return None
    batch = flight.batches.first_batch()
    if batch is None or flight.done_through < start - 1:
        return None
    if not batch.first_offset <= start <= batch.last_offset:
        return None
    end = batch.done_end(start)
    if end == batch.last_offset:
        if end != flight.end_offset:
            return None
        flight.done_through = end
        flight.start_offset = flight.end_offset = end + 1
        flight.clear()
        return True
    if end < start:
        return False
    flight.done_through = end if end > flight.done_through else flight.done_through
    flight.delivery_complete_count -= end - start + 1
    flight.start_offset = end + 1
    return True


def _may_move(flight: InFlight) -> bool:
    """The record at the start offset is done, and no hole lies before the cache (OFF-7).

    QUIRK: if the start offset lies behind the batch that precedes it, after a move of the log
    start, a batch that was never tracked per offset counts as a whole, another one does not.
    """
    batch = flight.batches.at_or_below(flight.start_offset)
    if batch is None:
        return False
    start = flight.start_offset
    if start > batch.last_offset:
        return not batch.per_offset and batch.status.done
    return batch.status_at(start).done


def _last_done(flight: InFlight) -> int | None:
    """Return the last offset of the longest done prefix of the cache (OFF-8)."""
    batches = flight.batches
    stop: int | None = None  # where the first batch begins that reaches the window
    window = flight.active_window
    if window is not None:
        stop = next((first for first, _, _ in batches.spans(window.gap_start)), None)
    done_through = max(flight.done_through, batches.first_offset - 1)
    flight.done_through = batches.done_through(done_through + 1, stop)
    return _prefix_end(flight, stop)


def _prefix_end(flight: InFlight, stop: int | None) -> int | None:
    end = flight.done_through
    if stop is not None and end >= stop:
        before = flight.batches.at_or_below(stop - 1)
        end = -1 if before is None else before.last_offset
    return end if end >= flight.batches.first_offset else None
