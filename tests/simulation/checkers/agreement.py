"""Invariants 15 and 16: what explain says and what metrics count agree with the model."""

import random
from collections import Counter

from sharemesh.domain.delivery_state import AcknowledgeType
from sharemesh.domain.share_partition.effects import Acquired, Answered, Effect, LocksExpired
from sharemesh.domain.share_partition.events import Acknowledge, Event
from sharemesh.domain.share_partition.machine import SharePartition
from sharemesh.ports.shard_log import FencedError, LogFailedError
from sharemesh.share_leader.explain import Reason, why
from sharemesh.share_leader.share_partition_shell import SharePartitionShell
from sharemesh.telemetry import names
from sharemesh.telemetry.instruments import Metric
from sharemesh.telemetry.telemetry import Telemetry
from tests.simulation.checkers.grants import GrantChecker
from tests.simulation.invariants import EXPLAIN_IS_TRUE, METRICS_AGREE
from tests.simulation.patching import Patches
from tests.simulation.world import World

ASK_ONE_OF = 8
AROUND = 3
FREE = {Reason.DELIVERABLE, Reason.NO_MEMBER_ASKS}
DONE = {
    Reason.ACKNOWLEDGED,
    Reason.ARCHIVED,
    Reason.ARCHIVED_BY_LIMIT,
    Reason.BELOW_START_OFFSET,
    Reason.BELOW_LOG_START,
}


class ExplainChecker:
    """Asks, after steps that chance chooses, why a record is not delivered (invariant 15)."""

    def __init__(self, world: World, grants: GrantChecker) -> None:
        self._world = world
        self._grants = grants
        self._rng = random.Random(world.seed)

    def install(self, patches: Patches) -> None:
        """Look at each step of each shell from now on."""
        real = SharePartitionShell.step
        checker = self

        def step(shell, event):
            real(shell, event)
            if checker._rng.randrange(ASK_ONE_OF) == 0:
                checker.asked(shell)

        patches.setattr(SharePartitionShell, "step", step)

    def asked(self, shell: SharePartitionShell) -> None:
        """Judge one answer."""
        machine = shell.machine
        low, high = machine.start_offset - AROUND, machine.end_offset + AROUND
        offset = max(0, self._rng.randint(low, high))
        try:
            record = machine.state_at(offset)
            reason = why(shell._on_ended.__self__, shell, record, offset)
        except (FencedError, LogFailedError):
            return
        EXPLAIN_IS_TRUE.judged(self._world.story.counters)
        self._world.story.counters[f"explained: {reason.value}"] += 1
        problem = self._problem(shell, offset, reason)
        if problem:
            key = machine.key
            where = f"{key.group_id}:{key.topic_id.hex()[:6]}-{key.partition}"
            text = f"explain of {where} offset {offset}: {reason.value}, but {problem}"
            self._world.story.violation(self._world.now_s, EXPLAIN_IS_TRUE.broken(text))

    def _problem(self, shell: SharePartitionShell, offset: int, reason: Reason) -> str:
        grant = self._grants.grant_of(shell.machine, offset)
        if reason in (Reason.NOT_PRODUCED, Reason.INITIALIZING, Reason.GROUP_NOT_SEEN):
            produced = offset < shell.log.high_watermark
            return "it was produced" if reason is Reason.NOT_PRODUCED and produced else ""
        if offset < shell.machine.start_offset:
            return ""
        if reason is Reason.BELOW_LOG_START:  # deleted: even its holder can only decide about it
            return "" if offset < shell.log.log_start_offset else "the log begins before it"
        if grant is None:
            held = reason in (Reason.LOCKED, Reason.BEING_WRITTEN)
            return "nobody was given it" if held else ""
        if grant.final:
            return "" if reason in DONE else f"{grant.member} finished it"
        if not grant.ended and self._grants.held_now(grant, shell.machine):
            return "" if reason is Reason.LOCKED else f"{grant.member} holds it"
        if reason is Reason.LOCKED and grant.decided:
            return f"{grant.member} gave it back"
        return ""


class MetricsChecker:
    """Counts grants, acknowledgements and expiries at the machines (invariant 16)."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._silent: set[int] = set()
        self._kept: dict[int, SharePartition] = {}
        self._asked: dict[tuple[int, int], Acknowledge] = {}
        self.counted: Counter[str] = Counter()

    def install(self, patches: Patches) -> None:
        """Count from now on."""
        real_step, real_fence = SharePartition.step, SharePartitionShell.fence
        checker = self

        def step(machine, event, *, now_ms):
            effects = real_step(machine, event, now_ms=now_ms)
            checker.seen(machine, event, effects)
            return effects

        def fence(shell, error, message):
            real_fence(shell, error, message)
            checker._silent.add(id(shell.machine))  # who waited heard the error already

        patches.setattr(SharePartition, "step", step)
        patches.setattr(SharePartitionShell, "fence", fence)

    def seen(self, machine: SharePartition, event: Event, effects: tuple[Effect, ...]) -> None:
        """Count one step."""
        self._kept[id(machine)] = machine
        if isinstance(event, Acknowledge):
            self._asked[id(machine), event.request_id] = event
        for effect in effects:
            if isinstance(effect, Acquired):
                self.counted["acquired"] += effect.count
            elif isinstance(effect, LocksExpired):
                self.counted["expired"] += effect.record_count
            elif isinstance(effect, Answered):
                asked = self._asked.pop((id(machine), effect.request_id), None)
                if asked is not None and not effect.error and id(machine) not in self._silent:
                    self._answered(asked)

    def _answered(self, asked: Acknowledge) -> None:
        for batch in asked.batches:
            length = batch.last_offset - batch.first_offset + 1
            types = batch.types if len(batch.types) > 1 else batch.types * length
            for kind in types:
                if kind != AcknowledgeType.GAP:
                    self.counted[AcknowledgeType(kind).name.lower()] += 1

    def judge(self, telemetries: list[Telemetry]) -> list[str]:
        """Return how metrics of all processes together differ from what was counted."""
        found: Counter[str] = Counter()
        for telemetry in telemetries:
            for reading in telemetry.registry.collect():
                for labels, value in reading.values:
                    name = _counted_as(reading.metric, labels)
                    if name:
                        found[name] += int(value)
        METRICS_AGREE.judged(self._world.story.counters, sum(self.counted.values()))
        return [
            METRICS_AGREE.broken(f"metrics say {found[name]} {name}, not {self.counted[name]}")
            for name in sorted({*found, *self.counted})
            if found[name] != self.counted[name]
        ]


def _counted_as(metric: Metric, labels: tuple[str, ...]) -> str:
    if metric is names.RECORDS_ACQUIRED:
        return "acquired"
    if metric is names.LOCKS_EXPIRED:
        return "expired"
    return labels[-1] if metric is names.RECORDS_ACKNOWLEDGED else ""
