"""Invariant 2 of pauses: nothing goes out to a paused group, and all else goes on (PAU)."""

from sharemesh.domain.ids import GroupId
from sharemesh.domain.share_partition.effects import Effect, RecordsAcquired
from sharemesh.domain.share_partition.events import Acknowledge, Acquire
from sharemesh.domain.share_partition.machine import SharePartition
from sharemesh.domain.share_partition.readable_partition import ReadablePartition
from tests.simulation.invariants import NO_EARLY_REDELIVERY
from tests.simulation.patching import Patches
from tests.simulation.world import World

SEEN_S = 10.0
"""So long after a pause was confirmed each leader must know of it (PAU-3)."""


class PauseChecker:
    """Watches each acquisition and acknowledgement; the workload says when it pauses a group."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._counters = world.event_log.counters
        self._since_s: dict[GroupId, float] = {}

    def install(self, patches: Patches) -> None:
        """Look at each step from now on."""
        real, checker = SharePartition.step, self

        def step(machine, event, *, now_ms):
            effects = real(machine, event, now_ms=now_ms)
            if isinstance(event, Acquire):
                checker.seen(machine, effects)
            elif isinstance(event, Acknowledge):
                checker._counters["acknowledgements in a pause"] += machine.config.paused
            return effects

        patches.setattr(SharePartition, "step", step)
        asked = ReadablePartition.can_acquire

        def can_acquire(machine):
            # A leader that knows of the pause asks this first, and its machine no more.
            checker._counters["fetches in a pause"] += machine.config.paused
            return asked(machine)

        patches.setattr(ReadablePartition, "can_acquire", can_acquire)

    def paused(self, group: str) -> None:
        """A pause of a group was confirmed."""
        self._counters["pauses"] += 1
        self._since_s[GroupId(group)] = self._world.now_s

    def resumes(self, group: str) -> None:
        """Somebody is about to end it."""
        self._since_s.pop(GroupId(group), None)

    def seen(self, machine: SharePartition, effects: tuple[Effect, ...]) -> None:
        """Judge what a fetch got."""
        is_known, since_s = machine.config.paused, self._since_s.get(machine.key.group_id)
        if not is_known and since_s is None:
            return
        NO_EARLY_REDELIVERY.judged(self._counters)
        for effect in effects:
            if not isinstance(effect, RecordsAcquired) or not effect.ranges:
                continue
            late_s = 0.0 if since_s is None else self._world.now_s - since_s
            if is_known or late_s > SEEN_S:
                where = self._world.place(machine.key, effect.ranges[0].first_offset)
                text = f"{where} was granted in a pause that was confirmed {late_s:.1f} s before"
                self._world.event_log.violation(self._world.now_s, NO_EARLY_REDELIVERY.broken(text))
