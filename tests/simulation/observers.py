"""Counts rare states on the way; a run that never reaches them proves little."""

from sharemesh.backends.embedded.owned import take_over
from sharemesh.backends.embedded.owned.group_commit import GroupCommit
from sharemesh.backends.embedded.records.record_log import EmbeddedPartitionLog
from sharemesh.domain.share_partition.machine import SharePartition
from sharemesh.ports.shard_log import FencedError
from sharemesh.share_coordinator import shard_kind
from tests.simulation.patching import Patches
from tests.simulation.world import World


def observe(world: World, patches: Patches) -> None:
    """Look at take-overs and at ended epochs."""
    counters = world.event_log.counters
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

    real_failed = SharePartition._failed

    def failed(machine, error, message):
        counters["initializations that failed"] += 1
        return real_failed(machine, error, message)

    patches.setattr(SharePartition, "_failed", failed)
    real_restore = shard_kind.restore  # type: ignore[attr-defined]

    async def restore(machine, shard, log, *, reader):
        restored = await real_restore(machine, shard, log, reader=reader)
        if restored is not None:
            counters["loaded from a generation"] += 1
        return restored

    real_retain = EmbeddedPartitionLog.apply_retention

    async def apply_retention(log, now_wall_ms):
        before = log.log_start_offset
        after = await real_retain(log, now_wall_ms)
        if after > before:
            counters["log start moved by retention"] += 1
        return after

    patches.setattr(EmbeddedPartitionLog, "apply_retention", apply_retention)
    patches.setattr(shard_kind, "restore", restore)
    patches.setattr(take_over, "_settle", settle)
    patches.setattr(GroupCommit, "_fail", fail)
