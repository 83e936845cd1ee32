"""What one ``Acquire`` has taken so far."""

from sharemesh.domain.delivery_state import DeliveryState
from sharemesh.domain.share_partition.cache.cached_batch import CachedBatch
from sharemesh.domain.share_partition.cache.in_flight import InFlight
from sharemesh.domain.share_partition.cache.locks import Lock
from sharemesh.domain.share_partition.cache.record_status import HAND_BACKS_MAX, RecordStatus
from sharemesh.domain.share_partition.events import Acquire


class Acquisition:
    """Ranges, count and the one lock of all that is acquired in this step (spec LK-1)."""

    __slots__ = (
        "_now_ms",
        "_statuses",
        "count",
        "flight",
        "lock",
        "ranges",
        "remaining",
        "request",
        "throttled",
    )

    def __init__(self, flight: InFlight, request: Acquire, now_ms: int, budget: int) -> None:
        self.flight = flight
        self.request = request
        self.remaining = budget
        self.count = 0
        self.throttled = False
        self.ranges: list[tuple[int, int, int]] = []
        self.lock: Lock | None = None
        self._now_ms = now_ms
        self._statuses: dict[tuple[int, int], RecordStatus] = {}

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
            deadline_ms = self._now_ms + self.flight.config.record_lock_duration_ms
            lock = self.lock = Lock(self._now_ms, deadline_ms, first, last)
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
        flight.holders.add(self.request.member_id, batch.first_offset, flight.keys[0])
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
