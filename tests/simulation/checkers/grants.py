"""Invariants 1, 2, 3, 5, 8, 12, 13, 14 at the leader: who holds what, by a model of its own."""

import random
from bisect import bisect_right
from collections import Counter, defaultdict
from dataclasses import dataclass
from itertools import chain

from sharemesh.domain.delivery_state import AcknowledgeType, Cause, DeliveryState
from sharemesh.domain.ids import SharePartitionKey
from sharemesh.domain.share_partition.cache.record_status import HAND_BACKS_MAX
from sharemesh.domain.share_partition.effects import Answered, RecordsAcquired, WriteState
from sharemesh.domain.share_partition.events import (
    Acknowledge,
    AcknowledgementBatch,
    Acquire,
    Event,
    Lifecycle,
    ReleaseMember,
    StartOffsetResolved,
    StateRead,
    StateWritten,
    Tick,
)
from sharemesh.domain.share_partition.machine import SharePartition
from tests.simulation.checkers.in_flight_limit import Room
from tests.simulation.checkers.state_log import FINISHED
from tests.simulation.invariants import (
    BATCHES_IN_ORDER,
    DELIVERY_COUNT,
    EXCLUSIVE_LOCK,
    FINAL,
    LIMITS,
    NO_EARLY_REDELIVERY,
    PROGRESS,
    RENEW,
    Invariant,
)
from tests.simulation.loop import PROCESS
from tests.simulation.patching import Patches
from tests.simulation.world import DELIVERY_COUNT_LIMIT, World

VALIDATE_ONE_OF = 16
OVERDUE_MS = 1_000  # so long after its end a lock may be taken for valid: its timer is behind
THAWED_S = 2.0  # and so long after a freeze, in which timers stood still
ACTIVE = Lifecycle.ACTIVE
FINAL_STATES = {
    AcknowledgeType.ACCEPT: DeliveryState.ACKNOWLEDGED,
    AcknowledgeType.REJECT: DeliveryState.ARCHIVED,
    AcknowledgeType.GAP: DeliveryState.ARCHIVED,
}


@dataclass(slots=True)
class Grant:
    """The last time an offset was granted by one machine.

    Attributes:
        member: Who got it; empty if it was before this leader, as the stored state says.
        count: Its delivery count.
        deadline_ms: Until then its lock must hold.
        latest_ms: Until then it may: a request that failed may have renewed it (spec ACK-15).
        ended: Its member has asked for something else than RENEW, or has left.
        left: Its member has left.
        renewed: Its member was told that the lock was renewed.
        decided: Its member was told that its word counts.
        unsure: A write of its count was begun, and may be stored though it failed.
        hand_backs: Uncounted releases of the offset in a row, before this grant.
        state: What it is for good, if that is known.
        cause: What ended it before this leader, as the stored state says.
        epoch: Of the leader that granted it, if it was handed over since; else 0.
    """

    member: str
    count: int
    deadline_ms: int
    latest_ms: int
    ended: bool = False
    left: bool = False
    renewed: bool = False
    decided: bool = False
    unsure: bool = False
    hand_backs: int = 0
    state: DeliveryState | None = None
    cause: Cause = Cause.UNSPECIFIED
    epoch: int = 0

    def may_be_uncounted(self) -> bool:
        """Whether an uncounted release of it does not count (HBK-4, HBK-5)."""
        return not self.unsure and self.hand_backs < HAND_BACKS_MAX


@dataclass(frozen=True, slots=True)
class Asked:
    """An acknowledgement that was not answered yet, and how things were when it came.

    Attributes:
        event: What was asked.
        now_ms: When.
        start_offset: Of the share partition then.
        ends: The grants whose locks it ends, unless it fails.
        is_awake: Whether the leader's timers were in time.
        waits: Whether it was not answered in the same step, so that something is written.
    """

    event: Acknowledge
    now_ms: int
    start_offset: int
    ends: list[Grant]
    is_awake: bool
    waits: bool


class GrantChecker:
    """Watches every step of every share partition machine of a run."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._rng = random.Random(world.seed)
        self._grants: dict[int, dict[int, Grant]] = {}
        self._kept: dict[int, SharePartition] = {}
        self._asked: dict[tuple[int, int], Asked] = {}
        self._starts: dict[SharePartitionKey, list[tuple[float, int]]] = defaultdict(list)
        self._first_starts: dict[SharePartitionKey, int] = {}
        self._stored: set[SharePartitionKey] = set()
        self._now_ms: dict[int, int] = {}
        self._writing: dict[tuple[int, int], tuple[range, ...]] = {}
        self._unstored: dict[int, Counter[int]] = defaultdict(Counter)
        self._counters = world.event_log.counters

    def install(self, patches: Patches) -> None:
        """Look at each step from now on."""
        real = SharePartition.step
        checker = self

        def step(machine, event, *, now_ms):
            room = Room.before(machine) if type(event) is Acquire else None
            effects = real(machine, event, now_ms=now_ms)
            checker.seen(machine, event, effects, now_ms, room)
            return effects

        patches.setattr(SharePartition, "step", step)

    def start_offset_at(self, key: SharePartitionKey, time_s: float) -> int:
        """Return the highest start offset that any leader had by then."""
        known = self._starts.get(key, [])
        index = bisect_right(known, time_s, key=lambda each: each[0]) - 1
        return known[index][1] if index >= 0 else 0

    def first_start_offset(self, key: SharePartitionKey) -> int:
        """Return the start offset of its first leader, or of the last to resolve it unwritten."""
        return self._first_starts.get(key, 0)

    def grant_of(self, machine: SharePartition, offset: int) -> Grant | None:
        """Return the last grant of an offset by this machine."""
        return self._grants.get(id(machine), {}).get(offset)

    def takes_over(self, machine: SharePartition, offset: int, grant: Grant) -> None:
        """A lock that another leader granted lives on in this machine."""
        self._grants[id(machine)][offset] = grant

    def was_taken_over(self, machine: SharePartition, offset: int, epoch: int) -> bool:
        """Return whether the last grant of an offset was handed over from an epoch."""
        grant = self.grant_of(machine, offset)
        return grant is not None and grant.epoch == epoch

    def held_now(self, grant: Grant, machine: SharePartition) -> bool:
        """Whether a lock that nobody ended must still run."""
        return self._now_ms[id(machine)] < grant.deadline_ms

    def is_overdue(self, grant: Grant, machine: SharePartition) -> bool:
        """Whether its lock must have ended by now, whatever its member did."""
        late_ms = self._now_ms[id(machine)] - grant.latest_ms
        return late_ms > OVERDUE_MS and self._is_awake()

    def seen(
        self,
        machine: SharePartition,
        event: Event,
        effects: tuple,
        now_ms: int,
        room: Room | None,
    ) -> None:
        """Judge one step; ``room`` is what there was of it before records were acquired."""
        self._now_ms[id(machine)] = now_ms
        known = self._starts[machine.key]
        if not known or known[-1][1] < machine.start_offset:
            known.append((self._world.now_s, machine.start_offset))
        if self._rng.randrange(VALIDATE_ONE_OF) == 0:
            BATCHES_IN_ORDER.judged(self._counters)
            try:
                machine.validate()
            except AssertionError as error:
                self._say(machine, None, f"in no allowed state: {error}", BATCHES_IN_ORDER)
        match event:
            case StartOffsetResolved():
                if machine.key not in self._stored:  # not written before the next write (INI-5)
                    self._first_starts[machine.key] = machine.start_offset
            case StateRead():
                self._loaded(machine, event)
            case StateWritten():
                self._written(machine, event)
            case Acknowledge():
                self._acknowledging(machine, event, effects, now_ms)
            case ReleaseMember():
                self._left(machine, event, effects)
        for effect in effects:
            if isinstance(effect, RecordsAcquired) and room is not None:
                assert isinstance(event, Acquire), event
                self._acquired(machine, event, effect, now_ms, room)
            elif isinstance(effect, Answered):
                self._answered(machine, effect)
            elif isinstance(effect, WriteState):
                offsets = [
                    range(each.first_offset, each.last_offset + 1) for each in effect.batches
                ]
                self._writing[id(machine), effect.write_id] = tuple(offsets)
                if isinstance(event, Tick | ReleaseMember):  # in force before it is stored (LK-6)
                    self._unstored[id(machine)].update(chain(*offsets))

    def unstored(self, key: SharePartitionKey) -> Counter[int]:
        """Return for each offset how many ends of its locks a leader took along unstored."""
        mine = [number for number, machine in self._kept.items() if machine.key == key]
        return sum((self._unstored[number] for number in mine), Counter())

    def _writes(self, machine: SharePartition, event: Event, effect: WriteState) -> None:
        ranges = [range(each.first_offset, each.last_offset + 1) for each in effect.batches]
        self._writing[id(machine), effect.write_id] = tuple(ranges)
        if isinstance(event, Tick | ReleaseMember):  # in force before it is stored (LK-6)
            self._unstored[id(machine)].update(chain(*ranges))

    def _written(self, machine: SharePartition, event: StateWritten) -> None:
        offsets = self._writing.pop((id(machine), event.write_id), ())
        if event.error:
            return
        self._stored.add(machine.key)
        for offset in chain(*offsets):
            self._unstored[id(machine)].pop(offset, None)

    def _loaded(self, machine: SharePartition, event: StateRead) -> None:
        """What the stored state says was delivered before this leader, and given back or not."""
        if machine.state is ACTIVE:
            self._first_starts.setdefault(machine.key, machine.start_offset)
        grants = self._grants[id(machine)] = {}
        for batch in event.batches:
            state = batch.delivery_state if batch.delivery_state in FINISHED else None
            for offset in range(batch.first_offset, batch.last_offset + 1):
                grants[offset] = Grant(
                    "",
                    batch.delivery_count,
                    0,
                    0,
                    ended=True,
                    decided=True,
                    state=state,
                    cause=batch.cause,
                )
        self._kept[id(machine)] = machine  # so that its id is not used again

    def _acquired(
        self,
        machine: SharePartition,
        event: Acquire,
        effect: RecordsAcquired,
        now_ms: int,
        room: Room,
    ) -> None:
        grants = self._grants.setdefault(id(machine), {})
        total = 0
        for each in effect.ranges:
            for offset in range(each.first_offset, each.last_offset + 1):
                total += 1
                before = grants.get(offset)
                if before is not None:
                    self._granted_again(machine, offset, before, each.delivery_count, now_ms)
                elif each.delivery_count != 1:
                    text = f"first delivery {each.delivery_count}"
                    self._say(machine, offset, text, DELIVERY_COUNT)
                end_ms = now_ms + self._world.lock_duration_ms
                hand_backs = 0 if before is None else before.hand_backs
                grants[offset] = Grant(
                    event.member_id, each.delivery_count, end_ms, end_ms, hand_backs=hand_backs
                )
        self._counters["grants"] += total
        EXCLUSIVE_LOCK.judged(self._counters, total)
        DELIVERY_COUNT.judged(self._counters, total)
        LIMITS.judged(self._counters)
        if total and room.left < event.max_fetch_records:
            self._counters["grants that the in-flight limit decides"] += 1
        problem = room.problem(machine, event, effect.ranges)
        if problem:
            self._say(machine, None, problem, LIMITS)

    def _granted_again(
        self, machine: SharePartition, offset: int, before: Grant, count: int, now_ms: int
    ) -> None:
        NO_EARLY_REDELIVERY.judged(self._counters)
        FINAL.judged(self._counters)
        if before.state is not None:
            self._say(machine, offset, "granted after it was finished", FINAL)
        elif not before.ended and now_ms < before.deadline_ms:
            self._say(
                machine,
                offset,
                f"granted {before.deadline_ms - now_ms} ms before the lock of {before.member} ends",
                RENEW if before.renewed else NO_EARLY_REDELIVERY,
            )
        elif not before.ended:
            self._counters["locks expired"] += 1
        if count > DELIVERY_COUNT_LIMIT:
            text = f"delivery {count}, limit {DELIVERY_COUNT_LIMIT}"
            self._say(machine, offset, text, DELIVERY_COUNT)
        if count != before.count + 1:
            text = f"delivery count {before.count} then {count}"
            self._say(machine, offset, text, DELIVERY_COUNT)

    def _is_awake(self) -> bool:
        return self._world.now_s - PROCESS.get().thawed_s > THAWED_S

    def _acknowledging(
        self, machine: SharePartition, event: Acknowledge, effects: tuple, now_ms: int
    ) -> None:
        ends = []
        for grant, kind, _ in self._named(machine, event):
            is_theirs = grant.member == event.member_id
            if is_theirs and kind != AcknowledgeType.RENEW and not grant.ended:
                grant.ended = True
                ends.append(grant)
        self._asked[id(machine), event.request_id] = Asked(
            event,
            now_ms,
            machine.start_offset,
            ends,
            self._is_awake(),
            not any(isinstance(each, Answered) for each in effects),
        )

    def _answered(self, machine: SharePartition, effect: Answered) -> None:
        asked = self._asked.pop((id(machine), effect.request_id), None)
        if asked is None:
            return
        if effect.error:
            self._refused(machine, asked)
            return
        self._accepted(machine, asked)
        renewed_ms = asked.now_ms + self._world.lock_duration_ms
        for grant, kind, is_uncounted in self._named(machine, asked.event):
            if grant.member != asked.event.member_id:
                continue
            if kind != AcknowledgeType.RENEW and not grant.decided:
                self._ended(grant, is_uncounted=is_uncounted)
            if kind == AcknowledgeType.RENEW:
                grant.deadline_ms = max(grant.deadline_ms, renewed_ms)
                grant.latest_ms = max(grant.latest_ms, renewed_ms)
                grant.renewed = True
                self._counters["locks renewed"] += 1
            else:
                grant.decided = True
            if kind in FINAL_STATES:
                grant.state = FINAL_STATES[AcknowledgeType(kind)]

    def _ended(self, grant: Grant, *, is_uncounted: bool) -> None:
        """Note whether a delivery counts that its member has ended."""
        if is_uncounted and grant.may_be_uncounted():
            grant.count -= 1
            grant.hand_backs += 1
            self._counters["deliveries that do not count"] += 1
        else:
            grant.hand_backs = 0

    def _refused(self, machine: SharePartition, asked: Asked) -> None:
        """All is as it was (spec ACK-2, ACK-19), but for locks that it renewed (ACK-15)."""
        for grant in asked.ends:
            if not grant.left:
                grant.ended = False
                self._counters["locks that go on after a refusal"] += self.held_now(grant, machine)
        for grant, kind, is_uncounted in self._named(machine, asked.event):
            if grant.member != asked.event.member_id:
                continue
            if asked.waits and kind != AcknowledgeType.RENEW:
                grant.unsure |= not (is_uncounted and grant.may_be_uncounted())
            if kind == AcknowledgeType.RENEW:
                grant.latest_ms = max(grant.latest_ms, asked.now_ms + self._world.lock_duration_ms)

    def _accepted(self, machine: SharePartition, asked: Asked) -> None:
        """Whoever is told success above the start offset held a lock that had not ended."""
        grants, event = self._grants.get(id(machine), {}), asked.event
        for batch in event.batches:
            for offset in range(max(batch.first_offset, asked.start_offset), batch.last_offset + 1):
                grant = grants.get(offset)
                invariant = EXCLUSIVE_LOCK
                if kind_of(batch, offset) == AcknowledgeType.RENEW:
                    invariant = RENEW
                invariant.judged(self._counters)
                if grant is None:
                    text = f"{event.member_id} never held it, success"
                    self._say(machine, offset, text, invariant)
                elif grant.member != event.member_id or grant.decided:
                    self._say(
                        machine,
                        offset,
                        f"acknowledged by {event.member_id} after {grant.member} had it, delivery "
                        f"{grant.count}",
                        invariant,
                    )
                elif asked.now_ms - grant.latest_ms > OVERDUE_MS and asked.is_awake:
                    late_ms = asked.now_ms - grant.latest_ms
                    text = f"{event.member_id} acknowledged {late_ms} ms after its lock, success"
                    self._say(machine, offset, text, invariant)

    def _left(self, machine: SharePartition, event: ReleaseMember, effects: tuple) -> None:
        """A session ended: all that its member holds goes back, unless it was turned away."""
        refused = any(isinstance(each, Answered) and each.error for each in effects)
        for offset, grant in self._grants.get(id(machine), {}).items():
            if grant.member != event.member_id:
                continue
            if not grant.ended and not refused and _holds(machine, event.member_id, offset):
                self._say(machine, offset, f"stays with {grant.member}, who left", PROGRESS)
            # What it asked for before it left is decided by that request's own write.
            grant.unsure |= not grant.ended
            grant.ended = grant.left = True

    def _named(
        self, machine: SharePartition, event: Acknowledge
    ) -> list[tuple[Grant, AcknowledgeType | int, bool]]:
        """Return the grants that a request is about, each with its type, and whether uncounted."""
        grants = self._grants.get(id(machine), {})
        found = []
        for batch in event.batches:
            for offset in range(batch.first_offset, batch.last_offset + 1):
                grant = grants.get(offset)
                if grant is not None:
                    found.append((grant, kind_of(batch, offset), batch.uncounted))
        return found

    def _say(
        self, machine: SharePartition, offset: int | None, text: str, invariant: Invariant
    ) -> None:
        where = self._world.place(machine.key, offset)
        told = f"{where} epoch {machine.leader_epoch}: {text}"
        self._world.event_log.violation(self._world.now_s, invariant.broken(told))


def _holds(machine: SharePartition, member_id: str, offset: int) -> bool:
    record = machine.state_at(offset)
    return (
        record is not None
        and record.state is DeliveryState.ACQUIRED
        and record.member_id == member_id
    )


def kind_of(batch: AcknowledgementBatch, offset: int) -> AcknowledgeType | int:
    """Return what a batch says of one offset."""
    position = offset - batch.first_offset
    return batch.types[position] if len(batch.types) > 1 else batch.types[0]
