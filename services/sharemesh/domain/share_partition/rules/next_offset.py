"""The next fetch offset and whether anything can be acquired (spec OFF-1..6)."""

from sharemesh.domain.share_partition.cache.in_flight import GapWindow, InFlight


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
