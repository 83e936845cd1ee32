"""Acquisition locks that end without an acknowledgement (spec LK, REL).

A lock ends because its deadline has passed, or because the session of its member has ended.
"""

from collections.abc import Callable, Iterator

from sharemesh.domain.delivery_state import Cause, DeliveryState
from sharemesh.domain.ids import MemberId
from sharemesh.domain.share_partition.cache.cached_batch import CachedBatch, Run
from sharemesh.domain.share_partition.cache.in_flight import InFlight, Move
from sharemesh.domain.share_partition.cache.record_status import Lock, RecordStatus
from sharemesh.domain.share_partition.effects import Lapse
from sharemesh.domain.share_partition.rules.pending_transitions import PendingTransitions
from sharemesh.domain.share_partition.rules.retry import expired_until
from sharemesh.domain.share_partition.rules.transitions import TARGETS, Trigger


class Expiry:
    """One pass over the locks: expires what is due, at most ``limit`` units (None: all).

    A unit is a whole batch, or one offset of a batch that is tracked per offset (LK-2).
    """

    __slots__ = ("_changes_of", "_draw", "_flight", "_lapsed", "_left", "_now_ms", "record_count")

    def __init__(
        self,
        flight: InFlight,
        limit: int | None,
        changes_of: Callable[[MemberId], PendingTransitions],
        draw: float = 0.0,
    ) -> None:
        """``draw`` is chance for the jitter of the group's back-off (RTY-6)."""
        self._now_ms = 0
        self._draw = draw
        self._flight = flight
        self._left = limit
        self._changes_of = changes_of
        self._lapsed: dict[MemberId, int] = {}
        self.record_count = 0

    def run(self, now_ms: int) -> None:
        """Expire due locks, oldest deadline first; the new state is in force at once (LK-6)."""
        self._now_ms = now_ms
        while self._left is None or self._left > 0:
            lock = self._flight.locks.pop_due(now_ms)
            if lock is None:
                return
            stopped_at = self._expire(lock)
            if stopped_at is not None:
                lock.first_offset = stopped_at
                self._flight.locks.add_again(lock)

    def lapses(self) -> tuple[Lapse, ...]:
        """Return the members whose locks ended, each with the latest time it got one (HBK-10)."""
        return tuple(Lapse(member_id, since_ms) for member_id, since_ms in self._lapsed.items())

    def _expire(self, lock: Lock) -> int | None:
        """Expire one lock; return where the limit stopped it, or None."""
        flight = self._flight
        for batch in flight.batches.unfinished(lock.first_offset, lock.last_offset):
            if self._left == 0:
                return max(batch.first_offset, lock.first_offset)
            if _straddles(batch, flight.start_offset) and batch.status.lock is lock:
                self._expire_straddling(batch)
                continue
            for first, last, status in self._units(batch, lock):
                if self._left == 0:
                    return first
                self._expire_run(batch, first, last, status)
                self._spend(1)
        return None

    def _expire_straddling(self, batch: CachedBatch) -> None:
        """Expire a batch that holds the start offset, as one unit (LK-5)."""
        if batch.status.state is not DeliveryState.ACQUIRED:
            return
        self._flight.track_per_offset(batch)
        for first, last, status in batch.runs():
            self._expire_run(batch, first, last, status)
        self._spend(1)

    def _units(self, batch: CachedBatch, lock: Lock) -> Iterator[tuple[int, int, RecordStatus]]:
        """Yield what is still ACQUIRED under this lock (LK-3, LK-4, LK-9)."""
        low = max(batch.first_offset, lock.first_offset)
        high = min(batch.last_offset, lock.last_offset)
        for first, last, status in batch.runs_between(low, high):
            if status.lock is not lock or status.state is not DeliveryState.ACQUIRED:
                continue
            if batch.per_offset and self._left is not None:
                for offset in range(first, last + 1):
                    yield offset, offset, status
            else:
                yield first, last, status

    def _expire_run(self, batch: CachedBatch, first: int, last: int, old: RecordStatus) -> None:
        flight = self._flight
        member_id = old.member_id
        if old.lock is not None and not old.lock.acquired_in:  # HBK-10
            known_ms = self._lapsed.get(member_id, old.lock.since_ms)
            self._lapsed[member_id] = max(known_ms, old.lock.since_ms)
        changes = self._changes_of(member_id)
        for begin, end, below in cut_at_start(flight.start_offset, first, last):
            target, cause = TARGETS[Trigger.LOCK_EXPIRY], Cause.LOCK_EXPIRY  # T9, T10
            retry = flight.config.retry
            until_ms = expired_until(retry, old.delivery_count, self._now_ms, self._draw)
            if below:  # T11
                target, cause = TARGETS[Trigger.LOCK_EXPIRY_BELOW_START], Cause.LOG_START
            new = changes.settle((begin, end, old), target, cause, until_ms)
            if new.acquirable:
                flight.find_next = True  # OFF-4
            flight.put(batch, begin, end, old, new)
        self.record_count += last - first + 1

    def _spend(self, units: int) -> None:
        if self._left is not None:
            self._left -= units


def release_member(
    flight: InFlight, member_id: MemberId, changes: PendingTransitions, principal: str = ""
) -> None:
    """Start to release every record that the member holds (REL-1, T12).

    What was handed over with another principal's lock stays held (HND-10).
    """
    for batch in flight.held_batches(member_id):
        if not batch.per_offset and not _held(batch.status, member_id, principal):
            continue
        if batch.first_offset < flight.start_offset <= batch.last_offset:  # REL-2
            flight.track_per_offset(batch)
        moves: list[Move] = []
        for run in batch.runs():
            if _held(run[2], member_id, principal):  # REL-3, REL-6
                moves.extend(_released(flight, changes, run))
            elif moves:
                moves.append((run[0], run[1], run[2], run[2]))
        if moves:
            changes.apply(batch, moves)


def _held(status: RecordStatus, member_id: MemberId, principal: str) -> bool:
    if status.state is not DeliveryState.ACQUIRED or status.member_id != member_id:
        return False
    return status.lock is None or status.lock.principal in ("", principal)


def _released(flight: InFlight, changes: PendingTransitions, run: Run) -> list[Move]:
    moves = []
    for first, last, below in cut_at_start(flight.start_offset, run[0], run[1]):
        target, cause = TARGETS[Trigger.SESSION_CLOSE], Cause.SESSION_CLOSE
        if below:  # as T11
            target, cause = TARGETS[Trigger.LOCK_EXPIRY_BELOW_START], Cause.LOG_START
        moves.append((first, last, run[2], changes.start(first, last, run[2], target, cause)))
    return moves


def cut_at_start(start_offset: int, first: int, last: int) -> list[tuple[int, int, bool]]:
    """Return ``first..last`` as (first, last, whether below the start offset)."""
    if last < start_offset:
        return [(first, last, True)]
    if first >= start_offset:
        return [(first, last, False)]
    return [(first, start_offset - 1, True), (start_offset, last, False)]


def _straddles(batch: CachedBatch, start_offset: int) -> bool:
    return not batch.per_offset and batch.first_offset < start_offset <= batch.last_offset
