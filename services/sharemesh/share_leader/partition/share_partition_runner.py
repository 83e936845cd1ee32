"""Carries out, in order, what one share partition's machine asks for."""

import asyncio
import logging
from collections.abc import Callable
from enum import Enum, auto
from typing import Protocol, cast

from sharemesh.domain.errors import ErrorCode
from sharemesh.domain.group_config import GroupConfig, IsolationLevel
from sharemesh.domain.ids import MemberId, SharePartitionKey
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
    AcknowledgementBatch,
    Acquire,
    Configure,
    Event,
    Fence,
    HandOver,
    Initialize,
    LogStartMoved,
    ReleaseMember,
    StateRead,
    StateWritten,
    Tick,
    WriteAgain,
)
from sharemesh.domain.share_partition.machine import SharePartition
from sharemesh.ports.record_log import PartitionLog
from sharemesh.ports.share_state import StateReadResult
from sharemesh.share_leader.environment import LeaderEnvironment
from sharemesh.share_leader.partition.state_requests import StateRequests
from sharemesh.share_leader.telemetry.partition_telemetry import PartitionTelemetry
from sharemesh.timers import TimerHandle

_log = logging.getLogger(__name__)
_LOG_START_STEPS = 2
"""The start offset follows the log start, then holes from before a leader change do."""


class Phase(Enum):
    """How far a share partition is (spec IFB-6)."""

    INITIALIZING = auto()
    ACTIVE = auto()
    ENDED = auto()  # FAILED or FENCED: dropped, the next fetch makes a new one


class Waiter(Protocol):
    """A fetch that waits for records of share partitions."""

    def poke(self) -> None:
        """Try again, now and without waiting; may take fetch locks."""
        ...


class SharePartitionRunner:
    """One share partition at its leader: the machine, its writes, its timer, its waiters."""

    def __init__(  # noqa: PLR0913 - what its leader epoch knows of it before it begins
        self,
        key: SharePartitionKey,
        log: PartitionLog,
        environment: LeaderEnvironment,
        on_ended: Callable[["SharePartitionRunner"], None],
        state: "asyncio.Future[StateReadResult] | None" = None,
        on_fenced: Callable[[int], None] = lambda _: None,
        *,
        takes_locks: bool = True,
        handing_over: int = 0,
    ) -> None:
        """Begin to initialize.

        ``state`` was asked for under this leader epoch before the log was there. ``on_fenced``
        hears of a higher leader epoch under which state was read, where the log cannot tell.
        ``takes_locks`` for the first one of a group in a leader epoch: locks that were handed
        over live on in it (HND-7), awaited if the leader of epoch ``handing_over`` is yet to send
        them (HND-13).
        """
        self.key = key
        self.log = log
        self.phase = Phase.INITIALIZING
        self.error = ErrorCode.NONE
        self.message = ""
        self._environment = environment
        self._on_ended = on_ended
        self._on_fenced = on_fenced
        self._work = StateRequests(
            key,
            log,
            environment,
            self._work_ended,
            state,
            takes_locks=takes_locks,
            handing_over=handing_over,
        )
        self.was_active = False
        self.handed_over: dict[MemberId, None] = {}  # whose locks live on at the next leader
        self._leaving: dict[MemberId, None] = {}
        self._begun = asyncio.Event()
        self._awaiting = 0
        self._taken_from: dict[int, None] = {}
        self._config = environment.view.group_config(key.group_id)
        self._machine = SharePartition(key, log.leader_epoch, self._config)
        self._request_id = 0
        self._acquired: RecordsAcquired | None = None
        self._pending: dict[int, asyncio.Future[Answered]] = {}
        self._waiters: dict[Waiter, int] = {}  # and how many looks had begun before
        self._stalled: dict[object, None] = {}
        self._fetch_lock: object | None = None
        self._looks_before: int | None = None
        self._open = True
        self._on_step: Callable[[], None] = lambda: None
        self._wake_planned = False
        self._alarm: TimerHandle | None = None
        self._again: TimerHandle | None = None
        topic = environment.view.topic(key.topic_id)
        self.telemetry = PartitionTelemetry(
            environment.telemetry, key, topic.name if topic else "", log.leader_epoch
        )
        self.step(Initialize())

    # ---- what fetches ask -----------------------------------------------------------------------

    @property
    def leader_epoch(self) -> int:
        """The epoch under which everything here is granted."""
        return self.log.leader_epoch

    @property
    def machine(self) -> SharePartition:
        """The machine, for questions only (explain, tests)."""
        return self._machine

    @property
    def config(self) -> GroupConfig:
        """The group's settings as the machine knows them."""
        return self._config

    @property
    def holds_locks(self) -> bool:
        """Whether some record is acquired, or an acknowledgement is being written."""
        return self._machine.next_deadline_ms is not None or bool(self._pending)

    @property
    def is_fetched(self) -> bool:
        """Whether a fetch has the fetch lock."""
        return self._fetch_lock is not None

    @property
    def is_settled(self) -> bool:
        """Whether nothing is locked, being written, or yet to be written."""
        return not (self.holds_locks or self._work or self._machine.is_behind)

    @property
    def end_offset(self) -> int:
        """Where reading stops for this group (spec ISO-1), exclusive."""
        if self._config.isolation_level is IsolationLevel.READ_COMMITTED:
            return self.log.last_stable_offset
        return self.log.high_watermark

    @property
    def next_fetch_offset(self) -> int:
        """Where the next fetch reads (spec OFF-1..3)."""
        return self._machine.next_fetch_offset()

    @property
    def stands_at_damage(self) -> bool:
        """Whether the next fetch offset is corrupt in the log; a read reports it to the member."""
        damage, offset = self.log.damage, self.next_fetch_offset
        return damage is not None and (offset == damage[0] or offset > self.log.high_watermark)

    def available_offsets(self) -> int:
        """Return how many offsets lie between the next fetch and the end (0 or more).

        A damaged place counts as one: the fetch that comes there is answered with the damage
        instead of waiting for records that cannot come.
        """
        for _ in range(_LOG_START_STEPS):
            if self.next_fetch_offset < self.log.log_start_offset:
                self.step(LogStartMoved(self.log.log_start_offset))  # spec OFF-17
        if self.stands_at_damage:
            return 1
        return max(0, self.end_offset - self.next_fetch_offset)

    def available_bytes(self) -> int:
        """Return about how many bytes lie between the next fetch and the end (spec DF-4)."""
        return self.log.bytes_between(self.next_fetch_offset, self.end_offset)

    def try_lock(self, owner: object) -> bool:
        """Take the fetch lock if records may be acquired now (spec DF-1, DF-2)."""
        if self._fetch_lock is not None or not self._open or self.phase is not Phase.ACTIVE:
            return False
        if not self._machine.can_acquire():
            return False
        self._fetch_lock = owner
        self._looks_before = self._waiters.get(cast("Waiter", owner))
        self.telemetry.fetch_locked()
        return True

    def unlock(self, owner: object, *, wake: bool = True) -> None:
        """Give the fetch lock back; without ``wake`` nothing has changed for others."""
        if self._fetch_lock is owner:
            self._fetch_lock = None
            if not self._open:
                self._on_step()
            if wake:
                self.telemetry.fetch_unlocked()
                self.wake_soon()

    @property
    def has_waiters(self) -> bool:
        """Whether a fetch waits for records here."""
        return bool(self._waiters)

    @property
    def has_looked(self) -> bool:
        """Whether the fetch that holds the lock has waited for a look that passed (LOG-8)."""
        before = self._looks_before
        return before is not None and self.log.has_looked_since(before)

    def waiters(self) -> tuple[Waiter, ...]:
        """Return the fetches that wait for records here, oldest first."""
        return tuple(self._waiters)

    def watch(self, waiter: Waiter) -> None:
        """Poke the waiter when a fetch may have become possible (spec DF-5)."""
        self._waiters[waiter] = self.log.looks_begun()

    def unwatch(self, waiter: Waiter) -> None:
        """Stop poking; repeating it is fine."""
        self._waiters.pop(waiter, None)

    @property
    def has_stalled(self) -> bool:
        """Whether a member would wait here, but for being stalled (HBK-11)."""
        return bool(self._stalled)

    def leave_out(self, stalled: object) -> None:
        """Note members that get no records until they send a message (HBK-11)."""
        self._stalled[stalled] = None

    def take_in(self, stalled: object) -> None:
        """Forget it; repeating it is fine."""
        self._stalled.pop(stalled, None)

    def wake_soon(self) -> None:
        """Poke waiters in the next turn of the loop, oldest first, until one takes the lock."""
        if self._waiters and not self._wake_planned:
            self._wake_planned = True
            asyncio.get_running_loop().call_soon(self._wake)

    def _wake(self) -> None:
        self._wake_planned = False
        for waiter in tuple(self._waiters):
            if self._fetch_lock is not None or not self._worth_a_try():
                return  # who holds the lock, or brings records, wakes the others
            waiter.poke()

    def _worth_a_try(self) -> bool:
        """Whether a waiter could get something, or must hear that this is the end."""
        if self.phase is not Phase.ACTIVE:
            return self.phase is Phase.ENDED
        return self._open and self._machine.can_acquire() and self.available_offsets() > 0

    # ---- what members do ------------------------------------------------------------------------

    def acquire(self, event: Acquire) -> RecordsAcquired:
        """Acquire out of what was read under the fetch lock; ``request_id`` is chosen here."""
        self.step(event)
        acquired, self._acquired = self._acquired, None
        if acquired is None:
            return RecordsAcquired(event.request_id, (), 0)
        self._environment.counters.records_acquired += acquired.count
        return acquired

    def next_request_id(self) -> int:
        """Return a number for the next event that is answered."""
        self._request_id += 1
        return self._request_id

    def acknowledge(
        self,
        member_id: MemberId,
        batches: tuple[AcknowledgementBatch, ...],
        acquired_in: int = 0,
        principal: str = "",
    ) -> asyncio.Future[Answered]:
        """Acknowledge for a member; done once the result is durable (spec ACK-18).

        ``acquired_in`` is the earlier leader epoch of the acquisition, 0: this one; with an
        earlier one ``principal`` must be the holder's (HND-10).
        """
        request_id, answer = self._expect_answer()
        draw = self._environment.draw(self._config)
        self.step(Acknowledge(request_id, member_id, batches, draw, acquired_in, principal))
        return answer

    @property
    def is_awaited(self) -> bool:
        """Whether it has not begun, or who waited for that has not gone on yet."""
        return self._awaiting > 0 or not self._begun.is_set()

    async def until_begun(self) -> None:
        """Return once the share partition is active, or has ended."""
        self._awaiting += 1
        try:
            await self._begun.wait()
        finally:
            self._awaiting -= 1

    def took_from(self, leader_epoch: int) -> bool:
        """Return whether locks of an earlier leader epoch were handed over to this one."""
        return leader_epoch in self._taken_from

    def release(self, member_id: MemberId, principal: str) -> asyncio.Future[Answered]:
        """Release all that a member of a principal holds here (spec REL)."""
        request_id, answer = self._expect_answer()
        self.step(ReleaseMember(request_id, member_id, principal))
        return answer

    def _expect_answer(self) -> tuple[int, asyncio.Future[Answered]]:
        request_id = self.next_request_id()
        answer: asyncio.Future[Answered] = asyncio.get_running_loop().create_future()
        self._pending[request_id] = answer
        return request_id, answer

    # ---- what the leader does -------------------------------------------------------------------

    def configure(self, config: GroupConfig) -> None:
        """Apply changed settings of the group from now on (spec RS-8, LK-1, ISO-5)."""
        if config != self._config:
            self._config = config
            self.step(Configure(config))
            self.wake_soon()

    def stop_acquiring(self, on_step: Callable[[], None]) -> None:
        """Acquire nothing more; acquired records may still be acknowledged (first step of a drain).

        ``on_step`` is called after each step from now on.
        """
        self._open = False
        self._on_step = on_step

    async def hand_over(
        self, goes_on: Callable[[MemberId], str], *, is_awaited: bool = False
    ) -> None:
        """Decide nothing more, and leave locks to the next leader (HND-4, HND-5).

        ``handed_over`` then names whose locks live on. Writes that are out settle first. If the
        next leader waits for it (``is_awaited``), there is a last write in any case.
        """
        await self._work.settle()
        self.step(HandOver(goes_on, is_awaited))
        await self._work.settle()

    async def settle_writes(self) -> None:
        """Return once no state write is under way."""
        await self._work.settle()

    def fence(self, error: ErrorCode, message: str) -> None:
        """End: nothing is granted or accepted any more (spec PER-9..11)."""
        self._end(error, message)
        self.telemetry.ended(error)
        for answer in list(self._pending.values()):
            if not answer.done():
                answer.set_result(Answered(0, error, message))
        self._pending.clear()

    def step(self, event: Event) -> None:
        """Hand an event to the machine and carry out its effects in order.

        A step that raises is a bug of ours, and nobody knows how far it came: the share partition
        ends, waiting requests fail, and the next fetch starts from the durable state.
        """
        try:
            effects = self._machine.step(event, now_ms=self._environment.clock.now_ms())
            self.telemetry.saw(event, effects)
            for effect in effects:
                self._carry_out(effect)
        except Exception as error:
            _log.exception("share partition %s broke at %s", self.key, type(event).__name__)
            message = f"the share partition broke ({error!r}), its locks have ended; fetch again"
            self.fence(ErrorCode.UNKNOWN_SERVER_ERROR, message)
        if not self._open:
            self._on_step()

    def _carry_out(self, effect: Effect) -> None:
        match effect:
            case RecordsAcquired():
                self._acquired = effect
            case Answered(request_id=request_id):
                answer = self._pending.pop(request_id, None)
                if answer is not None and not answer.done():
                    answer.set_result(effect)
            case WriteState(write_id=write_id):
                if effect.hand_over:
                    self._leaving = dict.fromkeys(lock.member_id for lock in effect.hand_over)
                self._work.write_state(effect, self.telemetry.trace_of(write_id))
            case WakeAt(deadline_ms=deadline_ms):
                self._set_alarm(deadline_ms)
            case WakeWaiters():
                self.wake_soon()
            case _:
                self._carry_out_rare(effect)

    def _carry_out_rare(self, effect: Effect) -> None:
        match effect:
            case ReadState(leader_epoch=leader_epoch):
                self._work.read_state(leader_epoch)
            case ResolveStartOffset(auto_offset_reset=policy):
                self._work.resolve_start_offset(policy)
            case LocksExpired(record_count=count, lapses=lapses):
                self._environment.counters.locks_expired += count
                self._environment.lapses.tell(self.key.group_id, lapses)
            case Initialized(error=ErrorCode.NONE):
                self.phase = Phase.ACTIVE
                self.was_active = True
                self._begun.set()
                self.wake_soon()
            case Initialized(error=ErrorCode.LEADER_NOT_AVAILABLE):
                pass  # never a client's business (INI-3, INI-15): the fetch waits
            case Initialized(error=error, message=message):
                self._end(error, message)
            case Dropped(error=error):
                self._end(error, "")
            case _:
                raise AssertionError(f"unhandled effect: {effect}")

    def _end(self, error: ErrorCode, message: str) -> None:
        if self.phase is Phase.ENDED:
            return
        self.phase = Phase.ENDED
        self._begun.set()
        self.error = error
        self.message = message or (
            f"the share partition of group {self.key.group_id!r} was dropped; fetch again"
        )
        # What it asks for now is what happens here; writes under way are still answered.
        self._machine.step(Fence(), now_ms=self._environment.clock.now_ms())
        self._set_alarm(None)
        self.wake_soon()
        self._on_ended(self)

    def _set_alarm(self, deadline_ms: int | None) -> None:
        if self._alarm is not None:
            if deadline_ms == self._alarm.deadline_ms:
                return
            self._alarm.cancel()
        if deadline_ms is None or self.phase is Phase.ENDED:
            self._alarm = None
        else:
            self._alarm = self._environment.alarms.at(deadline_ms, self._tick)

    def _tick(self) -> None:
        self._alarm = None
        environment = self._environment
        draw = environment.draw(self._config)
        self.step(Tick(lock_limit=environment.settings.max_locks_per_tick, draw=draw))

    # ---- state and log --------------------------------------------------------------------------

    def _work_ended(self, event: Event) -> None:
        if isinstance(event, StateRead):
            self._taken_from = dict.fromkeys(lock.leader_epoch for lock in event.handed_over)
        elif isinstance(event, StateWritten) and event.keeps_locks and not event.error:
            self.handed_over = self._leaving
        self.step(event)
        if self._work.fence_epoch > self.leader_epoch and not self.log.has_own_fence:
            self._on_fenced(self._work.fence_epoch)
        if isinstance(event, StateWritten) and event.error and self._machine.is_behind:
            # What ended locks left, or a count, is not stored (spec LK-6, ACK-23).
            environment = self._environment
            again_ms = environment.clock.now_ms() + environment.settings.write_again_ms
            if self._again is None:
                self._again = environment.alarms.at(again_ms, self._write_again)

    def _write_again(self) -> None:
        self._again = None
        if self.phase is Phase.ACTIVE:
            self.step(WriteAgain())
