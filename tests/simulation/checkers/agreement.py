"""Invariants 15 and 16: what explain says and what metrics count agree with the model."""

import random
from collections import Counter

from sharemesh.domain.delivery_state import AcknowledgeType, DeliveryState
from sharemesh.domain.share_partition.effects import Acquired, Answered, Effect, LocksExpired
from sharemesh.domain.share_partition.events import Acknowledge, Event
from sharemesh.domain.share_partition.machine import SharePartition
from sharemesh.ports.shard_log import FencedError, LogFailedError
from sharemesh.share_leader.explain import Reason, why
from sharemesh.share_leader.share_partition_shell import SharePartitionShell
from sharemesh.telemetry import names
from sharemesh.telemetry.instruments import Metric
from sharemesh.telemetry.telemetry import Telemetry
from tests.simulation.checkers.grants import Grant, GrantChecker
from tests.simulation.invariants import EXPLAIN_IS_TRUE, METRICS_AGREE
from tests.simulation.patching import Patches
from tests.simulation.world import DELIVERY_COUNT_LIMIT, World

ASK_ONE_OF = 2
BELOW, ABOVE = 3, 1
NOT_ACTIVE = {Reason.INITIALIZING, Reason.GROUP_NOT_SEEN}
DONE = {
    Reason.ACKNOWLEDGED: DeliveryState.ACKNOWLEDGED,
    Reason.ARCHIVED: DeliveryState.ARCHIVED,
    Reason.ARCHIVED_BY_LIMIT: DeliveryState.ARCHIVED,
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
        low, high = machine.start_offset - BELOW, machine.end_offset + ABOVE
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
            where = self._world.place(machine.key, offset)
            text = f"explain of {where}: {reason.value}, but {problem}"
            self._world.story.violation(self._world.now_s, EXPLAIN_IS_TRUE.broken(text))

    def _problem(self, shell: SharePartitionShell, offset: int, reason: Reason) -> str:
        """Return what the model knows better, or nothing."""
        if reason in NOT_ACTIVE:
            return ""
        is_produced = offset < shell.log.high_watermark
        if (reason is Reason.NOT_PRODUCED) is is_produced:
            return "it was produced" if is_produced else "it was not produced"
        if not is_produced:
            return ""
        is_deleted = offset < shell.log.log_start_offset
        if (reason is Reason.BELOW_LOG_START) is not is_deleted:
            return "the log begins behind it" if is_deleted else "the log begins before it"
        if is_deleted:  # even its holder can only decide about it
            return ""
        if offset < shell.machine.start_offset:
            is_done = reason is Reason.BELOW_START_OFFSET or reason in DONE
            return "" if is_done else f"the start offset is {shell.machine.start_offset}"
        grant = self._grants.grant_of(shell.machine, offset)
        if grant is None:
            held_or_done = {Reason.LOCKED, Reason.BEING_WRITTEN, *DONE}
            return "nobody was given it" if reason in held_or_done else ""
        return self._problem_of(shell.machine, grant, reason)

    def _problem_of(self, machine: SharePartition, grant: Grant, reason: Reason) -> str:
        """The same of a record that somebody got."""
        if grant.state is not None:
            is_so = DONE.get(reason) is grant.state
            return "" if is_so else f"{grant.member} made it {grant.state.name}"
        if grant.ended and not grant.left and not grant.decided:
            return "" if reason is Reason.BEING_WRITTEN else f"{grant.member} decides about it"
        if not grant.ended and self._grants.held_now(grant, machine):
            return "" if reason is Reason.LOCKED else f"{grant.member} holds it"
        if reason is Reason.LOCKED:  # one who left may hold it on, if that could not be written
            if grant.decided:
                return f"{grant.member} gave it back"
            return "its lock is over" if self._grants.is_overdue(grant, machine) else ""
        if reason is Reason.BEING_WRITTEN:
            return "" if grant.left and not grant.decided else "nobody decides about it"
        is_at_limit = grant.count >= DELIVERY_COUNT_LIMIT
        if (reason is Reason.ARCHIVED_BY_LIMIT) is not is_at_limit:
            return f"it was delivered {grant.count} times"
        return "nobody finished it" if reason in DONE and not is_at_limit else ""


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
