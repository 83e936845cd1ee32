"""What may be seen of a share partition; nothing here changes anything."""

from collections.abc import Callable, Iterator

from sharemesh.domain.delivery_state import Cause
from sharemesh.domain.group_config import GroupConfig
from sharemesh.domain.ids import MemberId, SharePartitionKey
from sharemesh.domain.share_partition import invariants
from sharemesh.domain.share_partition.cache.in_flight import InFlight, InFlightBar
from sharemesh.domain.share_partition.events import Lifecycle
from sharemesh.domain.share_partition.rules.hand_over import holders
from sharemesh.domain.share_partition.rules.pending_transitions import PendingTransitions, Written
from sharemesh.domain.share_partition.rules.start_offset import can_acquire, next_fetch_offset
from sharemesh.domain.share_partition.rules.stored_count import StoredCount
from sharemesh.domain.share_partition.view import BatchView, RecordView, batch_views, record_views


class ReadablePartition:
    """The state of a share partition, to be read; ``SharePartition`` alone changes it."""

    def __init__(self, key: SharePartitionKey, leader_epoch: int, config: GroupConfig) -> None:
        self.key = key
        self.leader_epoch = leader_epoch  # captured once, with every read and write (INI-2)
        self._flight = InFlight(config)
        self._state = Lifecycle.EMPTY
        self._state_epoch = 0
        self._write_ids = 0
        self._pending: dict[int, tuple[PendingTransitions, int | None]] = {}
        self._unwritten: list[Written] | None = None  # in force, but not stored; None: all is
        self._stored_count = StoredCount()

    def validate(self) -> None:
        """Check all internal invariants: for tests, the simulation and the leader's self-check.

        Raises:
            BrokenInvariantError: Names the rule and the offset.
        """
        invariants.check(self._flight, frozenset(self._pending))

    @property
    def state(self) -> Lifecycle:
        """Where the share partition is in its life (spec IFB-6)."""
        return self._state

    @property
    def state_epoch(self) -> int:
        """The state epoch that was read and that every write carries (INI-6)."""
        return self._state_epoch

    @property
    def config(self) -> GroupConfig:
        """The group's settings in force now."""
        return self._flight.config

    @property
    def start_offset(self) -> int:
        """The share-partition start offset, SPSO (VOC-3)."""
        return self._flight.start_offset

    @property
    def end_offset(self) -> int:
        """The last offset in flight, inclusive; the start offset if there is none (VOC-4)."""
        return self._flight.end_offset

    @property
    def in_flight_count(self) -> int:
        """Offsets from start to end, gaps included (VOC-5)."""
        return self._flight.in_flight_count

    @property
    def delivery_complete_count(self) -> int:
        """Terminal offsets at or above the start offset (VOC-13)."""
        return self._flight.delivery_complete_count

    @property
    def held_count(self) -> int:
        """Records that members hold, or held until a write that is outstanding (WIN-2)."""
        return self._flight.locks.held_count

    @property
    def runs_used(self) -> float:
        """The part of the bound of runs that is in use; 0 where the span counts (WIN-10)."""
        flight = self._flight
        return flight.used_runs / self.config.partition_max_runs if flight.counts_locks else 0

    @property
    def bar(self) -> InFlightBar:
        """What the limit in force keeps back now (OFF-6, WIN-3, WIN-5)."""
        return self._flight.bar

    @property
    def is_full_of_runs(self) -> bool:
        """Whether the bound of runs alone keeps back what is new (WIN-5)."""
        return self._flight.counts_locks and self._flight.bar is InFlightBar.END

    @property
    def gap_window(self) -> tuple[int, int] | None:
        """First missing offset and end of the window, active or not (INI-10)."""
        window = self._flight.window
        return None if window is None else (window.gap_start, window.end_offset)

    @property
    def pending_write_count(self) -> int:
        """Writes that have not been answered yet."""
        return len(self._pending)

    @property
    def is_behind(self) -> bool:
        """Whether ``WriteAgain`` is due later: for ended locks, or a count (LK-6, ACK-23)."""
        return self._unwritten is not None or self._stored_count.is_left

    def unwritten_cause(self, record: RecordView) -> Cause:
        """Return why a record is what it is, if that waits for ``WriteAgain``.

        What has changed since is in the list until then, but is skipped (LK-6).
        """
        offset, now = record.first_offset, (record.state, record.delivery_count)
        causes = [
            cause
            for first, last, state, count, cause, _, _ in self._unwritten or ()
            if first <= offset <= last and (state, count) == now
        ]
        return causes[-1] if causes else Cause.UNSPECIFIED

    @property
    def write_count(self) -> int:
        """Write ids used so far; the next operation that may write gets the next one."""
        return self._write_ids

    @property
    def lock_count(self) -> int:
        """Running locks; one covers all that one step locked."""
        return len(self._flight.locks.running())

    @property
    def batch_count(self) -> int:
        """Cached batches (IFB-1)."""
        return len(self._flight.batches)

    @property
    def run_count(self) -> int:
        """Runs of equal records in the cache: what the memory and the work follow."""
        return self._flight.run_count

    @property
    def next_deadline_ms(self) -> int | None:
        """The earliest deadline of a running lock, or None."""
        return self._flight.locks.earliest_ms()

    @property
    def delayed_count(self) -> int:
        """Records that wait for their not-before (RTY-2)."""
        return self._flight.delays.record_count

    @property
    def oldest_lock_ms(self) -> int | None:
        """When the running lock that is oldest was granted or renewed, or None."""
        return min((lock.since_ms for lock in self._flight.locks.running()), default=None)

    def next_fetch_offset(self) -> int:
        """Return the offset to read the log from next (OFF-1..3)."""
        return next_fetch_offset(self._flight)

    def can_acquire(self) -> bool:
        """Return whether a fetch may find something (OFF-6); only while ACTIVE (IFB-6, PAU-1)."""
        active = self._state is Lifecycle.ACTIVE and not self.config.paused
        return active and can_acquire(self._flight)

    def holders(self, among: Callable[[MemberId], bool]) -> Iterator[MemberId]:
        """Yield the members, among some, that hold a record (HND-4)."""
        return holders(self._flight, among)

    def state_at(self, offset: int) -> RecordView | None:
        """Return what is known of one offset, or None if it is not in the cache."""
        views = record_views(self._flight, offset, offset)
        return views[0] if views else None

    def record_states(
        self, first: int | None = None, last: int | None = None
    ) -> tuple[RecordView, ...]:
        """Return the cached runs of ``first..last``, both included; by default all."""
        batches = self._flight.batches
        if not batches:
            return ()
        low = batches.first_offset if first is None else first
        high = batches.last_offset if last is None else last
        return record_views(self._flight, low, high)

    def cached_batches(self) -> tuple[BatchView, ...]:
        """Return the cached batches, ascending (IFB-1)."""
        return batch_views(self._flight)
