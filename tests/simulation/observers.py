"""Counts rare states on the way; a run that never reaches them proves little."""

from sharemesh.backends.embedded import take_over
from sharemesh.backends.embedded.group_commit import GroupCommit
from sharemesh.ports.shard_log import FencedError
from tests.simulation.patching import Patches
from tests.simulation.world import World


def observe(world: World, patches: Patches) -> None:
    """Look at take-overs and at ended epochs."""
    counters = world.story.counters
    real_settle, real_fail = take_over._settle, GroupCommit._fail

    def settle(disk, path, epoch, fences, state, tail):
        taken = real_settle(disk, path, epoch, fences, state, tail)
        counters["take-overs"] += 1
        if tail.data:
            counters["predecessor cut, tail appended again"] += 1
        return taken

    def fail(commit, error):
        fenced = isinstance(error, FencedError)
        counters["fenced commit" if fenced else "log epoch ended by the disk"] += 1
        real_fail(commit, error)

    patches.setattr(take_over, "_settle", settle)
    patches.setattr(GroupCommit, "_fail", fail)
