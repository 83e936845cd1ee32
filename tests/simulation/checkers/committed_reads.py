"""Readers beside the writers of a log see nothing that is not committed (LOG-13)."""

from pathlib import Path
from typing import Any

from sharemesh.codec.log_layout import STATE, shard_log_path
from sharemesh.codec.segment import decode_committed_end, end_epochs, end_name
from tests.simulation import generations
from tests.simulation.invariants import STATE_IS_REPLAY
from tests.simulation.patching import Patches
from tests.simulation.world import World


class CommittedReadChecker:
    """Compares each reading with the committed end that is published when it is over."""

    def __init__(self, world: World) -> None:
        self._world = world

    def install(self, patches: Patches) -> None:
        """Look at each reading of the job that makes generations."""
        real, checker = generations.read_shard, self  # type: ignore[attr-defined]

        def read_shard(data: Any, shard: int) -> Any:
            image = real(data, shard)
            checker.read(data / shard_log_path(STATE, shard), image.end_offset)
            return image

        patches.setattr(generations, "read_shard", read_shard)

    def read(self, folder: Path, end_offset: int) -> None:
        """Judge one reading, in the disk job that made it; a committed end never goes back."""
        names = sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []
        ends = [
            decode_committed_end((folder / end_name(epoch)).read_bytes())
            for epoch in end_epochs(names)
        ]
        published = max((end.end_offset for end in ends if end is not None), default=0)
        STATE_IS_REPLAY.judged(self._world.event_log.counters)
        if end_offset > published:
            text = f"{folder} was read up to {end_offset}, and is committed up to {published}"
            self._world.event_log.violation(self._world.now_s, STATE_IS_REPLAY.broken(text))
