"""Invariant 2 of delayed retry: what was released with a delay is not delivered before it (RTY).

Told by the simulation's own time, over every change of leaders: what was confirmed to a member is
held against each later grant of the record. Clocks of processes may go wrong a little.
"""

from collections import defaultdict

from sharemesh.domain.delivery_state import AcknowledgeType
from sharemesh.domain.ids import SharePartitionKey
from sharemesh.domain.share_partition.effects import Answered, Effect, RecordsAcquired
from sharemesh.domain.share_partition.events import Acknowledge
from sharemesh.domain.share_partition.machine import SharePartition
from tests.simulation.invariants import NO_EARLY_REDELIVERY
from tests.simulation.patching import Patches
from tests.simulation.world import World

CLOCKS = 0.95  # of a delay, by clocks that go too fast
TIE_S = 0.01
_RELEASE = (AcknowledgeType.RELEASE,)
Due = dict[int, float]


class DelayChecker:
    """Watches each release with a delay, its confirmation, and the grants that follow."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._counters = world.event_log.counters
        self._asked: dict[tuple[SharePartition, int], Due] = {}
        self._due: dict[SharePartitionKey, dict[int, tuple[float, SharePartition]]] = defaultdict(
            dict
        )

    def install(self, patches: Patches) -> None:
        """Look at each step from now on."""
        real, checker = SharePartition.step, self

        def step(machine, event, *, now_ms):
            if isinstance(event, Acknowledge):
                checker.asked(machine, event)
            effects = real(machine, event, now_ms=now_ms)
            checker.seen(machine, effects)
            return effects

        patches.setattr(SharePartition, "step", step)

    def asked(self, machine: SharePartition, event: Acknowledge) -> None:
        """Note the earliest times at which the records of a request may come again."""
        due: Due = {}
        retry = machine.config.retry
        for batch in event.batches:
            if tuple(batch.types) != _RELEASE:
                continue
            for offset in range(batch.first_offset, batch.last_offset + 1):
                view = machine.state_at(offset)
                delay_ms = batch.delay_ms
                if delay_ms is None and not batch.uncounted and retry.is_set and view is not None:
                    delay_ms = retry.after(view.delivery_count, -1)
                if delay_ms:
                    due[offset] = self._world.now_s + CLOCKS * delay_ms / 1_000 - TIE_S
        if due:
            self._asked[machine, event.request_id] = due

    def seen(self, machine: SharePartition, effects: tuple[Effect, ...]) -> None:
        """Take note of what was confirmed, and judge what was granted."""
        for effect in effects:
            if isinstance(effect, Answered):
                confirmed = self._asked.pop((machine, effect.request_id), None)
                if confirmed and not effect.error:
                    known = self._due[machine.key]
                    known |= {offset: (until_s, machine) for offset, until_s in confirmed.items()}
                    self._counters["records released with a delay"] += len(confirmed)
            elif isinstance(effect, RecordsAcquired):
                self._granted(machine, effect)

    def _granted(self, machine: SharePartition, acquired: RecordsAcquired) -> None:
        due = self._due[machine.key]
        for run in acquired.ranges:
            for offset in range(run.first_offset, run.last_offset + 1):
                if offset not in due:
                    continue
                until_s, leader = due.pop(offset)
                NO_EARLY_REDELIVERY.judged(self._counters)
                self._counters["delays that survived a leader"] += leader is not machine
                early_s = until_s - self._world.now_s
                if early_s > 0:
                    text = f"{machine.key}@{offset} was delayed, and came {early_s:.3f} s early"
                    self._world.event_log.violation(
                        self._world.now_s, NO_EARLY_REDELIVERY.broken(text)
                    )
