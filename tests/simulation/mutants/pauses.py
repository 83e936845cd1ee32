"""Bugs of pauses: what goes out nevertheless, what stands still, and what nobody is told."""

from sharemesh.domain.share_partition import machine, readable_partition
from sharemesh.domain.share_partition.events import Lifecycle
from sharemesh.share_leader.requests import reasons
from tests.simulation.patching import Patches


def paused_groups_are_served(patch: Patches) -> None:
    """Leaders do not look at the setting."""

    def acquire(partition, event, now_ms):
        return [machine.acquire(partition._flight, event, now_ms)]

    def can_acquire(partition):
        is_active = partition._state is Lifecycle.ACTIVE
        return is_active and readable_partition.can_acquire(partition._flight)

    patch.setattr(machine.SharePartition, "_acquire", acquire)
    patch.setattr(readable_partition.ReadablePartition, "can_acquire", can_acquire)


def pauses_are_heard_at_a_start_only(patch: Patches) -> None:
    """A leader keeps the settings that a group had when its share partition was loaded."""
    patch.setattr(machine.SharePartition, "_configure", lambda *_: [])


def locks_stand_still_in_a_pause(patch: Patches) -> None:
    """The timer of locks does nothing while a group is paused."""
    real = machine.SharePartition._tick

    def tick(partition, event, now_ms):
        return [] if partition.config.paused else real(partition, event, now_ms)

    patch.setattr(machine.SharePartition, "_tick", tick)


def explain_does_not_know_pauses(patch: Patches) -> None:
    """A record that a pause keeps back is said to wait for a member."""
    real = reasons._why_available

    def why(led, runner, offset):
        found = real(led, runner, offset)
        return reasons.Reason.NO_MEMBER_ASKS if found is reasons.Reason.PAUSED else found

    patch.setattr(reasons, "_why_available", why)
