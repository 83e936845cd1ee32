"""The in-flight cache of a share partition, and the numbers that stay true with it (spec IFB)."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum

from sharemesh.domain.group_config import GroupConfig, InFlightLimitType
from sharemesh.domain.ids import MemberId
from sharemesh.domain.share_partition.cache.cached_batch import CachedBatch
from sharemesh.domain.share_partition.cache.cached_batches import CachedBatches
from sharemesh.domain.share_partition.cache.delays import Delays
from sharemesh.domain.share_partition.cache.indexes import AvailableOffsets, Holders
from sharemesh.domain.share_partition.cache.record_status import (
    Lock,
    LockIndex,
    RecordStatus,
    SettledStatuses,
)

UNLIMITED = 2**31 - 1


class InFlightBar(IntEnum):
    """What may not go out now, the stricter the higher."""

    NONE = 0
    END = 1  # too many runs, or too wide a span: nothing above the end offset
    LOCKS = 2  # too many records held: nothing


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
        counts_locks: Whether the limit bounds held records, not the span of offsets (WIN-1).
        end_offset: Last cached offset; equal to ``start_offset`` while the cache is empty (VOC-4).
        find_next: Something may be available below the end offset (spec OFF-4).
        run_count: Runs of equal records, those of packed batches included.
        finished: Batches that became done as a whole and may be packed (WIN-8).
        done_through: All cached offsets up to here are done; the start offset is sought from here.
    """

    config: GroupConfig
    counts_locks: bool = field(init=False)  # of ``config``, which only ``configure`` changes
    batches: CachedBatches = field(default_factory=CachedBatches)
    run_count: int = 0
    finished: list[CachedBatch] = field(default_factory=list)
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
    delays: Delays = field(default_factory=Delays)

    def __post_init__(self) -> None:
        self.configure(self.config)

    def configure(self, config: GroupConfig) -> None:
        """Take other settings of the group."""
        self.config = config
        self.counts_locks = config.in_flight_limit_type is InFlightLimitType.LOCKS

    @property
    def in_flight_count(self) -> int:
        """Offsets from start to end, gaps included; 0 with an empty cache (spec VOC-5)."""
        return self.end_offset - self.start_offset + 1 if self.batches else 0

    @property
    def room(self) -> int:
        """How many records above the end offset may be acquired now (OFF-6, ACQ-2, WIN-3)."""
        limit = self.config.partition_max_record_locks
        if not self.counts_locks:
            return limit - self.in_flight_count
        held = self.locks.held_count
        return min(limit - held, self.config.partition_max_runs - self.used_runs)

    @property
    def used_runs(self) -> int:
        """What counts against the bound of runs: each held record may become one (WIN-4)."""
        return self.run_count + self.locks.held_count

    @property
    def lock_room(self) -> int:
        """How many records may be acquired at all: no limit if the span counts (WIN-3)."""
        if not self.counts_locks:
            return UNLIMITED
        return self.config.partition_max_record_locks - self.locks.held_count

    @property
    def bar(self) -> InFlightBar:
        """What may not go out now (OFF-6, WIN-3, WIN-5)."""
        if self.lock_room <= 0:
            return InFlightBar.LOCKS
        return InFlightBar.NONE if self.room > 0 else InFlightBar.END

    @property
    def active_window(self) -> GapWindow | None:
        """The gap window while its end is still the end offset (spec INI-11)."""
        window = self.window
        return window if window is not None and window.end_offset == self.end_offset else None

    @property
    def earliest_ms(self) -> int | None:
        """When the next lock ends or the next delay does, or None."""
        lock_ms, delay_ms = self.locks.earliest_ms(), self.delays.earliest_ms()
        if lock_ms is None or delay_ms is None:
            return delay_ms if lock_ms is None else lock_ms
        return min(lock_ms, delay_ms)

    # ---- finding

    def held_batches(self, member_id: MemberId) -> list[CachedBatch]:
        """Return, ascending, the cached batches that the member may hold records of."""
        found = []
        for first in self.holders.batches_of(member_id):
            batch = self.batches.at_or_below(first)
            if batch is not None and batch.first_offset == first:
                found.append(batch)
        return found

    def first_available(self) -> int | None:
        """Return the lowest offset that can be acquired now (spec OFF-2)."""
        return self.available.first(self.batches.status_at)

    # ---- changing

    def insert(self, batch: CachedBatch) -> None:
        """Add a batch; it must not overlap another (spec IFB-5)."""
        first = batch.first_offset
        self.batches.insert(first, batch.last_offset, batch)
        if first <= self.done_through:
            self.done_through = first - 1
        runs = batch.runs()
        self.run_count += len(runs)
        for begin, end, status in runs:
            self._entered(begin, end, status)
            if status.member_id:
                self.holders.add(status.member_id, first, self.batches.is_whole)

    def put(
        self, batch: CachedBatch, first: int, last: int, old: RecordStatus, new: RecordStatus
    ) -> None:
        """Change one run, or a part of it, from ``old`` to ``new``."""
        if batch.is_packed:
            self.batches.unpack(batch)
        self.run_count += batch.replace(first, last, new)
        count = last - first + 1
        if old.done is not new.done:
            batch.open_count += -count if new.done else count
            if self.counts_locks and not batch.open_count:  # WIN-8
                self.finished.append(batch)
        if old.terminal is not new.terminal:
            live = count if first >= self.start_offset else self._live(first, last)
            self.delivery_complete_count += live if new.terminal else -live
        left, taken = old.lock, new.lock
        if taken is not None and taken is not left:
            self.locks.enter(taken, count)
        if left is not None and left is not taken:
            self.locks.leave(left, count)
        if new.acquirable:
            self.available.add(first)
        elif old.acquirable:
            self._still_available(batch, last + 1)
        if old.delayed or new.delayed:
            self._delay(first, last, old, new)

    def put_runs(self, batch: CachedBatch, moves: Sequence[Move]) -> None:
        """Change a part of a batch, given whole as (first, last, old, new), in order.

        A packed batch has one run, which ``put`` changes.
        """
        starts: list[int] = []
        statuses: list[RecordStatus] = []
        previous = None
        complete = opened = 0
        start_offset, available = self.start_offset, self.available
        for begin, end, old, new in moves:
            if new is not previous:
                starts.append(begin)
                statuses.append(new)
                previous = new
            if new.acquirable and old is not new:
                available.add(begin)
            if old.terminal is not new.terminal:
                live = end - begin + 1 if begin >= start_offset else self._live(begin, end)
                complete += live if new.terminal else -live
            if old.done is not new.done:
                opened += begin - end - 1 if new.done else end - begin + 1
            if old.delayed or new.delayed:
                self._delay(begin, end, old, new)
        self.delivery_complete_count += complete
        batch.open_count += opened
        self._change_locks(moves)
        last = moves[-1][1]
        self.run_count += batch.splice(moves[0][0], last, starts, statuses)
        if self.counts_locks and not batch.open_count:  # WIN-8
            self.finished.append(batch)
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
        if batch.is_packed:
            self.batches.unpack(batch)
        batch.per_offset = True
        old = batch.status
        if old.lock is None and old.write_id is None:
            return
        lock = old.lock
        if lock is not None and not lock.fired:
            whole = (batch.first_offset, batch.last_offset)
            lock = lock.again(lock.since_ms, lock.deadline_ms, *whole)
        new = RecordStatus(
            old.state,
            old.delivery_count,
            old.member_id,
            lock,
            hand_backs_left=old.hand_backs_left,
        )
        if old.not_before_ms:
            new = new.until(old.not_before_ms)
        self.put(batch, batch.first_offset, batch.last_offset, old, new)

    def stop_tallies(self) -> None:
        """Count no records for quotas any more: all locks are over at once (QUO-12)."""
        for batch in self.batches.kept_whole():
            for _, _, status in batch.runs():
                lock = status.lock
                tally = None if lock is None else lock.tally
                if lock is not None and tally is not None:
                    lock.tally = None
                    tally.count -= lock.held
                    if tally.is_awaited:
                        tally.tell()

    def drop_below(self, offset: int) -> bool:
        """Remove the batches that begin below ``offset``, all done; return whether there were."""
        gone = self.batches.drop_below(offset)
        self.run_count -= gone
        return gone > 0

    def load(self, first: int, last: int, status: RecordStatus) -> None:
        """Add a batch of durable state; a packed one if the limit counts locks (WIN-8)."""
        if not self.counts_locks:
            self.insert(CachedBatch(first, last, status))
            return
        self.batches.insert(first, last, status)
        self.run_count += 1
        self._entered(first, last, status)

    def pack(self) -> None:
        """Pack the batches that became done and are still there (WIN-8)."""
        for batch in self.finished:
            if not batch.open_count and self.batches.holds(batch):
                self.run_count += self.batches.pack(batch)
        self.finished.clear()

    def clear(self) -> None:
        """Remove all batches; all of their records must be done."""
        self.batches.clear()
        self.run_count = self.delivery_complete_count = 0

    # ---- what stays true

    def _delay(self, first: int, last: int, old: RecordStatus, new: RecordStatus) -> None:
        """Count who waits for its not-before (RTY-2)."""
        if old.delayed:
            self.delays.left(last - first + 1)
        if new.delayed:
            self.delays.add(first, last, new.not_before_ms, self.start_offset)

    def _entered(self, first: int, last: int, status: RecordStatus) -> None:
        if status.delayed:
            self.delays.add(first, last, status.not_before_ms, self.start_offset)
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
