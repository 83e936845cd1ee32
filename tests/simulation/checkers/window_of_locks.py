"""Invariant 14 of a limit that counts locks: one record that is held keeps nothing back (WIN)."""

from sharemesh.domain.group_config import InFlightLimitType
from sharemesh.domain.share_partition.effects import Effect, RecordsAcquired
from sharemesh.domain.share_partition.events import Acquire, Lifecycle
from sharemesh.domain.share_partition.machine import SharePartition
from tests.simulation.invariants import PROGRESS
from tests.simulation.patching import Patches
from tests.simulation.world import World


class WindowChecker:
    """Watches each acquisition that found new records and acquired none."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._counters = world.event_log.counters

    def install(self, patches: Patches) -> None:
        """Look at each step from now on."""
        real, checker = SharePartition.step, self

        def step(machine, event, *, now_ms):
            is_asked = isinstance(event, Acquire) and checker.may_acquire(machine, event)
            effects = real(machine, event, now_ms=now_ms)
            if is_asked:
                checker.seen(machine, event, effects)
            return effects

        patches.setattr(SharePartition, "step", step)

    def may_acquire(self, machine: SharePartition, event: Acquire) -> bool:
        """Return whether records behind all that is in flight are there, and room for them."""
        config = machine.config
        if (
            machine.state is not Lifecycle.ACTIVE
            or config.in_flight_limit_type is not InFlightLimitType.LOCKS
            or config.paused
            or not event.log_batches
            or event.max_fetch_records <= 0
            or event.log_batches[0].base_offset <= machine.end_offset
        ):
            return False
        runs = machine.record_states()
        held = sum(
            each.last_offset - each.first_offset + 1
            for each in runs
            if each.lock_deadline_ms is not None
        )
        limit = config.partition_max_record_locks
        if held >= limit or len(runs) + held >= config.partition_max_runs:
            return False
        self._counters["acquisitions past held records"] += held > 0
        return True

    def seen(self, machine: SharePartition, event: Acquire, effects: tuple[Effect, ...]) -> None:
        """Say that nothing was acquired."""
        PROGRESS.judged(self._counters)
        if not any(isinstance(each, RecordsAcquired) and each.ranges for each in effects):
            where = self._world.place(machine.key, event.log_batches[0].base_offset)
            text = f"{where}: not acquired, though the limit of locks leaves room"
            self._world.event_log.violation(self._world.now_s, PROGRESS.broken(text))
