"""State and group log of format 1, written once by both coordinators and kept, open as they were.

In it: ``g`` with member ``m1`` (``m2`` left) and acknowledged records of ``foo``; ``moved``, empty,
with altered offsets; ``gone`` and ``late``, deleted; cold snapshots, pruning, and a generation.
"""

import base64
import json
from pathlib import Path

from sharemesh import methods
from sharemesh.domain.errors import ErrorCode
from sharemesh.v1 import group_coordinator_pb2 as pb
from tests.group_coordinator.with_states import Mesh
from tests.group_coordinator.world import assigned, topic_id, world

FILES = json.loads((Path(__file__).parent / "testdata/format-1.json").read_text())


async def test_what_both_coordinators_wrote_then_is_served_and_continued():
    async with world(started=False, foo=2, bar=1) as made:
        for path, data in FILES.items():
            made.disk.make_directory(str(Path(path).parent))
            made.disk.create(path).append(base64.b64decode(data))
        both = Mesh(made)
        try:
            both.epoch = made.epoch = 1  # the one that wrote
            await both.start_states()
            await made.start()
            await _check(both)
        finally:
            await both.close()


async def _check(both):
    made = both.made
    described = await made.describe("g")
    [member] = described.members
    assert (member.member_id, list(member.subscribed_topic_names)) == ("m1", ["bar", "foo"])
    assert await both.offsets("g") == {
        ("bar", 0): (-1, -1),
        ("foo", 0): (5, -1),
        ("foo", 1): (-1, -1),
    }
    assert await both.offsets("moved") == {("foo", 0): (77, -1), ("foo", 1): (40, -1)}
    listed = await made.call(methods.LIST_GROUPS, pb.ListGroupsRequest())
    assert {each.group_id: each.group_state for each in listed.groups} == {
        "g": "Stable",
        "moved": "Empty",
    }
    state_shard = both.service.shards.shard(0)
    assert state_shard.log_start_offset == 4
    floors, generation = state_shard.peek(lambda machine: (machine.floors, machine.generation))
    assert floors.leader_epoch == 3  # that of ``gone``
    assert floors.state_epoch > 2  # that of ``late``
    assert generation.pointer.generation_id == "gen-1"
    fenced = await both.read("foo", 0, leader_epoch=6)
    assert fenced.error is ErrorCode.FENCED_LEADER_EPOCH
    read = await both.read("foo", 0, leader_epoch=8)
    assert [
        (b.first_offset, b.last_offset, int(b.delivery_state), b.delivery_count)
        for b in read.batches
    ] == [
        (5, 6, 0, 2),
        (7, 9, 2, 1),
    ]
    answer = await made.hb("m1", described.group_epoch, ["foo", "bar"])
    assert assigned(answer) == {topic_id("bar"): [0], topic_id("foo"): [0, 1]}
    joined = await made.hb("z", 0, ["bar"], group="late", max_wait_ms=5_000)
    assert assigned(joined) == {topic_id("bar"): [0]}
    state = await both.read("bar", 0, group="late")
    assert (state.error, state.start_offset) == (ErrorCode.NONE, -1)
    assert state.state_epoch > floors.state_epoch
