"""Groups and their offsets through the listener: listed, described, altered, deleted."""

import struct

import pytest

from sharemesh.domain.errors import ErrorCode
from sharemesh.kafka.messages import error_code
from tests.kafka_listener.asked import ShareClient, ack, orders, produce
from tests.kafka_listener.world import NO_ERROR, ListeningMesh

LIST_GROUPS, DELETE_GROUPS, SHARE_GROUP_DESCRIBE = 16, 42, 77
DESCRIBE_OFFSETS, ALTER_OFFSETS, DELETE_OFFSETS = 90, 91, 92
HEARTBEAT, ACCEPT = 76, 1


async def empty_group(mesh, client, *, reads=0):
    """Let a member of group g read records and leave; return the topic's id."""
    topic_id = await orders(mesh)
    member = ShareClient(client, topic_id)
    await member.join()
    await produce(client, topic_id, b"a", b"b", b"c")
    await member.fetch(add=(0,))
    if reads:
        await member.acknowledge(ack(0, reads - 1, ACCEPT))
    await member.acknowledge(epoch=-1)
    await client.ask(
        HEARTBEAT, 1, **member.who, member_epoch=-1, rack_id=None, subscribed_topic_names=()
    )
    return topic_id


async def offsets(client, topics=None, version=1, group="g"):
    told = await client.ask(
        DESCRIBE_OFFSETS, version, groups=[{"group_id": group, "topics": topics}]
    )
    return told.groups[0]


@pytest.mark.parametrize("version", range(6))
async def test_groups_are_listed_by_state_and_type(version):
    """KLS-40."""
    async with ListeningMesh() as mesh, mesh.connect() as client:
        member = ShareClient(client, await orders(mesh))
        await member.join()

        async def listed(states=(), types=()):
            told = await client.ask(LIST_GROUPS, version, states_filter=states, types_filter=types)
            assert told.error_code == NO_ERROR
            return [each.group_id for each in told.groups]

        [group] = (await client.ask(LIST_GROUPS, version)).groups
        assert (group.group_id, group.protocol_type) == ("g", "share")
        if version >= 4:
            assert group.group_state == "Stable"
            assert await listed(states=("stable",)) == ["g"]
            assert await listed(states=("Empty",)) == []
            assert await listed(states=("PreparingRebalance",)) == []
            assert await listed(states=("PreparingRebalance", "Stable")) == ["g"]
        if version >= 5:
            assert group.group_type == "share"
            assert await listed(types=("share",)) == ["g"]
            assert await listed(types=("consumer", "classic")) == []


async def test_a_process_that_coordinates_no_group_lists_none():
    """KLS-40: clients ask every process."""
    async with ListeningMesh() as mesh, mesh.connect() as client:
        mesh.listener.handlers._unary = {}
        told = await client.ask(LIST_GROUPS, 5)
        assert (told.error_code, told.groups) == (NO_ERROR, ())
        described = await client.ask(
            SHARE_GROUP_DESCRIBE, 1, group_ids=("g",), include_authorized_operations=False
        )
        assert described.groups[0].error_code == error_code(ErrorCode.NOT_COORDINATOR)
        refused = await offsets(client)
        assert refused.error_code == error_code(ErrorCode.NOT_COORDINATOR)
        for key, content in (
            (ALTER_OFFSETS, {"topics": [{"topic_name": "orders", "partitions": []}]}),
            (DELETE_OFFSETS, {"topics": [{"topic_name": "orders"}]}),
        ):
            told = await client.ask(key, 0, group_id="g", **content)
            assert told.error_code == error_code(ErrorCode.NOT_COORDINATOR)


async def test_a_group_is_described_with_its_members():
    """KLS-40."""
    async with ListeningMesh() as mesh, mesh.connect() as client:
        topic_id = await orders(mesh, 2)
        await ShareClient(client, topic_id).join()
        told = await client.ask(
            SHARE_GROUP_DESCRIBE, 1, group_ids=("g", "none"), include_authorized_operations=True
        )
        group, missing = told.groups
        assert (group.error_code, group.group_state, group.assignor_name) == (
            NO_ERROR, "Stable", "simple",
        )  # fmt: skip
        assert group.authorized_operations == 3_400
        [member] = group.members
        assert (member.member_id, member.client_id) == ("m", "test")
        assert member.subscribed_topic_names == ("orders",)
        [assigned] = member.assignment.topic_partitions
        assert (assigned.topic_id, assigned.topic_name) == (topic_id, "orders")
        assert sorted(assigned.partitions) == [0, 1]
        assert (missing.error_code, missing.group_state) == (
            error_code(ErrorCode.GROUP_ID_NOT_FOUND), "",
        )  # fmt: skip


@pytest.mark.parametrize("version", [0, 1])
async def test_offsets_and_lag_of_a_group_are_told(version):
    """KLS-40."""
    async with ListeningMesh() as mesh, mesh.connect() as client:
        topic_id = await empty_group(mesh, client, reads=2)
        for topics in (None, [{"topic_name": "orders", "partitions": (0,)}]):
            group = await offsets(client, topics, version)
            [topic] = group.topics
            assert (topic.topic_name, topic.topic_id) == ("orders", topic_id)
            [part] = topic.partitions
            assert (part.partition_index, part.start_offset) == (0, 2)
            if version >= 1:
                assert part.lag == 1
        unknown = [{"topic_name": "nowhere", "partitions": (0,)}]
        group = await offsets(client, unknown, version)
        [topic] = group.topics
        assert [each.start_offset for each in topic.partitions] == [-1]


async def test_offsets_of_an_empty_group_are_altered_and_deleted():
    """KLS-40."""
    async with ListeningMesh() as mesh, mesh.connect() as client:
        topic_id = await empty_group(mesh, client)
        part = {"partition_index": 0, "start_offset": 2}
        told = await client.ask(
            ALTER_OFFSETS,
            0,
            group_id="g",
            topics=[{"topic_name": "orders", "partitions": [part]}],
        )
        [topic] = told.responses
        assert (told.error_code, topic.topic_id) == (NO_ERROR, topic_id)
        assert topic.partitions[0].error_code == NO_ERROR
        [topic] = (await offsets(client)).topics
        assert topic.partitions[0].start_offset == 2
        told = await client.ask(DELETE_OFFSETS, 0, group_id="g", topics=[{"topic_name": "orders"}])
        assert (told.error_code, told.responses[0].error_code) == (NO_ERROR, NO_ERROR)
        assert (await offsets(client)).topics == ()


@pytest.mark.parametrize("version", range(3))
async def test_groups_are_deleted_once_they_are_empty(version):
    """KLS-40."""
    async with ListeningMesh() as mesh, mesh.connect() as client:
        await empty_group(mesh, client)
        await ShareClient(client, None, "again").join()

        async def deleted(*names):
            told = await client.ask(DELETE_GROUPS, version, groups_names=names)
            return [int(each.error_code) for each in told.results]

        codes = await deleted("g", "none")
        assert codes == [ErrorCode.NON_EMPTY_GROUP, ErrorCode.GROUP_ID_NOT_FOUND]
        await client.ask(
            HEARTBEAT, 1, group_id="g", member_id="again", member_epoch=-1, rack_id=None,
            subscribed_topic_names=(),
        )  # fmt: skip
        assert await deleted("g") == [0]


async def test_version_three_of_a_deletion_says_why():
    """KLS-40: by hand; its request is that of version 2."""
    async with ListeningMesh() as mesh, mesh.connect() as client:
        await ShareClient(client, await orders(mesh)).join()
        frame = struct.pack(">hhih", DELETE_GROUPS, 3, 5, 3) + b"kgo\0" + b"\2\2g\0"
        client.writer.write(struct.pack(">i", len(frame)) + frame)
        (size,) = struct.unpack(">i", await client.reader.readexactly(4))
        answer = await client.reader.readexactly(size)
        assert answer[:12] == struct.pack(">iBiBBB", 5, 0, 0, 2, 2, ord("g"))
        (code,) = struct.unpack(">h", answer[12:14])
        assert code == ErrorCode.NON_EMPTY_GROUP
        length = answer[14] - 1
        assert answer[15 : 15 + length].decode().startswith("group 'g'")
        assert answer[15 + length :] == b"\0\0"
