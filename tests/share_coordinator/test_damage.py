"""A flipped bit anywhere in a state log: it is told where, or makes no difference (LOG-14)."""

import random

import pytest

from sharemesh.ports.shard_log import CorruptLogError
from tests.flipped_bits import flipped, judge
from tests.share_coordinator.world import Client, world


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


STEPS = {"header": 3, "records": 7, "committed end": 5}


@pytest.mark.parametrize("part", STEPS)
async def test_a_flipped_bit_is_told_with_its_place_or_changes_nothing(part):
    async with world() as w:
        expected = await written(w)
        told, unharmed = [], 0
        for path, position in flipped(w.disk, part, STEPS, random.Random(20266)):
            try:
                async with w.coordinator() as service:
                    assert served(service) == expected, f"{path}, position {position}"
                unharmed += 1
            except CorruptLogError as error:
                told.append(error)
            w.epoch = 2
        judge("state", part, told, unharmed)
