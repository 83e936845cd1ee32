"""What must be true of a share partition after every step."""

from collections import Counter

from sharemesh.domain.delivery_state import DeliveryState
from sharemesh.domain.share_partition.cache.cached_batch import CachedBatch
from sharemesh.domain.share_partition.cache.in_flight import InFlight
from sharemesh.domain.share_partition.cache.record_status import Lock, RecordStatus


class BrokenInvariantError(AssertionError):
    """The machine is in a state that no rule allows: a bug of ours."""


def check(flight: InFlight, pending_writes: frozenset[int]) -> None:
    """Look at every run.

    Raises:
        BrokenInvariantError: Names the rule, the offset and what was found.
    """
    _check_order(flight)
    terminal = delayed = 0
    held: Counter[Lock] = Counter()
    for batch in flight.batches:
        for first, last, status in batch.runs():
            _check_status(first, status, pending_writes)
            if status.terminal:
                terminal += max(0, last - max(first, flight.start_offset) + 1)
            if status.delayed:
                delayed += last - first + 1
                _check_delay(flight, first, status)
            if status.lock is not None:
                held[status.lock] += last - first + 1
    _require(
        terminal == flight.delivery_complete_count,
        f"VOC-13: delivery-complete count {flight.delivery_complete_count}, found {terminal}",
    )
    _require(
        delayed == flight.delays.record_count,
        f"RTY-2: {flight.delays.record_count} records are delayed, found {delayed}",
    )
    _check_locks(flight, held)
    _check_holders(flight)
    _check_next(flight)


def _require(condition: bool, message: str) -> None:  # noqa: FBT001
    if not condition:
        raise BrokenInvariantError(message)


def _check_order(flight: InFlight) -> None:
    previous: CachedBatch | None = None
    _require(flight.batches.is_well_formed(), "blocks of batches: not well formed")
    found = sum(batch.run_count for batch in flight.batches)
    _require(flight.run_count == found, f"runs: {flight.run_count} counted, {found} found")
    for batch in flight.batches:
        _require(batch.is_well_formed(), f"batch at {batch.first_offset}: runs not well formed")
        if previous is not None:
            _require(
                previous.last_offset < batch.first_offset,
                f"IFB-5: batch at {batch.first_offset} overlaps the one before",
            )
        previous = batch
    if previous is None:
        _require(flight.start_offset == flight.end_offset, "VOC-4: empty cache, start is not end")
        _require(flight.delivery_complete_count == 0, "VOC-13: empty cache, count is not 0")
    else:
        _require(
            flight.end_offset >= previous.last_offset,
            f"VOC-4: end offset {flight.end_offset} before {previous.last_offset}",
        )
        _require(flight.start_offset <= flight.end_offset, "VOC-3: start offset beyond the end")


def _check_status(offset: int, status: RecordStatus, pending_writes: frozenset[int]) -> None:
    acquired = status.state is DeliveryState.ACQUIRED
    _require(acquired == bool(status.member_id), f"RS-5: owner of {status} at {offset}")
    if acquired:
        _require(status.lock is not None, f"LK-2: no lock for {status} at {offset}")
        _require(status.write_id is None, f"RS-9: ACQUIRED in transition at {offset}")
        _require(status.delivery_count >= 1, f"RS-6: {status} at {offset}")
    elif status.write_id is not None:
        _require(status.write_id in pending_writes, f"RS-9: write of {status} at {offset} is over")
    elif status.terminal:
        _require(status.lock is None, f"RS-12: lock left at {offset}: {status}")
    _require(status.state is not DeliveryState.ARCHIVING, f"ARCHIVING at {offset}")


def _check_delay(flight: InFlight, first: int, status: RecordStatus) -> None:
    _require(status.state is DeliveryState.AVAILABLE, f"RTY-2: {status} at {first} is delayed")
    earliest_ms = flight.delays.earliest_ms()
    is_awaited = earliest_ms is not None and earliest_ms <= status.not_before_ms
    _require(is_awaited, f"RTY-3: nobody wakes {first} at {status.not_before_ms}")


def _check_locks(flight: InFlight, held: Counter[Lock]) -> None:
    running = set(flight.locks.running())
    for lock, count in held.items():
        _require(lock.held == count, f"LK-2: lock holds {count} records, says {lock.held}")
        _require(lock.fired or lock in running, "LK-2: a lock is not waited for")
    for lock in running:
        _require(lock in held, "LK-2: a lock without records")
    earliest = min((lock.deadline_ms for lock in running), default=None)
    found = flight.locks.earliest_ms()
    _require(found == earliest, f"LK-3: the next deadline is {found}, of what is held {earliest}")


def _check_holders(flight: InFlight) -> None:
    for batch in flight.batches:
        for first, _, status in batch.runs():
            owner = status.saved.member_id if status.saved else status.member_id
            if owner:
                known = batch.first_offset in flight.holders.batches_of(owner)
                _require(known, f"REL-1: a release of {owner} would miss {first}")


def _check_next(flight: InFlight) -> None:
    available = next(
        (
            first
            for batch in flight.batches
            for first, _, status in batch.runs()
            if status.acquirable
        ),
        None,
    )
    found = flight.first_available()
    _require(found == available, f"OFF-2: first available is {available}, index says {found}")
    done_through = flight.done_through
    for batch in flight.batches:
        for first, _, status in batch.runs():
            _require(status.done or first > done_through, f"OFF-8: {first} is not done")
