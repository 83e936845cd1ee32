"""Invariants 1, 2, 5, 8, 12 and 13, seen at the leader: who holds what, by a model of its own."""

import random
from bisect import bisect_right
from collections import defaultdict
from dataclasses import dataclass

from sharemesh.domain.delivery_state import AcknowledgeType, DeliveryState
from sharemesh.domain.ids import SharePartitionKey
from sharemesh.domain.share_partition.effects import Acquired, Answered
from sharemesh.domain.share_partition.events import (
    Acknowledge,
    AcknowledgementBatch,
    Acquire,
    AcquireMode,
    Event,
    ReleaseMember,
    StartOffsetResolved,
    StateRead,
)
from sharemesh.domain.share_partition.lifecycle import Lifecycle
from sharemesh.domain.share_partition.machine import SharePartition
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
from tests.simulation.patching import Patches
from tests.simulation.world import DELIVERY_COUNT_LIMIT, LOCK_DURATION_MS, World

VALIDATE_ONE_OF = 16
ACTIVE = Lifecycle.ACTIVE


@dataclass(slots=True)
class Grant:
    """The last time an offset was granted by one machine."""

    member: str
    count: int
    deadline_ms: int
    ended: bool = False
    renewed: bool = False
    decided: bool = False
    final: bool = False


@dataclass(frozen=True, slots=True)
class Asked:
    """An acknowledgement that was not answered yet, and the start offset when it came."""

    event: Acknowledge
    now_ms: int
    start_offset: int


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
        self._now_ms: dict[int, int] = {}
        self._counters = world.story.counters
        self.steps = 0

    def install(self, patches: Patches) -> None:
        """Look at each step from now on."""
        real = SharePartition.step
        checker = self

        def step(machine, event, *, now_ms):
            effects = real(machine, event, now_ms=now_ms)
            checker.seen(machine, event, effects, now_ms)
            return effects

        patches.setattr(SharePartition, "step", step)

    def start_offset_at(self, key: SharePartitionKey, time_s: float) -> int:
        """Return the highest start offset that any leader had by then."""
        known = self._starts.get(key, [])
        index = bisect_right(known, time_s, key=lambda each: each[0]) - 1
        return known[index][1] if index >= 0 else 0

    def first_start_offset(self, key: SharePartitionKey) -> int:
        """Return the start offset of its first leader, or of the last one that resolved it."""
        return self._first_starts.get(key, 0)

    def grant_of(self, machine: SharePartition, offset: int) -> Grant | None:
        """Return the last grant of an offset by this machine."""
        return self._grants.get(id(machine), {}).get(offset)

    def held_now(self, grant: Grant, machine: SharePartition) -> bool:
        """Whether a lock that nobody ended must still run."""
        return self._now_ms[id(machine)] < grant.deadline_ms

    def seen(self, machine: SharePartition, event: Event, effects: tuple, now_ms: int) -> None:
        """Judge one step."""
        self.steps += 1
        self._now_ms[id(machine)] = now_ms
        known = self._starts[machine.key]
        if not known or known[-1][1] < machine.start_offset:
            known.append((self._world.now_s, machine.start_offset))
        if self._rng.randrange(VALIDATE_ONE_OF) == 0:
            BATCHES_IN_ORDER.judged(self._counters)
            try:
                machine.validate()
            except AssertionError as error:
                self._say(machine, f"is in no allowed state: {error}", BATCHES_IN_ORDER)
        if isinstance(event, StartOffsetResolved):  # not written before the next write (INI-5)
            self._first_starts[machine.key] = machine.start_offset
        elif isinstance(event, StateRead) and machine.state is ACTIVE:
            self._first_starts.setdefault(machine.key, machine.start_offset)
        match event:
            case StateRead():
                # What was delivered before this leader and is known to be given back.
                self._grants[id(machine)] = {
                    offset: Grant("", batch.delivery_count, 0, ended=True)
                    for batch in event.batches
                    if batch.delivery_state is DeliveryState.AVAILABLE
                    for offset in range(batch.first_offset, batch.last_offset + 1)
                }
                self._kept[id(machine)] = machine  # so that its id is not used again
            case Acknowledge():
                self._asked[id(machine), event.request_id] = Asked(
                    event, now_ms, machine.start_offset
                )
                self._acknowledging(machine, event)
            case ReleaseMember():
                self._left(machine, event, effects)
        for effect in effects:
            if isinstance(effect, Acquired) and isinstance(event, Acquire):
                self._acquired(machine, event, effect, now_ms)
            elif isinstance(effect, Answered):
                self._answered(machine, effect)

    def _acquired(
        self, machine: SharePartition, event: Acquire, effect: Acquired, now_ms: int
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
                    text = f"offset {offset}: first delivery {each.delivery_count}"
                    self._say(machine, text, DELIVERY_COUNT)
                grants[offset] = Grant(
                    event.member_id,
                    each.delivery_count,
                    now_ms + LOCK_DURATION_MS,
                )
        self._counters["grants"] += total
        EXCLUSIVE_LOCK.judged(self._counters, total)
        DELIVERY_COUNT.judged(self._counters, total)
        if event.mode is AcquireMode.RECORD_LIMIT:
            LIMITS.judged(self._counters)
            if total > event.max_fetch_records:
                text = f"granted {total} records, limit {event.max_fetch_records}"
                self._say(machine, text, LIMITS)

    def _granted_again(
        self, machine: SharePartition, offset: int, before: Grant, count: int, now_ms: int
    ) -> None:
        NO_EARLY_REDELIVERY.judged(self._counters)
        FINAL.judged(self._counters)
        if before.final:
            self._say(machine, f"offset {offset} was granted after it was finished", FINAL)
        elif not before.ended and now_ms < before.deadline_ms:
            self._say(
                machine,
                f"offset {offset} was granted {before.deadline_ms - now_ms} ms before the lock of "
                f"{before.member} ends",
                RENEW if before.renewed else NO_EARLY_REDELIVERY,
            )
        elif not before.ended:
            self._counters["locks expired"] += 1
        if count > DELIVERY_COUNT_LIMIT:
            text = f"offset {offset}: delivery {count}, limit {DELIVERY_COUNT_LIMIT}"
            self._say(machine, text, LIMITS)
        if count != before.count + 1:
            text = f"offset {offset}: delivery count {before.count} then {count}"
            self._say(machine, text, DELIVERY_COUNT)

    def _acknowledging(self, machine: SharePartition, event: Acknowledge) -> None:
        for grant, kind in self._named(machine, event):
            if grant.member != event.member_id:
                continue
            if kind != AcknowledgeType.RENEW:
                grant.ended = True

    def _answered(self, machine: SharePartition, effect: Answered) -> None:
        asked = self._asked.pop((id(machine), effect.request_id), None)
        if asked is None or effect.error:
            return
        event = asked.event
        self._accepted(machine, asked)
        for grant, kind in self._named(machine, event):
            if grant.member != event.member_id:
                continue
            if kind == AcknowledgeType.RENEW:
                grant.deadline_ms = max(grant.deadline_ms, asked.now_ms + LOCK_DURATION_MS)
                grant.renewed = True
                self._counters["locks renewed"] += 1
            else:
                grant.decided = True
            if kind in (AcknowledgeType.ACCEPT, AcknowledgeType.REJECT):
                grant.final = True

    def _accepted(self, machine: SharePartition, asked: Asked) -> None:
        """Whoever is told success above the start offset held a lock that nobody had ended."""
        grants, event = self._grants.get(id(machine), {}), asked.event
        for batch in event.batches:
            for offset in range(max(batch.first_offset, asked.start_offset), batch.last_offset + 1):
                grant = grants.get(offset)
                invariant = EXCLUSIVE_LOCK
                if _kind(batch, offset) == AcknowledgeType.RENEW:
                    invariant = RENEW
                invariant.judged(self._counters)
                if grant is None:
                    text = f"offset {offset}: {event.member_id} never held it, success"
                    self._say(machine, text, invariant)
                elif grant.member != event.member_id or grant.decided:
                    self._say(
                        machine,
                        f"offset {offset} was acknowledged by {event.member_id} after "
                        f"{grant.member} had it, delivery {grant.count}",
                        invariant,
                    )

    def _left(self, machine: SharePartition, event: ReleaseMember, effects: tuple) -> None:
        """A session ended: all that its member holds goes back, unless it was turned away."""
        refused = any(isinstance(each, Answered) and each.error for each in effects)
        for offset, grant in self._grants.get(id(machine), {}).items():
            if grant.member != event.member_id:
                continue
            if not grant.ended and not refused and _holds(machine, event.member_id, offset):
                self._say(machine, f"offset {offset} stays with {grant.member}, who left", PROGRESS)
            grant.ended = True

    def _named(
        self, machine: SharePartition, event: Acknowledge
    ) -> list[tuple[Grant, AcknowledgeType | int]]:
        grants = self._grants.get(id(machine), {})
        found = []
        for batch in event.batches:
            for offset in range(batch.first_offset, batch.last_offset + 1):
                grant = grants.get(offset)
                if grant is not None:
                    found.append((grant, _kind(batch, offset)))
        return found

    def _say(self, machine: SharePartition, text: str, invariant: Invariant) -> None:
        key = machine.key
        where = f"{key.group_id}:{key.topic_id.hex()[:6]}-{key.partition}"
        told = f"{where} epoch {machine.leader_epoch}: {text}"
        self._world.story.violation(self._world.now_s, invariant.broken(told))


def _holds(machine: SharePartition, member_id: str, offset: int) -> bool:
    record = machine.state_at(offset)
    return (
        record is not None
        and record.state is DeliveryState.ACQUIRED
        and record.member_id == member_id
    )


def _kind(batch: AcknowledgementBatch, offset: int) -> AcknowledgeType | int:
    position = offset - batch.first_offset
    return batch.types[position] if len(batch.types) > 1 else batch.types[0]
