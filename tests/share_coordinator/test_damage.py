"""A flipped bit anywhere in a state log: it is told where, or makes no difference (DESIGN 5.5)."""

import random
import re

import pytest

from sharemesh.codec.segment import SEGMENT_HEADER_BYTES
from sharemesh.ports.shard_log import CorruptLogError
from tests.share_coordinator.world import Client, world

PLACE = re.compile(r"state/00000\S*:? ?\S+\.log, position \d+")


async def written(w):
    """Make a log of two epochs with snapshots, updates and a tombstone; return what is served."""
    async with w.coordinator(updates_per_snapshot=2) as service:
        for partition in range(3):
            g = Client(service, partition=partition)
            await g.I(1, 0)
            for number in range(4):
                await g.W(1, 0, 10 * number, 0, [(10 * number, 10 * number + 4, 2, 1)])
    async with w.coordinator() as service:
        await Client(service, partition=2).D(1)
        await Client(service, partition=0).W(1, 0, 40, 0, [(50, 54, 2, 1)])
        return served(service)


def served(service):
    shard = service.shards.shard(0)
    return shard.peek(lambda machine: (dict(machine.states()), machine.floors))


@pytest.mark.parametrize("part", ["header", "records", "committed end"])
async def test_a_flipped_bit_is_told_with_its_place_or_changes_nothing(part):
    async with world() as w:
        expected = await written(w)
        files = {path: w.disk.read(path) for path in w.disk.files()}
        told, unharmed = [], 0
        rng = random.Random(20266)
        for path, position in _places(files, part):
            for each in w.disk.files():
                w.disk.delete(each)
            for each, data in files.items():
                file = w.disk.create(each)
                file.append(data)
                file.close()
            w.disk.flip_bit(path, position, rng.randrange(8))
            try:
                async with w.coordinator() as service:
                    assert served(service) == expected, f"{path}, position {position}"
                unharmed += 1
            except CorruptLogError as error:
                told.append(error)
            w.epoch = 2
        assert len(told) + unharmed > 20
        for error in told:
            assert PLACE.search(str(error)), error
            assert error.position >= 0
        if part == "records":
            assert len(told) > 10 * unharmed


def _places(files, part):
    for path, data in sorted(files.items()):
        if path.endswith(".log"):
            header = range(0, SEGMENT_HEADER_BYTES, 3)
            body = range(SEGMENT_HEADER_BYTES, len(data), 7)
            chosen = {"header": header, "records": body}.get(part, ())
        else:
            chosen = range(0, len(data), 5) if part == "committed end" else ()
        yield from ((path, position) for position in chosen)
