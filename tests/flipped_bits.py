"""Logs of coordinators with a flipped bit: each is told with its place, or makes no difference."""

import random
import re
from collections.abc import Iterator, Mapping, Sequence

from sharemesh.codec.segment import SEGMENT_HEADER_BYTES
from sharemesh.ports.shard_log import CorruptLogError
from sharemesh.testing.memory_disk import MemoryDisk

Place = tuple[str, int]


def flipped(
    disk: MemoryDisk, part: str, steps: Mapping[str, int], rng: random.Random
) -> Iterator[Place]:
    """Flip one bit after the other in files that are otherwise as they are now; yield its place.

    ``part`` is ``header``, ``records`` or ``committed end``; ``steps`` says every how many bytes.
    """
    files = {path: disk.read(path) for path in disk.files()}
    for path, position in list(_places(files, part, steps[part])):
        for each in disk.files():
            disk.delete(each)
        for each, data in files.items():
            file = disk.create(each)
            file.append(data)
            file.close()
        disk.flip_bit(path, position, rng.randrange(8))
        yield path, position


def judge(kind: str, part: str, told: Sequence[CorruptLogError], unharmed: int) -> None:
    """Raise AssertionError unless what was told names file and position, and most was told."""
    assert len(told) + unharmed > 20
    for error in told:
        assert re.search(rf"{kind}/00000\S*:? ?\S+\.log, position \d+", str(error)), error
        assert error.position >= 0
    if part == "records":
        assert len(told) > 10 * unharmed


def _places(files: Mapping[str, bytes], part: str, step: int) -> Iterator[Place]:
    for path, data in sorted(files.items()):
        if path.endswith(".log"):
            header = range(0, SEGMENT_HEADER_BYTES, step)
            body = range(SEGMENT_HEADER_BYTES, len(data), step)
            chosen = {"header": header, "records": body}.get(part, ())
        else:
            chosen = range(0, len(data), step) if part == "committed end" else ()
        yield from ((path, position) for position in chosen)
