"""The in-flight cache is filled from durable state (spec INI-7..12)."""

from collections.abc import Iterator

from sharemesh.domain.delivery_state import DeliveryState
from sharemesh.domain.handed_lock import HandedLock
from sharemesh.domain.packed_batches import StateBatches
from sharemesh.domain.share_partition.cache.cached_batch import CachedBatch
from sharemesh.domain.share_partition.cache.in_flight import GapWindow, InFlight
from sharemesh.domain.share_partition.events import StateRead, uncounted
from sharemesh.domain.share_partition.rules.hand_over import Piece, TakenLocks, with_locks
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


def load(
    flight: InFlight,
    start_offset: int,
    batches: StateBatches,
    read: StateRead | None = None,
    now_ms: int = 0,
) -> None:
    """Fill an empty cache (INI-8..12); the batches passed ``fault_in``.

    Locks of ``read`` that the leader before handed over are taken as they lie, if they may be
    (HND-7).
    """
    flight.start_offset = flight.end_offset = start_offset
    expected, gap_start = start_offset, None
    locks = () if read is None else read.handed_over
    pieces = with_locks(batches, locks, start_offset) if locks else _as_they_are(batches)
    taken = TakenLocks(now_ms, uncounted if read is None else read.tally_of)
    for first, last, piece in pieces:
        if gap_start is None and first > expected:
            gap_start = expected
        if isinstance(piece, HandedLock):
            flight.insert(CachedBatch(first, last, taken.status(first, last, piece)))
        else:
            status = flight.settled.get(_LOADED_AS[piece.delivery_state], piece.delivery_count)
            if piece.not_before_ms:  # RTY-8
                status = status.until(piece.not_before_ms)
            flight.load(first, last, status)
        expected = last + 1
    if flight.batches:  # INI-9
        flight.end_offset = expected - 1
        flight.find_next = True
    if gap_start is not None:  # INI-10
        flight.window = GapWindow(gap_start, flight.end_offset)
    move_start_offset(flight)  # INI-12


def _as_they_are(batches: StateBatches) -> Iterator[Piece]:
    for batch in batches:
        yield batch.first_offset, batch.last_offset, batch
