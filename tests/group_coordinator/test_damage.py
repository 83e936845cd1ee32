"""A flipped bit anywhere in a group log: it is told where, or makes no difference (LOG-14)."""

import random

import pytest

from sharemesh.ports.shard_log import CorruptLogError
from tests.flipped_bits import flipped, judge
from tests.group_coordinator.world import world


def served(made):
    groups = made.service.served[0].shard.peek(lambda machine: machine.groups)
    return {
        group_id: (
            group.epoch,
            {member_id: each.metadata for member_id, each in group.members.items()},
            {topic_id: dict(each.partitions) for topic_id, each in group.initialized.items()},
        )
        for group_id, group in groups.items()
    }


async def written(made):
    """Make a log of two epochs with members that came and left; return what is served."""
    await made.joined("m1", ["foo"])
    await made.joined("m2", ["foo"], group="other")
    await made.start()
    await made.hb("m1", -1)
    await made.joined("m3", ["foo"])
    await made.start()
    return served(made)


STEPS = {"header": 3, "records": 17, "committed end": 5}


@pytest.mark.parametrize("part", STEPS)
async def test_a_flipped_bit_is_told_with_its_place_or_changes_nothing(part):
    async with world(foo=2) as made:
        expected = await written(made)
        await made.stop()
        told, unharmed = [], 0
        for path, position in flipped(made.disk, part, STEPS, random.Random(626)):
            try:
                await made.start()
                assert served(made) == expected, f"{path}, position {position}"
                unharmed += 1
            except CorruptLogError as error:
                told.append(error)
            await made.stop()
        judge("group", part, told, unharmed)
