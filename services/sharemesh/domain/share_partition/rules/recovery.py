"""The in-flight cache is filled from durable state (spec INI-7..12)."""

from sharemesh.domain.delivery_state import DeliveryState
from sharemesh.domain.packed_batches import StateBatches
from sharemesh.domain.share_partition.cache.in_flight import GapWindow, InFlight
from sharemesh.domain.share_partition.events import StateRead
from sharemesh.domain.share_partition.rules.start_offset import move_start_offset

_LOADED_AS = {
    DeliveryState.AVAILABLE: DeliveryState.AVAILABLE,
    DeliveryState.ACKNOWLEDGED: DeliveryState.ACKNOWLEDGED,
    # Without a dead-letter queue nothing would ever finish it (INI-14 is left out).
    DeliveryState.ARCHIVING: DeliveryState.ARCHIVED,
    DeliveryState.ARCHIVED: DeliveryState.ARCHIVED,
}


def fault_in(state: StateRead, start_offset: int) -> str | None:
    """Return what is wrong with durable state that was read, or None (INI-7)."""
    end = start_offset - 1
    for batch in state.batches:
        first, last = batch.first_offset, batch.last_offset
        if first <= end or last < first:
            return f"batch {first}-{last} of the durable state is empty or begins before {end + 1}"
        if batch.delivery_state not in _LOADED_AS:
            return f"batch {first}-{last} of the durable state is {batch.delivery_state!r}"
        end = last
    return None


def load(flight: InFlight, start_offset: int, batches: StateBatches) -> None:
    """Fill an empty cache (INI-8..12); the batches passed ``fault_in``."""
    flight.start_offset = flight.end_offset = start_offset
    expected, gap_start = start_offset, None
    for batch in batches:
        if gap_start is None and batch.first_offset > expected:
            gap_start = expected
        status = flight.settled.get(_LOADED_AS[batch.delivery_state], batch.delivery_count)
        if batch.not_before_ms:  # RTY-8
            status = status.until(batch.not_before_ms)
        flight.load(batch.first_offset, batch.last_offset, status)
        expected = batch.last_offset + 1
    if batches:  # INI-9
        flight.end_offset = batches[-1].last_offset
        flight.find_next = True
    if gap_start is not None:  # INI-10
        flight.window = GapWindow(gap_start, flight.end_offset)
    move_start_offset(flight)  # INI-12
