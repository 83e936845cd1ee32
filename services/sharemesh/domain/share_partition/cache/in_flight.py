"""The in-flight cache of a share partition, and the numbers that stay true with it (spec IFB)."""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field

from sharemesh.domain.group_config import GroupConfig
from sharemesh.domain.ids import MemberId
from sharemesh.domain.share_partition.cache.cached_batch import CachedBatch
from sharemesh.domain.share_partition.cache.indexes import AvailableOffsets, Holders
from sharemesh.domain.share_partition.cache.record_status import (
    Lock,
    LockIndex,
    RecordStatus,
    SettledStatuses,
)


class GapWindow:
    """Holes in ``gap_start..end_offset`` must be fetched again; active by ``InFlight``."""

    __slots__ = ("end_offset", "gap_start", "scan_from")

    def __init__(self, gap_start: int, end_offset: int) -> None:
        self.gap_start = gap_start
        self.end_offset = end_offset
        self.scan_from = gap_start  # no hole lies in gap_start..scan_from - 1

    def move(self, gap_start: int) -> None:
        """Set where the holes begin, after a range was acquired (spec INI-11)."""
        self.scan_from = gap_start if gap_start < self.gap_start else max(gap_start, self.scan_from)
        self.gap_start = gap_start


Move = tuple[int, int, RecordStatus, RecordStatus]  # first, last, from, to


@dataclass(slots=True, eq=False)
class InFlight:
    """Cached batches in order, start and end offset, locks and counts (spec IFB).

    Every change of a record's status goes through ``put`` or ``put_runs``, which keep the
    delivery-complete count (as soon as a transition starts, ACK-21), the locks and the index of
    available offsets true.

    Attributes:
        end_offset: Last cached offset; equal to ``start_offset`` while the cache is empty (VOC-4).
        find_next: Something may be available below the end offset (spec OFF-4).
        done_through: All cached offsets up to here are done; the start offset is sought from here.
    """

    config: GroupConfig
    keys: list[int] = field(default_factory=list)  # first offsets of the batches
    batches: list[CachedBatch] = field(default_factory=list)
    start_offset: int = 0
    end_offset: int = 0
    delivery_complete_count: int = 0
    find_next: bool = False
    done_through: int = -1
    window: GapWindow | None = None
    locks: LockIndex = field(default_factory=LockIndex)
    available: AvailableOffsets = field(default_factory=AvailableOffsets)
    holders: Holders = field(default_factory=Holders)
    settled: SettledStatuses = field(default_factory=SettledStatuses)

    @property
    def in_flight_count(self) -> int:
        """Offsets from start to end, gaps included; 0 with an empty cache (spec VOC-5)."""
        return self.end_offset - self.start_offset + 1 if self.batches else 0

    @property
    def active_window(self) -> GapWindow | None:
        """The gap window while its end is still the end offset (spec INI-11)."""
        window = self.window
        return window if window is not None and window.end_offset == self.end_offset else None

    # ---- finding

    def floor(self, offset: int) -> int:
        """Return the index of the last batch that begins at or below ``offset``, or -1."""
        return bisect_right(self.keys, offset) - 1

    def index_from(self, offset: int) -> int:
        """Return the index of the first batch that ends at or after ``offset``."""
        index = bisect_right(self.keys, offset) - 1
        if index >= 0 and self.batches[index].last_offset >= offset:
            return index
        return index + 1

    def overlapping(self, first: int, last: int) -> list[CachedBatch]:
        """Return the batches that hold an offset of ``first..last``."""
        return self.batches[self.index_from(first) : bisect_right(self.keys, last)]

    def status_at(self, offset: int) -> RecordStatus | None:
        """Return the status of an offset, or None if it is not cached."""
        index = bisect_right(self.keys, offset) - 1
        if index < 0 or self.batches[index].last_offset < offset:
            return None
        return self.batches[index].status_at(offset)

    def held_batches(self, member_id: MemberId) -> list[CachedBatch]:
        """Return, ascending, the cached batches that the member may hold records of."""
        found = []
        for first in self.holders.batches_of(member_id):
            index = self.floor(first)
            if index >= 0 and self.keys[index] == first:
                found.append(self.batches[index])
        return found

    def first_available(self) -> int | None:
        """Return the lowest offset that can be acquired now (spec OFF-2)."""
        return self.available.first(self.status_at)

    # ---- changing

    def insert(self, batch: CachedBatch) -> None:
        """Add a batch; it must not overlap another (spec IFB-5)."""
        first = batch.first_offset
        keys = self.keys
        if not keys or first > keys[-1]:
            keys.append(first)
            self.batches.append(batch)
        else:
            index = bisect_right(keys, first)
            keys.insert(index, first)
            self.batches.insert(index, batch)
        if first <= self.done_through:
            self.done_through = first - 1
        for begin, end, status in batch.runs():
            self._entered(begin, end, status)
            if status.member_id:
                self.holders.add(status.member_id, first, keys[0])

    def put(
        self, batch: CachedBatch, first: int, last: int, old: RecordStatus, new: RecordStatus
    ) -> None:
        """Change one run, or a part of it, from ``old`` to ``new``."""
        batch.replace(first, last, new)
        count = last - first + 1
        if old.terminal is not new.terminal:
            live = count if first >= self.start_offset else self._live(first, last)
            self.delivery_complete_count += live if new.terminal else -live
        left, taken = old.lock, new.lock
        if left is not taken:
            if taken is not None:
                self.locks.enter(taken, count)
            if left is not None:
                self.locks.leave(left, count)
        if new.acquirable:
            self.available.add(first)
        elif old.acquirable:
            self._still_available(batch, last + 1)

    def put_runs(self, batch: CachedBatch, moves: Sequence[Move]) -> None:
        """Change a part of a batch, given whole as (first, last, old, new), in order."""
        starts: list[int] = []
        statuses: list[RecordStatus] = []
        previous = None
        for begin, end, old, new in moves:
            if new is not previous:
                starts.append(begin)
                statuses.append(new)
                previous = new
            if new.acquirable and old is not new:
                self.available.add(begin)
            if old.terminal is not new.terminal:
                live = self._live(begin, end)
                self.delivery_complete_count += live if new.terminal else -live
        self._change_locks(moves)
        last = moves[-1][1]
        batch.splice(moves[0][0], last, starts, statuses)
        self._still_available(batch, last + 1)

    def _change_locks(self, moves: Sequence[Move]) -> None:
        """Count who holds which lock; runs that leave the same one together."""
        lock: Lock | None = None
        left = 0
        for begin, end, old, new in moves:
            if old.lock is new.lock:
                continue
            if new.lock is not None:
                self.locks.enter(new.lock, end - begin + 1)
            if old.lock is not lock:
                if lock is not None:
                    self.locks.leave(lock, left)
                lock, left = old.lock, 0
            left += end - begin + 1
        if lock is not None:
            self.locks.leave(lock, left)

    def track_per_offset(self, batch: CachedBatch) -> None:
        """From now on each offset of the batch has its own lock (spec IFB-2, IFB-3).

        Offsets take over state, count and member, and the lock with the time that remains, as
        the youngest of its deadline. QUIRK, as Kafka's traces show: a transition is not taken
        over, so that the outcome of its write no longer changes these records.
        """
        if batch.per_offset:
            return
        batch.per_offset = True
        old = batch.status
        if old.lock is None and old.write_id is None:
            return
        lock = old.lock
        if lock is not None and not lock.fired:
            whole = (batch.first_offset, batch.last_offset)
            lock = Lock(lock.since_ms, lock.deadline_ms, *whole, tally=lock.tally)
        new = RecordStatus(
            old.state,
            old.delivery_count,
            old.member_id,
            lock,
            hand_backs_left=old.hand_backs_left,
        )
        self.put(batch, batch.first_offset, batch.last_offset, old, new)

    def stop_tallies(self) -> None:
        """Count no records for quotas any more: all locks are over at once (QUO-12)."""
        for batch in self.batches:
            for _, _, status in batch.runs():
                lock = status.lock
                if lock is not None and lock.tally is not None:
                    lock.tally.add(-lock.held)
                    lock.tally = None

    def drop_front(self, count: int) -> None:
        """Remove the first ``count`` batches; all of their records must be done."""
        del self.keys[:count]
        del self.batches[:count]

    # ---- what stays true

    def _entered(self, first: int, last: int, status: RecordStatus) -> None:
        if status.lock is not None:
            self.locks.enter(status.lock, last - first + 1)
        if status.terminal:
            self.delivery_complete_count += self._live(first, last)
        elif status.acquirable:
            self.available.add(first)

    def _still_available(self, batch: CachedBatch, offset: int) -> None:
        """Remember the rest of a run of which a lower part is no longer available."""
        if offset <= batch.last_offset and batch.status_at(offset).acquirable:
            self.available.add(offset)

    def _live(self, first: int, last: int) -> int:
        """Return how many of the offsets are at or above the start offset (spec VOC-13)."""
        start = self.start_offset
        if first >= start:
            return last - first + 1
        return last - start + 1 if last >= start else 0
