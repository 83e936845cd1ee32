"""The share partition at its leader: one door, events in, ordered effects out."""

from collections.abc import Callable

from sharemesh.domain.delivery_state import Cause
from sharemesh.domain.errors import ErrorCode, RefusedError, drops_partition, seen_by_client
from sharemesh.domain.group_config import GroupConfig
from sharemesh.domain.ids import MemberId, SharePartitionKey
from sharemesh.domain.share_partition.cache.record_status import NO_MEMBER
from sharemesh.domain.share_partition.effects import (
    Answered,
    Dropped,
    Effect,
    Initialized,
    LocksExpired,
    ReadState,
    RecordsAcquired,
    ResolveStartOffset,
    WakeAt,
    WakeWaiters,
    WriteState,
)
from sharemesh.domain.share_partition.events import (
    Acknowledge,
    Acquire,
    Configure,
    Event,
    Fence,
    HandOver,
    Initialize,
    Lifecycle,
    LogHole,
    LogStartMoved,
    NothingAcquired,
    ReleaseMember,
    StartOffsetResolved,
    StateRead,
    StateWritten,
    Tick,
    WriteAgain,
)
from sharemesh.domain.share_partition.readable_partition import ReadablePartition
from sharemesh.domain.share_partition.rules.acknowledge import acknowledge
from sharemesh.domain.share_partition.rules.acquire import acquire
from sharemesh.domain.share_partition.rules.expiry import Expiry, release_member
from sharemesh.domain.share_partition.rules.hand_over import held_locks
from sharemesh.domain.share_partition.rules.pending_transitions import (
    WRITE_BATCHES_MAX,
    PendingTransitions,
    note_again,
)
from sharemesh.domain.share_partition.rules.recovery import fault_in, load
from sharemesh.domain.share_partition.rules.retry import end_delays
from sharemesh.domain.share_partition.rules.start_offset import (
    move_idle_start_offset,
    move_log_start,
    move_start_offset,
    pass_missing,
)
from sharemesh.domain.state_batch import NO_COUNT, NO_START_OFFSET

_NONE = ErrorCode.NONE
_WAKE = WakeWaiters()
_IN_USE = frozenset({Lifecycle.EMPTY, Lifecycle.INITIALIZING, Lifecycle.ACTIVE})


class SharePartition(ReadablePartition):
    """One (group, topic-partition) under one leader epoch; single-threaded (IFB-7).

    ``step`` is the only door (house rule 1). Effects come in the order in which they must be
    carried out: writes first. Operations whose write is outstanding are remembered by write id
    and answered when ``StateWritten`` comes; there are never more of them than calls of the runner.
    """

    def __init__(self, key: SharePartitionKey, leader_epoch: int, config: GroupConfig) -> None:
        super().__init__(key, leader_epoch, config)
        self._announced_ms: int | None = None
        self._hole_end = 0  # up to here offsets may be missing that no stored count knows (OFF-26)
        self._doors: dict[type, Callable[..., list[Effect]]] = {
            Initialize: self._initialize,
            StateRead: self._state_read,
            StartOffsetResolved: self._start_offset_resolved,
            Acquire: self._acquire,
            Acknowledge: self._acknowledge,
            ReleaseMember: self._release_member,
            LogStartMoved: self._log_start_moved,
            LogHole: self._log_hole,
            NothingAcquired: self._nothing_acquired,
            StateWritten: self._state_written,
            Tick: self._tick,
            WriteAgain: self._write_again,
            Configure: self._configure,
            HandOver: self._hand_over,
            Fence: self._fence,
        }

    # ---- the door

    def step(self, event: Event, *, now_ms: int) -> tuple[Effect, ...]:
        """Take one event in and return what is to be done, in order.

        Args:
            event: What happened.
            now_ms: Monotonic time; never less than in the step before.
        """
        flight = self._flight
        bar = flight.bar if flight.counts_locks else 0
        effects = self._doors[type(event)](event, now_ms)
        if flight.finished:
            flight.pack()
        if bar and flight.bar < bar and _WAKE not in effects:  # WIN-7
            effects.append(_WAKE)
        for waiting in (flight.locks.waiting, flight.delays.waiting):
            if waiting and (self._announced_ms is None or waiting[0][0] < self._announced_ms):
                self._announced_ms = waiting[0][0]
                effects.append(WakeAt(self._announced_ms))
        return tuple(effects)

    # ---- initialization

    def _initialize(self, _: Initialize, __: int) -> list[Effect]:
        if self._state is Lifecycle.EMPTY:
            self._state = Lifecycle.INITIALIZING
            return [ReadState(self.leader_epoch)]
        if self._state is Lifecycle.INITIALIZING:  # INI-3: one read at a time
            return []
        if self._state is Lifecycle.ACTIVE:
            return [Initialized(ErrorCode.NONE)]
        # INI-15
        return [Initialized(ErrorCode.LEADER_NOT_AVAILABLE, f"the share partition {self._is()}")]

    def _state_read(self, event: StateRead, now_ms: int) -> list[Effect]:
        if self._state is not Lifecycle.INITIALIZING:
            return []
        if event.error is not ErrorCode.NONE:
            return self._failed(seen_by_client(event.error), event.message or event.error.name)
        self._state_epoch = event.state_epoch
        if event.start_offset == NO_START_OFFSET:
            fault = fault_in(event, 0)
            if fault is not None or event.batches:
                return self._failed(
                    ErrorCode.UNKNOWN_SERVER_ERROR, fault or "batches without a start offset"
                )
            return [ResolveStartOffset(self.config.auto_offset_reset)]  # INI-4
        fault = fault_in(event, event.start_offset)
        if fault is not None:
            return self._failed(ErrorCode.UNKNOWN_SERVER_ERROR, fault)
        load(self._flight, event.start_offset, event.batches, event, now_ms)
        passed = self._flight.start_offset - event.start_offset
        count = self._flight.delivery_complete_count + passed
        if event.delivery_complete_count not in (NO_COUNT, count):
            self._stored_count.doubt(event.start_offset)
        activated = self._activated()
        return self._recount() + activated  # writes come first

    def _start_offset_resolved(self, event: StartOffsetResolved, _: int) -> list[Effect]:
        if self._state is not Lifecycle.INITIALIZING:
            return []
        if event.error is not ErrorCode.NONE:
            what = "the start offset could not be looked up in the log"
            return self._failed(event.error, f"{what}: {event.message or event.error.name}")
        load(self._flight, event.start_offset, ())  # not written before the next write (INI-5)
        return self._activated()

    def _activated(self) -> list[Effect]:
        self._state = Lifecycle.ACTIVE
        return [Initialized(ErrorCode.NONE), WakeWaiters()]  # INI-14

    def _failed(self, error: ErrorCode, message: str) -> list[Effect]:
        self._state = Lifecycle.FAILED  # INI-13
        return [Initialized(error, message), WakeWaiters(), Dropped(error)]

    # ---- members

    def _acquire(self, event: Acquire, now_ms: int) -> list[Effect]:
        if self._state is not Lifecycle.ACTIVE or self._flight.config.paused:  # ACQ-1, PAU-1
            return [RecordsAcquired(event.request_id, (), 0)]
        return [acquire(self._flight, event, now_ms)]

    def _acknowledge(self, event: Acknowledge, now_ms: int) -> list[Effect]:
        if self._state not in _IN_USE:
            return [self._turned_away(event.request_id)]
        self._write_ids += 1
        changes = PendingTransitions(self._flight, self._write_ids)
        try:
            acknowledge(self._flight, event, changes, now_ms)
        except RefusedError as refused:
            changes.roll_back(is_written=False)  # ACK-2
            return [Answered(event.request_id, refused.error, refused.message)]
        return self._written(changes, event.request_id, event.member_id, None)

    def _release_member(self, event: ReleaseMember, _: int) -> list[Effect]:
        if self._state not in _IN_USE:
            return [self._turned_away(event.request_id)]
        changes = self._changes()
        release_member(self._flight, event.member_id, changes, event.principal)
        return self._written(changes, event.request_id, event.member_id, Cause.SESSION_CLOSE)

    def _written(
        self, changes: PendingTransitions, request_id: int, member_id: MemberId, cause: Cause | None
    ) -> list[Effect]:
        """Ask for the write that the changes wait for, or answer at once (ACK-16, REL-4)."""
        if not changes.written:
            answered: list[Effect] = [Answered(request_id, _NONE)]
            if changes.hands_back and changes.commit():  # HBK-3
                answered.append(WakeWaiters())
            return answered
        self._pending[changes.write_id] = (changes, request_id)
        return [self._write(changes, member_id, cause)]

    # ---- time, log, persister

    def _tick(self, event: Tick, now_ms: int) -> list[Effect]:
        by_member: dict[MemberId, PendingTransitions] = {}

        def changes_of(member_id: MemberId) -> PendingTransitions:
            changes = by_member.get(member_id)
            if changes is None:
                changes = by_member[member_id] = self._changes()
            return changes

        self._announced_ms = self._flight.earliest_ms
        if self._announced_ms is None or self._state is Lifecycle.FENCED:
            return [WakeAt(None)]
        if self._announced_ms > now_ms:
            return [WakeAt(self._announced_ms)]
        is_due = end_delays(self._flight, now_ms, event.lock_limit)
        expiry = Expiry(self._flight, event.lock_limit, changes_of, event.draw)
        expiry.run(now_ms)
        effects: list[Effect] = []
        for member_id, changes in by_member.items():
            self._pending[changes.write_id] = (changes, None)
            effects.append(self._write(changes, member_id, Cause.LOCK_EXPIRY))
        if expiry.record_count:
            effects += [LocksExpired(expiry.record_count, expiry.lapses()), _WAKE]  # LK-7, LK-10
        elif is_due:
            effects.append(WakeWaiters())  # RTY-3
        self._announced_ms = self._flight.earliest_ms
        effects.append(WakeAt(self._announced_ms))
        return effects

    def _write_again(self, _: WriteAgain, __: int) -> list[Effect]:
        """Write what ended locks left; even where nothing is, start offset or count are to tell."""
        if self._state is not Lifecycle.ACTIVE or not self.is_behind:
            return []
        unwritten, self._unwritten = self._unwritten or (), None
        noted = self._changes()
        note_again(self._flight, unwritten, noted)
        cause = Cause.LOCK_EXPIRY if noted.written else Cause.UNSPECIFIED
        effects: list[Effect] = []
        for low in range(0, max(1, len(noted.written)), WRITE_BATCHES_MAX):
            changes = self._changes().take_over(noted, low)
            self._pending[changes.write_id] = (changes, None)
            effects.append(self._write(changes, NO_MEMBER, cause))
        return effects

    def _log_start_moved(self, event: LogStartMoved, _: int) -> list[Effect]:
        is_active = self._state is Lifecycle.ACTIVE
        return [_WAKE] if is_active and move_log_start(self._flight, event.log_start_offset) else []

    def _log_hole(self, event: LogHole, _: int) -> list[Effect]:
        if self._state is not Lifecycle.ACTIVE:
            return []
        start_offset = self._flight.start_offset
        pass_missing(self._flight, event.first_offset, event.last_offset)
        if self._flight.start_offset > start_offset:
            move_start_offset(self._flight)
        self._hole_end = max(self._hole_end, event.last_offset + 1)
        return self._moved(start_offset)

    def _nothing_acquired(self, _: NothingAcquired, __: int) -> list[Effect]:
        if self._state is not Lifecycle.ACTIVE:
            return []
        start_offset = self._flight.start_offset
        move_idle_start_offset(self._flight)
        return self._moved(start_offset)

    def _moved(self, old: int) -> list[Effect]:
        """Store a start offset that moved by itself: no write of a member tells it (OFF-24)."""
        if self._flight.start_offset <= old:
            return []
        if self._flight.start_offset >= self._hole_end:
            self._hole_end = 0
        return [self._write_bare(Cause.GAP), _WAKE]

    def _state_written(self, event: StateWritten, _: int) -> list[Effect]:
        pending = self._pending.pop(event.write_id, None)
        if pending is None:  # of an earlier life, or answered twice
            return []
        changes, request_id = pending
        self._stored_count.answered(event.write_id, is_stored=event.error is _NONE)
        if event.error is not _NONE:
            return self._write_failed(changes, request_id, event)
        available = changes.commit()  # ACK-18; nothing to do for expired locks (LK-6)
        effects: list[Effect] = [] if request_id is None else [Answered(request_id, _NONE)]
        if move_start_offset(self._flight) or available:
            effects.append(WakeWaiters())
        return effects + self._passed_hole() + self._recount()

    def _passed_hole(self) -> list[Effect]:
        """Store a start offset that has passed a hole, unless a write to come tells it (OFF-26)."""
        is_passed = 0 < self._hole_end <= self._flight.start_offset
        if not is_passed or self._pending or self._state is not Lifecycle.ACTIVE:
            return []
        return self._moved(self._hole_end - 1)

    def _recount(self) -> list[Effect]:
        """Store a doubtful count once more, unless a write to come does (ACK-23)."""
        if not self._stored_count.is_left or self._pending or self._state is not Lifecycle.ACTIVE:
            return []
        return [self._write_bare(Cause.UNSPECIFIED)]

    def _write_failed(
        self, changes: PendingTransitions, request_id: int | None, event: StateWritten
    ) -> list[Effect]:
        """Roll back (ACK-19, REL-5), or only move on if locks had expired (LK-6, LK-7)."""
        error = seen_by_client(event.error)
        effects: list[Effect] = []
        count = self._flight.delivery_complete_count
        wake = changes.roll_back(is_written=True)
        if self._flight.delivery_complete_count < count:
            self._stored_count.doubt(self._flight.start_offset)
        if request_id is None:
            self._unwritten = [*(self._unwritten or ()), *changes.written]  # LK-6
            wake = move_start_offset(self._flight) or wake
        else:
            if changes.unlocked:
                self._unwritten = [*(self._unwritten or ()), *changes.unlocked]  # RS-11
            effects.append(Answered(request_id, error, event.message or event.error.name.lower()))
        if wake:
            effects.append(WakeWaiters())
        if drops_partition(error) and self._state is not Lifecycle.FENCED:  # PER-9
            effects.append(Dropped(error))
        return effects

    def _configure(self, event: Configure, _: int) -> list[Effect]:
        self._flight.configure(event.config)  # RS-8, LK-1: read when it is needed
        return [WakeWaiters()] if self._state is Lifecycle.ACTIVE else []

    def _hand_over(self, event: HandOver, now_ms: int) -> list[Effect]:
        if self._state is not Lifecycle.ACTIVE:
            return []
        self._state = Lifecycle.FENCED  # HND-4
        self._flight.stop_tallies()
        locks = held_locks(self._flight, self.leader_epoch, event.goes_on, now_ms)
        is_told = bool(locks) or event.is_awaited or self._stored_count.is_doubtful
        last = self._write(self._changes(), NO_MEMBER, Cause.LEADER_CHANGE)
        return [last._replace(hand_over=locks, is_last=True)] if is_told else []

    def _fence(self, _: Fence, __: int) -> list[Effect]:
        if self._state is Lifecycle.FENCED:
            return []
        self._state = Lifecycle.FENCED  # PER-10
        self._flight.stop_tallies()
        return [WakeWaiters(), Dropped(ErrorCode.NOT_LEADER_OR_FOLLOWER)]

    # ---- small things

    def _changes(self) -> PendingTransitions:
        self._write_ids += 1
        return PendingTransitions(self._flight, self._write_ids)

    def _write_bare(self, cause: Cause) -> WriteState:
        """Return a write with no state batch: it tells start offset and count."""
        changes = self._changes()
        self._pending[changes.write_id] = (changes, None)
        return self._write(changes, NO_MEMBER, cause)

    def _write(
        self, changes: PendingTransitions, member_id: MemberId, cause: Cause | None
    ) -> WriteState:
        """Return the write of changes, with the start offset before them (PER-1, PER-2).

        Only acknowledgements, releases and expiries write (PER-4), and OFF-24 and ACK-23.
        """
        flight = self._flight
        write = WriteState(
            changes.write_id,
            self._state_epoch,
            self.leader_epoch,
            flight.start_offset,
            flight.delivery_complete_count,
            changes.state_batches(),
            changes.cause if cause is None else cause,
            member_id,
            changes.is_delayed,
        )
        if not self._stored_count.is_doubtful:
            return write
        is_alone = self._pending.keys() <= {changes.write_id}
        start_offset = flight.start_offset
        is_recount = self._stored_count.sent(changes.write_id, start_offset, is_alone=is_alone)
        return write._replace(is_recount=is_recount)

    def _turned_away(self, request_id: int) -> Answered:
        """Return the error for a share partition that is no longer in use."""
        message = f"the share partition {self._is()}"
        return Answered(request_id, ErrorCode.NOT_LEADER_OR_FOLLOWER, message)

    def _is(self) -> str:
        return f"is {self._state.value}: fetch again from the current leader"
