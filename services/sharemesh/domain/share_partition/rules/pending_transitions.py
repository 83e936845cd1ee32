"""Transitions that wait for one write: commit, roll-back, and what is written again."""

from collections.abc import Iterable

from sharemesh.domain.delivery_state import Cause, DeliveryState
from sharemesh.domain.share_partition.cache.cached_batch import CachedBatch, Run
from sharemesh.domain.share_partition.cache.in_flight import InFlight, Move
from sharemesh.domain.share_partition.cache.record_status import NO_MEMBER, RecordStatus
from sharemesh.domain.share_partition.rules.transitions import TARGETS, Trigger, limited
from sharemesh.domain.state_batch import StateBatch

_AVAILABLE = DeliveryState.AVAILABLE


Written = tuple[int, int, DeliveryState, int, Cause, int, int]
"""The fields of a state batch: offsets, state, delivery count, cause, not-before (0: none), and
when it was acquired (0: not known)."""

WRITE_BATCHES_MAX = 10_000
"""Batches of one write of what is written again: a share coordinator takes 20,000 (WIN-13)."""

TIMES_MAX = 1_000
"""Batches of one write from which on neighbours are told as one whenever they were acquired."""


class PendingTransitions:
    """What one operation changes: what to write, and how to finish or undo it.

    The delivery count limit is captured at the start, for RS-8 and RS-11. What few operations need
    is made when it is needed: there is one object for each acknowledgement.

    Attributes:
        write_id: Names the write (RS-9).
        written: What to write, as the fields of state batches; equal neighbours are one (ACK-17).
        is_delayed: Some of it has a not-before (RTY-7).
        unlocked: After a roll-back, what became of runs whose lock had fired (RS-11).
    """

    __slots__ = (
        "_available",
        "_begun",
        "_delayed",
        "_flight",
        "_handed_back",
        "_limit",
        "_touched",
        "_uncertain",
        "is_delayed",
        "unlocked",
        "write_id",
        "written",
    )

    def __init__(self, flight: InFlight, write_id: int) -> None:
        self._flight = flight
        self.write_id = write_id
        self.written: list[Written] = []
        self.unlocked: list[Written] = []
        self.is_delayed = False
        self._available = False
        self._limit = flight.config.delivery_count_limit
        self._touched: list[tuple[CachedBatch, int, int]] = []
        self._begun: dict[tuple[RecordStatus, Cause, int], tuple[RecordStatus, Cause]] = {}
        self._delayed: dict[tuple[RecordStatus, int], RecordStatus] | None = None
        self._handed_back: dict[tuple[RecordStatus, int], RecordStatus] | None = None
        self._uncertain: dict[RecordStatus, RecordStatus] | None = None  # once a write failed

    def start(
        self, first: int, last: int, old: RecordStatus, target: DeliveryState, cause: Cause
    ) -> RecordStatus:
        """Note a move to be written; return its status: the new state is visible at once (RS-9)."""
        status, why = self.begun(old, target, cause)
        self.note(first, last, status, why, _acquired_at_ms(old))
        return status

    def begun(
        self, old: RecordStatus, target: DeliveryState, cause: Cause, not_before_ms: int = 0
    ) -> tuple[RecordStatus, Cause]:
        """Return the status of records that begin to move, one for all alike, and why (RS-9).

        A record at the delivery limit is archived instead of released (RS-7).
        """
        begun = self._begun.get((old, cause, not_before_ms))
        if begun is None:
            count = old.delivery_count
            state, why = target, cause
            if target is _AVAILABLE:
                state, why = limited(target, cause, count, self._limit)
            status = RecordStatus(state, count, NO_MEMBER, old.lock, self.write_id, old)
            if not_before_ms and state is _AVAILABLE:
                status = status.until(not_before_ms)
                self.is_delayed = True
            begun = self._begun[old, cause, not_before_ms] = (status, why)
        return begun

    def handed_back(self, old: RecordStatus, not_before_ms: int = 0) -> RecordStatus:
        """Return the status of records released uncounted, until ``commit`` (HBK-2, HBK-3)."""
        if self._handed_back is None:
            self._handed_back = {}
        status = self._handed_back.get((old, not_before_ms))
        if status is None:
            status = RecordStatus(
                TARGETS[Trigger.HANDED_BACK],
                old.delivery_count - 1,
                NO_MEMBER,
                old.lock,
                self.write_id,
                old,
                old.hand_backs_left - 1,
            )
            if not_before_ms:  # HND-1
                status = status.until(not_before_ms)
                self.is_delayed = True
            self._handed_back[old, not_before_ms] = status
        return status

    @property
    def hands_back(self) -> bool:
        """Whether records are released that were never handed out (HBK-2)."""
        return self._handed_back is not None

    def settle(
        self,
        run: Run,
        target: DeliveryState,
        cause: Cause,
        not_before_ms: int = 0,
    ) -> RecordStatus:
        """Note a move that takes effect before it is written (LK-6); return its status."""
        first, last, old = run
        state, why = limited(target, cause, old.delivery_count, self._limit)
        status = self._flight.settled.get(state, old.delivery_count)
        if not_before_ms and state is _AVAILABLE:
            status = self._until(status, not_before_ms)
            self.is_delayed = True
        self.note(first, last, status, why, _acquired_at_ms(old))
        return status

    def _until(self, status: RecordStatus, not_before_ms: int) -> RecordStatus:
        """Return one delayed status for all records alike (RTY-2)."""
        if self._delayed is None:
            self._delayed = {}
        delayed = self._delayed.get((status, not_before_ms))
        if delayed is None:
            delayed = self._delayed[status, not_before_ms] = status.until(not_before_ms)
        return delayed

    def note(
        self, first: int, last: int, status: RecordStatus, cause: Cause, acquired_at_ms: int
    ) -> None:
        """Write what has become of a run, together with an equal one right before it.

        Of too many that differ in when they were acquired, the earliest time stands for both
        (EXP-10).
        """
        batches = self.written
        if batches:
            begin, end, state, count, why, later, at_ms = batches[-1]
            if (
                end + 1 == first
                and state is status.state
                and why is cause
                and count == status.delivery_count
                and later == status.not_before_ms
                and (at_ms == acquired_at_ms or len(batches) >= TIMES_MAX)
            ):
                at_ms = at_ms if at_ms < acquired_at_ms else acquired_at_ms
                batches[-1] = (begin, last, state, count, cause, later, at_ms)
                return
        state, count, later = status.state, status.delivery_count, status.not_before_ms
        batches.append((first, last, state, count, cause, later, acquired_at_ms))

    def apply_run(
        self, batch: CachedBatch, first: int, last: int, old: RecordStatus, new: RecordStatus
    ) -> None:
        """Carry out the move of one run, or a part of it."""
        self._touched.append((batch, first, last))
        if old is not new:
            self._flight.put(batch, first, last, old, new)

    def apply(self, batch: CachedBatch, moves: list[Move]) -> None:
        """Carry out moves that lie one after the other in one batch."""
        first, last = moves[0][0], moves[-1][1]
        self._touched.append((batch, first, last))
        self._put(batch, moves)

    @property
    def cause(self) -> Cause:
        """The cause of all batches, or UNSPECIFIED if they differ: then each says its own."""
        batches = self.written
        cause = batches[0][4]
        if len(batches) > 1 and any(batch[4] is not cause for batch in batches):
            return Cause.UNSPECIFIED
        return cause

    def commit(self) -> bool:
        """The write succeeded: transitions end, locks with them (RS-12).

        Returns:
            Whether anything became available (OFF-4).
        """
        for batch, first, last in self._touched:
            only = batch.status_of(first, last)
            if only is not None:
                done = self._ended(only)
                if done is not only:
                    self._flight.put(batch, first, last, only, done)
                continue
            runs = batch.runs_between(first, last)
            ended = {old: self._ended(old) for old in {run[2] for run in runs}}
            moves = [(begin, end, old, ended[old]) for begin, end, old in runs]
            self._put(batch, moves)
        return self._freed()

    def roll_back(self, *, is_written: bool) -> bool:
        """The write failed, or never began: records return to what they were (RS-10, RS-11).

        Args:
            is_written: A write was begun, and may be stored nevertheless (HBK-4).

        Returns:
            Whether anything became available (OFF-4).
        """
        self._uncertain = {} if is_written else None
        for batch, first, last in reversed(self._touched):
            self._put(batch, [self._rolled_back(run) for run in self._cut(batch, first, last)])
        return self._freed()

    def _cut(self, batch: CachedBatch, first: int, last: int) -> list[Run]:
        """Return the runs of ``first..last``; what lost its lock is cut at the start offset."""
        start = self._flight.start_offset
        runs = batch.runs_between(first, last)
        if not first < start <= last:
            return runs
        result: list[Run] = []
        for begin, end, status in runs:
            if begin < start <= end and self._lost_lock(status):
                batch.per_offset = True
                result += [(begin, start - 1, status), (start, end, status)]
            else:
                result.append((begin, end, status))
        return result

    def _lost_lock(self, status: RecordStatus) -> bool:
        """Whether the lock fired while this write was outstanding (RS-11)."""
        saved = status.saved
        return (
            status.write_id == self.write_id
            and saved is not None
            and saved.lock is not None
            and saved.lock.fired
        )

    def _freed(self) -> bool:
        if self._available:
            self._flight.find_next = True  # OFF-4
        return self._available

    def take_over(self, noted: "PendingTransitions", low: int) -> "PendingTransitions":
        """Write a part of what another one noted, from batch ``low`` on."""
        self.written = noted.written[low : low + WRITE_BATCHES_MAX]
        self.is_delayed = noted.is_delayed
        return self

    def state_batches(self) -> tuple[StateBatch, ...]:
        """Return what to write, in order; equal neighbours are one batch (ACK-17)."""
        written = self.written
        # The fields are there already: the class's own constructor would take twice the time.
        if len(written) == 1:  # what most operations write
            return (tuple.__new__(StateBatch, written[0]),)
        written.sort()
        return tuple([tuple.__new__(StateBatch, fields) for fields in written])

    def _put(self, batch: CachedBatch, moves: list[Move]) -> None:
        flight = self._flight
        if len(moves) == 1:
            first, last, old, new = moves[0]
            if old is not new:
                flight.put(batch, first, last, old, new)
        elif any(old is not new for _, _, old, new in moves):
            flight.put_runs(batch, moves)

    def _ended(self, old: RecordStatus) -> RecordStatus:
        if old.write_id != self.write_id:
            return old
        status = self._flight.settled.get(old.state, old.delivery_count, old.hand_backs_left)
        if old.not_before_ms:
            return self._until(status, old.not_before_ms)
        if old.state is _AVAILABLE:
            self._available = True
        return status

    def _rolled_back(self, run: Run) -> Move:
        first, last, old = run
        if old.write_id != self.write_id:
            return first, last, old, old
        saved = old.saved
        if saved is None:  # archived meanwhile, for good (RS-14)
            return first, last, old, self._flight.settled.get(old.state, old.delivery_count)
        if not self._lost_lock(old):
            return first, last, old, self._held_again(old, saved)
        count = saved.delivery_count
        expired = TARGETS[Trigger.LOCK_EXPIRY]
        state, cause = limited(expired, Cause.LOCK_EXPIRY, count, self._limit)
        # T11 holds here too: left AVAILABLE below the start offset, nobody could ever take it,
        # and it would keep the start offset from moving.
        if state is expired and last < self._flight.start_offset:
            state, cause = TARGETS[Trigger.LOCK_EXPIRY_BELOW_START], Cause.LOG_START
        if state is DeliveryState.AVAILABLE:
            self._available = True
        self.unlocked.append((first, last, state, count, cause, 0, _acquired_at_ms(saved)))
        return first, last, old, self._flight.settled.get(state, count)

    def _held_again(self, old: RecordStatus, saved: RecordStatus) -> RecordStatus:
        """Return the status of records whose holder keeps them after a failure (RS-10).

        A release counts from now on where a write of their count was begun (HBK-4).
        """
        if self._uncertain is None or old.delivery_count != saved.delivery_count:
            return saved
        held = self._uncertain.get(saved)
        if held is None:
            held = self._uncertain[saved] = RecordStatus(
                saved.state,
                saved.delivery_count,
                saved.member_id,
                saved.lock,
                hand_backs_left=0,
            )
        return held


def _acquired_at_ms(held: RecordStatus) -> int:
    return 0 if held.lock is None else held.lock.acquired_at_ms


def note_again(flight: InFlight, unwritten: Iterable[Written], changes: PendingTransitions) -> None:
    """Retry the state write of ``unwritten`` records; records that have changed since are skipped.

    The operation that changed a record writes it, except that a member which acquired it may hand
    it back without a write (HBK-6). Archived records that the start offset has passed are counted
    too: they were archived for the group (ARC-3).
    """
    start = flight.start_offset
    for first, last, state, count, cause, not_before_ms, at_ms in sorted(unwritten):
        left = flight.settled.get(state, count)
        if not_before_ms:  # what was delayed then may be available now
            left = left.until(not_before_ms)
            changes.is_delayed = True
        if first < start and state is DeliveryState.ARCHIVED:
            changes.note(first, min(last, start - 1), left, cause, at_ms)
        for batch in flight.batches.overlapping(max(first, start), last):
            low, high = max(first, start, batch.first_offset), min(last, batch.last_offset)
            for begin, end, status in batch.runs_between(low, high):
                if _is_left(status, state, count):
                    changes.note(begin, end, left, cause, at_ms)


def _is_left(status: RecordStatus, state: DeliveryState, count: int) -> bool:
    """Whether a record is as an ended lock left it, or was acquired since, and no more."""
    if status.write_id is not None:
        saved = status.saved
        is_handed_back = saved is not None and status.delivery_count < saved.delivery_count
        return is_handed_back and (status.state, status.delivery_count) == (state, count)
    if status.state is DeliveryState.ACQUIRED:
        return state is DeliveryState.AVAILABLE and status.delivery_count == count + 1
    return status.state is state and status.delivery_count == count
