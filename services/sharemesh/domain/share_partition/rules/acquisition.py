"""What one ``Acquire`` has taken so far, and how small its lots are (spec LK-1, THR).

Records that failed often are delivered in small lots, so that one poisonous record fails alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from sharemesh.domain.delivery_state import DeliveryState
from sharemesh.domain.group_config import GroupConfig
from sharemesh.domain.share_partition.cache.cached_batch import CachedBatch, Run
from sharemesh.domain.share_partition.cache.in_flight import InFlight
from sharemesh.domain.share_partition.cache.record_status import HAND_BACKS_MAX, Lock, RecordStatus
from sharemesh.domain.share_partition.events import Acquire


@dataclass(slots=True, eq=False)
class Acquisition:
    """Ranges, count and the one lock of all that is acquired in this step (spec LK-1)."""

    flight: InFlight
    request: Acquire
    now_ms: int
    remaining: int
    count: int = 0
    throttled: bool = False
    ranges: list[tuple[int, int, int]] = field(default_factory=list)
    lock: Lock | None = None
    _statuses: dict[tuple[int, int], RecordStatus] = field(default_factory=dict)

    def status(
        self,
        first: int,
        last: int,
        delivery_count: int,
        hand_backs_left: int = HAND_BACKS_MAX,
    ) -> RecordStatus:
        """Return the status of ``first..last`` once acquired (rule T1, T2)."""
        lock = self.lock
        if lock is None:
            deadline_ms = self.now_ms + self.flight.config.record_lock_duration_ms
            tally = self.request.tally
            at_ms = self.request.acquired_at_ms
            terms = (self.now_ms, deadline_ms, first, last)
            lock = self.lock = Lock(*terms, tally=tally, acquired_at_ms=at_ms)
        else:
            lock.first_offset = min(lock.first_offset, first)
            lock.last_offset = max(lock.last_offset, last)
        key = (delivery_count, hand_backs_left)
        status = self._statuses.get(key)
        if status is None:
            status = self._statuses[key] = RecordStatus(
                DeliveryState.ACQUIRED,
                delivery_count,
                self.request.member_id,
                lock,
                hand_backs_left=hand_backs_left,
            )
        return status

    def acquire_run(
        self, batch: CachedBatch, first: int, last: int, old: RecordStatus, *, merge_from: int
    ) -> None:
        """Acquire a run of a cached batch (T2); merge results from index ``merge_from`` on."""
        count = old.delivery_count + 1  # ACQ-12
        flight = self.flight
        new = self.status(first, last, count, old.hand_backs_left)
        flight.put(batch, first, last, old, new)
        flight.holders.add(self.request.member_id, batch.first_offset, flight.batches.is_whole)
        ranges = self.ranges
        if len(ranges) > merge_from and ranges[-1][1] + 1 == first and ranges[-1][2] == count:
            ranges[-1] = (ranges[-1][0], last, count)
        else:
            ranges.append((first, last, count))
        self.took(last - first + 1)

    def took(self, record_count: int) -> None:
        """Count offsets against the budget."""
        self.count += record_count
        self.remaining -= record_count

    def move_window(self, gap_start: int) -> None:
        """Move the gap window up, or discard it once the end offset has passed it (INI-11)."""
        window = self.flight.active_window
        if window is None or gap_start > window.end_offset:
            self.flight.window = None
        else:
            window.move(gap_start)


def suspicious_from(config: GroupConfig) -> int:
    """Return the delivery count from which a record is suspicious (THR-1)."""
    return max(2, (config.delivery_count_limit + 1) // 2)


def is_throttled(config: GroupConfig, runs: Sequence[Run]) -> bool:
    """Return whether any acquirable record of these runs is suspicious (THR-2, THR-7)."""
    threshold = suspicious_from(config)
    return any(status.acquirable and status.delivery_count >= threshold for _, _, status in runs)


class ThrottledLot:
    """How many offsets of one cached batch go out at once (THR-4, THR-5, ACQ-10).

    The size of a small lot is found at the first suspicious record. QUIRK, as Kafka's traces
    show: it closes the lot only when the count meets it exactly, so a lot that was larger
    already when the first suspicious record came is not cut.
    """

    def __init__(self, config: GroupConfig, batch_size: int, record_limit: int | None) -> None:
        self.count = 0
        self.closed = False
        self._batch_size = batch_size
        self._record_limit = record_limit
        self._limit = config.delivery_count_limit
        self._threshold = suspicious_from(config)
        self._small: int | None = None

    def take(self, delivery_count: int, record_count: int) -> int:
        """Return how many of a run of records go out; ``closed`` says that nothing may follow."""
        if self._limit > 2 and delivery_count == self._limit - 1:  # THR-5, THR-6
            if self.count:
                self.closed = True
                return 0
            self.closed = True
            self.count = 1
            return 1
        if self._small is None and delivery_count >= self._threshold:  # THR-4
            self._small = max(1, self._batch_size >> (delivery_count - self._threshold + 1))
        taken = record_count
        for bound in (self._small, self._record_limit):
            if bound is not None and self.count < bound <= self.count + taken:
                taken = bound - self.count
                self.closed = True
        self.count += taken
        return taken
