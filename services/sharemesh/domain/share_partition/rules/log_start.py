"""The log start moved past the start offset (spec OFF-17..22)."""

from sharemesh.domain.share_partition.cache.in_flight import InFlight
from sharemesh.domain.share_partition.rules.archive import archive_available


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
    """Give up what the gap window has below the log start; return whether there was anything.

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
