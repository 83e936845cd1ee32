"""The log start moved past the start offset (spec OFF-17..22)."""

from sharemesh.domain.share_partition.archive import archive_available
from sharemesh.domain.share_partition.in_flight import InFlight


def move_log_start(flight: InFlight, log_start_offset: int) -> bool:
    """Follow the log start; return whether the start offset moved (spec OFF-18).

    ACQUIRED records below it keep their locks and are archived when these end (OFF-19); nothing
    is written now (OFF-20).
    """
    old_start = flight.start_offset
    if log_start_offset <= old_start:
        return False
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
    if archive_available(flight, old_start, log_start_offset - 1):
        flight.find_next = True  # OFF-4
    return True
