"""Invariant 16: what metrics count is what the machines did."""

from collections import Counter

from sharemesh.domain.delivery_state import AcknowledgeType
from sharemesh.domain.share_partition.effects import Answered, Effect, LocksExpired, RecordsAcquired
from sharemesh.domain.share_partition.events import Acknowledge, Event
from sharemesh.domain.share_partition.machine import SharePartition
from sharemesh.share_leader.partition.share_partition_runner import SharePartitionRunner
from sharemesh.telemetry import names
from sharemesh.telemetry.instruments import Metric
from sharemesh.telemetry.telemetry import Telemetry
from tests.simulation.invariants import METRICS_AGREE
from tests.simulation.patching import Patches
from tests.simulation.world import World


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
        real_step, real_fence = SharePartition.step, SharePartitionRunner.fence
        checker = self

        def step(machine, event, *, now_ms):
            effects = real_step(machine, event, now_ms=now_ms)
            checker.seen(machine, event, effects)
            return effects

        def fence(runner, error, message):
            real_fence(runner, error, message)
            checker._silent.add(id(runner.machine))  # who waited heard the error already

        patches.setattr(SharePartition, "step", step)
        patches.setattr(SharePartitionRunner, "fence", fence)

    def seen(self, machine: SharePartition, event: Event, effects: tuple[Effect, ...]) -> None:
        """Count one step."""
        self._kept[id(machine)] = machine
        if isinstance(event, Acknowledge):
            self._asked[id(machine), event.request_id] = event
        for effect in effects:
            if isinstance(effect, RecordsAcquired):
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
            if batch.uncounted:
                self.counted["returned"] += length
                continue
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
        METRICS_AGREE.judged(self._world.event_log.counters, sum(self.counted.values()))
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
    if metric is names.RECORDS_RETURNED:
        return "returned"
    return labels[-1] if metric is names.RECORDS_ACKNOWLEDGED else ""
