"""Locks go from one leader to the next without ending (spec HND-3 to HND-9)."""

from collections import deque
from collections.abc import Callable, Iterator, Sequence

from sharemesh.domain.delivery_state import DeliveryState
from sharemesh.domain.handed_lock import HANDED_BYTES_MAX, HANDED_LOCKS_MAX, HandedLock
from sharemesh.domain.ids import MemberId
from sharemesh.domain.packed_batches import StateBatches
from sharemesh.domain.quota.counts import HeldRecords
from sharemesh.domain.share_partition.cache.in_flight import InFlight
from sharemesh.domain.share_partition.cache.record_status import (
    HAND_BACKS_MAX,
    Lock,
    RecordStatus,
)
from sharemesh.domain.state_batch import StateBatch

Piece = tuple[int, int, StateBatch | HandedLock]


def holders(flight: InFlight, among: Callable[[MemberId], bool]) -> Iterator[MemberId]:
    """Yield the members, among some, that hold a record (HND-4)."""
    for member_id in flight.holders.members():
        if among(member_id) and any(
            status.state is DeliveryState.ACQUIRED and status.member_id == member_id
            for batch in flight.held_batches(member_id)
            for _, _, status in batch.runs()
        ):
            yield member_id


def held_locks(
    flight: InFlight, leader_epoch: int, goes_on: Callable[[MemberId], str], now_ms: int
) -> tuple[HandedLock, ...]:
    """Return, ascending, the locks of members that go on at the next leader (HND-5, HND-8).

    What is in transition is left out: nobody knows whether its write is stored.
    """
    locks: list[HandedLock] = []
    room = HANDED_BYTES_MAX
    for lock in _held(flight, leader_epoch, goes_on, now_ms):
        room -= lock.size_bytes
        if room < 0 or len(locks) == HANDED_LOCKS_MAX:
            break
        locks.append(lock)
    return tuple(locks)


def _held(
    flight: InFlight, leader_epoch: int, goes_on: Callable[[MemberId], str], now_ms: int
) -> Iterator[HandedLock]:
    for batch in flight.batches.kept_whole():
        for first, last, status in batch.runs():
            lock = status.lock
            if status.state is not DeliveryState.ACQUIRED or lock is None or lock.fired:
                continue
            if last < flight.start_offset or lock.deadline_ms <= now_ms:
                continue
            principal = goes_on(status.member_id)
            if principal and lock.principal in ("", principal):
                yield HandedLock(
                    status.member_id,
                    max(first, flight.start_offset),
                    last,
                    status.delivery_count,
                    lock.deadline_ms - now_ms,
                    lock.acquired_in or leader_epoch,
                    lock.acquired_at_ms,
                    status.hand_backs_left,
                    principal,
                )


def fault_in_locks(locks: Sequence[HandedLock], leader_epoch: int) -> str | None:
    """Return what is wrong with locks that were handed over, or None (HND-7)."""
    end = -1
    for lock in locks:
        named = f"lock {lock.first_offset}-{lock.last_offset} that was handed over"
        if lock.first_offset <= end or lock.last_offset < lock.first_offset:
            return f"{named} is empty or begins before {end + 1}"
        is_owned = lock.member_id and lock.principal
        if not is_owned or lock.delivery_count < 1 or lock.remaining_ms < 0:
            return f"{named} is nobody's, was never delivered, or is over"
        if not 0 < lock.leader_epoch < leader_epoch:
            return f"{named} is of leader epoch {lock.leader_epoch}, not before {leader_epoch}"
        end = lock.last_offset
    return None


def with_locks(
    batches: StateBatches, locks: Sequence[HandedLock], start_offset: int
) -> Iterator[Piece]:
    """Yield, ascending, what each stretch of the durable state is once locks are put on it.

    What is finished stays finished, and what was delivered since stays so (HND-7).
    """
    waiting = deque(
        lock._replace(first_offset=max(lock.first_offset, start_offset))
        for lock in locks
        if lock.last_offset >= start_offset
    )
    for batch in batches:
        first, last = batch.first_offset, batch.last_offset
        while waiting and waiting[0].first_offset <= last:
            lock = waiting.popleft()
            if lock.first_offset < first:
                end = min(lock.last_offset, first - 1)
                yield lock.first_offset, end, lock
                if end < lock.last_offset:
                    waiting.appendleft(lock._replace(first_offset=first))
                continue
            if lock.first_offset > first:
                yield first, lock.first_offset - 1, batch
            end = min(lock.last_offset, last)
            yield lock.first_offset, end, lock if _still_holds(lock, batch) else batch
            first = end + 1
            if end < lock.last_offset:
                waiting.appendleft(lock._replace(first_offset=first))
        if first <= last:
            yield first, last, batch
    for lock in waiting:
        yield lock.first_offset, lock.last_offset, lock


def _still_holds(lock: HandedLock, batch: StateBatch) -> bool:
    """Whether the durable state says nothing that came after this delivery, or ended it."""
    is_open = batch.delivery_state is DeliveryState.AVAILABLE
    return is_open and batch.delivery_count <= lock.delivery_count


class TakenLocks:
    """Makes the statuses of records whose locks were handed over, as of ``now_ms`` (HND-6)."""

    def __init__(self, now_ms: int, tally_of: Callable[[str], HeldRecords | None]) -> None:
        self._now_ms = now_ms
        self._tally_of = tally_of

    def status(self, first: int, last: int, lock: HandedLock) -> RecordStatus:
        """Return the status of ``first..last``, which the member holds for what is left."""
        now_ms = self._now_ms
        taken = Lock(
            now_ms,
            now_ms + lock.remaining_ms,
            first,
            last,
            tally=self._tally_of(lock.principal),
            acquired_at_ms=lock.acquired_at_ms,
            acquired_in=lock.leader_epoch,
            principal=lock.principal,
        )
        return RecordStatus(
            DeliveryState.ACQUIRED,
            lock.delivery_count,
            lock.member_id,
            taken,
            hand_backs_left=min(max(lock.hand_backs_left, 0), HAND_BACKS_MAX),
        )
