"""Both fillings of the port Disk, for the suites that run over each."""

import random
from pathlib import Path

from sharemesh.backends.local.disk import SystemDisk
from sharemesh.testing.memory_disk import MemoryDisk

KINDS = ("system", "memory")


def make_disk(kind: str, tmp_path: Path) -> SystemDisk | MemoryDisk:
    """Return an empty disk of a kind."""
    return SystemDisk(tmp_path / "data") if kind == "system" else MemoryDisk(random.Random(7))
