"""A flipped bit anywhere in a group log: it is told where, or makes no difference (DESIGN 5.5)."""

import random
import re

import pytest

from sharemesh.codec.segment import SEGMENT_HEADER_BYTES
from sharemesh.ports.shard_log import CorruptLogError
from tests.group_coordinator.world import world

PLACE = re.compile(r"group/00000\S*:? ?\S+\.log, position \d+")


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


@pytest.mark.parametrize(("part", "step"), [("header", 3), ("records", 17), ("committed end", 5)])
async def test_a_flipped_bit_is_told_with_its_place_or_changes_nothing(part, step):
    rng = random.Random(626)
    async with world(foo=2) as made:
        expected = await written(made)
        await made.stop()
        files = {path: made.disk.read(path) for path in made.disk.files()}
        told, unharmed = [], 0
        for path, position in places(files, part, step):
            for each in made.disk.files():
                made.disk.delete(each)
            for each, data in files.items():
                file = made.disk.create(each)
                file.append(data)
                file.close()
            made.disk.flip_bit(path, position, rng.randrange(8))
            try:
                await made.start()
                assert served(made) == expected, f"{path}, position {position}"
                unharmed += 1
            except CorruptLogError as error:
                told.append(error)
            await made.stop()
        assert len(told) + unharmed > 20
        for error in told:
            assert PLACE.search(str(error)), error
            assert error.position >= 0
        if part == "records":
            assert len(told) > 10 * unharmed


def places(files, part, step):
    for path, data in sorted(files.items()):
        if path.endswith(".log"):
            header = range(0, SEGMENT_HEADER_BYTES, step)
            body = range(SEGMENT_HEADER_BYTES, len(data), step)
            chosen = {"header": header, "records": body}.get(part, ())
        else:
            chosen = range(0, len(data), step) if part == "committed end" else ()
        yield from ((path, position) for position in chosen)
