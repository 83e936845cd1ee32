"""Invariants 1, 2 and 9 across the hand-over of locks (docs/spec HND): one leader decides.

Whoever handed locks over decides nothing more. A lock lives on only at the very next leader, once,
as its holder had it; what was said of it under the old leader counts there, once.
"""

from dataclasses import dataclass, replace

from sharemesh.domain.delivery_state import DeliveryState
from sharemesh.domain.errors import ErrorCode
from sharemesh.domain.handed_lock import HandedLock
from sharemesh.domain.ids import SharePartitionKey
from sharemesh.domain.share_partition.effects import Answered, RecordsAcquired, WriteState
from sharemesh.domain.share_partition.events import (
    Acknowledge,
    Acquire,
    Event,
    HandOver,
    Lifecycle,
    ReleaseMember,
    StateRead,
    Tick,
    WriteAgain,
)
from sharemesh.domain.share_partition.machine import SharePartition
from sharemesh.share_coordinator.hand_over_waits import HandOverWaits
from tests.simulation.checkers.grants import GrantChecker
from tests.simulation.checkers.unseen import UnseenChecker
from tests.simulation.invariants import (
    EXCLUSIVE_LOCK,
    FENCED,
    NO_EARLY_REDELIVERY,
    PROGRESS,
    Invariant,
)
from tests.simulation.patching import Patches
from tests.simulation.world import CLOCK_RATE, World

DECIDING = Acknowledge | ReleaseMember | Acquire | Tick | WriteAgain
CLOCKS_MS = 10  # whole milliseconds of several clocks


@dataclass(slots=True)
class _Sent:
    """What one leader handed over, and when."""

    machine: SharePartition
    locks: dict[int, HandedLock]
    at_s: float


class HandOverChecker:
    """Watches every step of every share partition machine of a run, beside ``GrantChecker``."""

    def __init__(self, world: World, grants: GrantChecker, unseen: UnseenChecker) -> None:
        self._world = world
        self._grants = grants
        self._unseen = unseen
        self._counters = world.event_log.counters
        self._sent: dict[tuple[SharePartitionKey, int], _Sent] = {}
        self._over: dict[SharePartition, None] = {}
        self._readers: dict[SharePartitionKey, int] = {}
        self._taken: dict[tuple[SharePartitionKey, int], SharePartition] = {}

    def install(self, patches: Patches) -> None:
        """Look at each step from now on, after ``GrantChecker`` did."""
        real, checker = SharePartition.step, self

        def step(machine, event, *, now_ms):
            must_pass = isinstance(event, Acknowledge) and checker._must_pass(machine, event)
            effects = real(machine, event, now_ms=now_ms)
            checker._seen(machine, event, effects, now_ms, must_pass=must_pass)
            return effects

        patches.setattr(SharePartition, "step", step)
        real_wait, counters = HandOverWaits.until_decided, self._counters

        async def until_decided(waits, keys):
            counters["reads that waited for a last write"] += 1
            await real_wait(waits, keys)

        patches.setattr(HandOverWaits, "until_decided", until_decided)

    def _seen(
        self, machine: SharePartition, event: Event, effects: tuple, now_ms: int, *, must_pass: bool
    ) -> None:
        if machine in self._over and isinstance(event, DECIDING) and _decides(effects):
            FENCED.judged(self._counters)
            self._say(machine, None, f"{type(event).__name__} after it had handed over", FENCED)
        match event:
            case HandOver():
                self._handed_over(machine, effects)
            case StateRead() if not event.error:
                self._read(machine, event, now_ms)
            case Acknowledge() if event.acquired_in:
                refused = [each for each in effects if isinstance(each, Answered) and each.error]
                self._counters["acknowledgements of before, after a hand-over"] += not refused
                if must_pass and any(
                    each.error is ErrorCode.INVALID_RECORD_STATE for each in refused
                ):
                    first = event.batches[0].first_offset
                    self._say(machine, first, f"{refused[0].message}, to its holder", PROGRESS)

    def _handed_over(self, machine: SharePartition, effects: tuple) -> None:
        self._over[machine] = None
        for write in effects:
            locks = write.hand_over if isinstance(write, WriteState) else ()
            by_offset = {
                offset: lock
                for lock in locks
                for offset in range(lock.first_offset, lock.last_offset + 1)
            }
            if by_offset:
                self._counters["locks sent to the next leader"] += len(by_offset)
                sent = _Sent(machine, by_offset, self._world.now_s)
                self._sent[machine.key, machine.leader_epoch] = sent

    def _read(self, machine: SharePartition, event: StateRead, now_ms: int) -> None:
        key, epoch = machine.key, machine.leader_epoch
        before = self._readers.get(key, 0)
        self._readers[key] = max(before, epoch)
        if not event.handed_over:
            return
        sent = self._sent.get((key, before))
        earlier = self._taken.setdefault((key, epoch), machine)
        for lock in event.handed_over:
            for offset in range(lock.first_offset, lock.last_offset + 1):
                record = machine.state_at(offset)
                if record is None or record.state is not DeliveryState.ACQUIRED:
                    self._counters["locks handed over that had ended"] += 1
                elif sent is None or before == epoch or offset not in sent.locks:
                    text = f"takes a lock of {lock.member_id} that epoch {before} did not send"
                    self._say(machine, offset, text, EXCLUSIVE_LOCK)
                elif earlier is not machine:
                    self._say(machine, offset, "takes a lock a second time", EXCLUSIVE_LOCK)
                else:
                    self._taken_over(machine, offset, sent, record.delivery_count, now_ms)

    def _taken_over(
        self, machine: SharePartition, offset: int, sent: _Sent, count: int, now_ms: int
    ) -> None:
        """The lock is as its holder had it, and lasts at least as long."""
        EXCLUSIVE_LOCK.judged(self._counters)
        self._counters["locks that live on"] += 1
        lock = sent.locks[offset]
        record = machine.state_at(offset)
        assert record is not None
        grant = self._grants.grant_of(sent.machine, offset)
        if grant is None or grant.ended or grant.decided or grant.member != lock.member_id:
            text = f"takes a lock of {lock.member_id} that had ended"
            self._say(machine, offset, text, EXCLUSIVE_LOCK)
            return
        if count != grant.count:
            text = f"takes delivery {grant.count} for delivery {count}"
            self._say(machine, offset, text, EXCLUSIVE_LOCK)
        passed_ms = (self._world.now_s - sent.at_s) * 1_000
        rates_ms = 3 * CLOCK_RATE * (lock.remaining_ms + passed_ms)  # clocks differ in rate, too
        left_ms = max(0, int(lock.remaining_ms - passed_ms - rates_ms) - CLOCKS_MS)
        deadline_ms = record.lock_deadline_ms
        if deadline_ms is None or deadline_ms < now_ms + left_ms:
            text = f"{lock.member_id} loses some of the {left_ms} ms that it had"
            self._say(machine, offset, text, NO_EARLY_REDELIVERY)
        epoch = grant.epoch or sent.machine.leader_epoch
        taken = replace(grant, deadline_ms=now_ms + left_ms, epoch=epoch)
        taken.latest_ms = max(taken.deadline_ms, deadline_ms or 0)
        self._grants.takes_over(machine, offset, taken)
        self._unseen.handed_over(sent.machine, machine, offset)

    def _must_pass(self, machine: SharePartition, event: Acknowledge) -> bool:
        """Whether a holder speaks of nothing but records that it holds from an earlier leader."""
        if not event.acquired_in or machine.state is not Lifecycle.ACTIVE:
            return False
        for batch in event.batches:
            if batch.first_offset < machine.start_offset:  # deleted while they were held
                return False
            for offset in range(batch.first_offset, batch.last_offset + 1):
                record = machine.state_at(offset)
                grant = self._grants.grant_of(machine, offset)
                if record is None or record.state is not DeliveryState.ACQUIRED or grant is None:
                    return False
                if record.member_id != event.member_id or grant.ended:
                    return False
                if batch.delivery_count and batch.delivery_count != record.delivery_count:
                    return False
                if not self._grants.was_taken_over(machine, offset, event.acquired_in):
                    return False
        return True

    def _say(
        self, machine: SharePartition, offset: int | None, text: str, invariant: Invariant
    ) -> None:
        told = f"{self._world.place(machine.key, offset)} epoch {machine.leader_epoch}: {text}"
        self._world.event_log.violation(self._world.now_s, invariant.broken(told))


def _decides(effects: tuple) -> bool:
    return any(
        isinstance(each, WriteState)
        or (isinstance(each, RecordsAcquired) and each.ranges)
        or (isinstance(each, Answered) and not each.error)
        for each in effects
    )
