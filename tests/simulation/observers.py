"""Counts rare states on the way; a run that never reaches them proves little."""

from sharemesh.domain.share_partition.machine import SharePartition
from sharemesh.share_coordinator import shard_kind
from tests.simulation.patching import Patches
from tests.simulation.world import World


def observe(world: World, patches: Patches) -> None:
    """Look at take-overs and at ended epochs."""
    counters = world.event_log.counters
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

    patches.setattr(shard_kind, "restore", restore)
    world.engine.observe(patches, counters)
