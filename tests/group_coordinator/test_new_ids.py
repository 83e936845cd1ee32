"""Control characters in ids: refused in new ones, old ones are served (spec BND-24)."""

import pytest

from sharemesh import methods
from sharemesh.domain.errors import ErrorCode
from sharemesh.domain.ids import GroupId, MemberId
from sharemesh.domain.share_group.records import GroupMetadata, MemberMetadata
from sharemesh.runtime.shard_kind import Decision
from sharemesh.v1 import group_coordinator_pb2 as pb
from tests.group_coordinator.world import heartbeat_request, world

EVIL = "g\x1b[2J"


async def stored(made, *records):
    """Write records as a version without this rule did."""
    [served] = made.service.served
    await served.shard.write(lambda _: Decision(records, None))


async def test_a_join_does_not_make_such_a_group():
    async with world(foo=1) as made:
        answer = await made.hb("m1", 0, ["foo"], group=EVIL)
        assert answer.error_code == ErrorCode.INVALID_GROUP_ID
        assert "\\u001b at position 1" in answer.error_message
        assert (await made.describe(EVIL)).error_code == ErrorCode.GROUP_ID_NOT_FOUND


async def test_an_alteration_of_offsets_does_not_make_such_a_group():
    async with world(foo=1) as made:
        request = pb.AlterShareGroupOffsetsRequest(group_id=EVIL)
        request.topics.add(topic_name="foo").partitions.add(partition=0, start_offset=5)
        answer = await made.call(methods.ALTER_SHARE_GROUP_OFFSETS, request)
        assert answer.error_code == ErrorCode.INVALID_GROUP_ID
        assert (await made.describe(EVIL)).error_code == ErrorCode.GROUP_ID_NOT_FOUND


@pytest.mark.parametrize(
    "fields", [{"member": "m\x9b"}, {"client_id": "c\u202e"}, {"rack_id": "r\x07"}]
)
async def test_a_member_does_not_join_with_them(fields):
    async with world(foo=1) as made:
        answer = await made.hb(**{"member": "m1", "epoch": 0, "topics": ["foo"], **fields})
        assert answer.error_code == ErrorCode.INVALID_REQUEST
        assert (await made.describe()).error_code == ErrorCode.GROUP_ID_NOT_FOUND


async def test_old_groups_and_members_with_them_are_served():
    async with world(foo=1) as made:
        old = MemberMetadata(
            GroupId(EVIL), MemberId("m\r"), "r\x07", "c\n", subscribed_topic_names=("foo",)
        )
        await stored(made, GroupMetadata(GroupId(EVIL), 2), old)
        answer = await made.hb("m\r", 0, ["foo"], group=EVIL, client_id="c\n", max_wait_ms=5_000)
        assert answer.error_code == 0, answer
        answer = await made.hb("m2", 0, ["foo"], group=EVIL)
        assert answer.error_code == 0, answer
        request = heartbeat_request("m2", -1, group=EVIL)
        assert (await made.call(methods.SHARE_GROUP_HEARTBEAT, request)).error_code == 0
        refused = await made.hb("m\r", 0, ["foo"], group=EVIL, client_id="other\n")
        assert refused.error_code == ErrorCode.INVALID_REQUEST


async def test_settings_are_stored_under_such_an_id_only_if_the_group_is_there():
    async with world(foo=1) as made:
        request = pb.AlterGroupConfigsRequest(group_id=EVIL)
        request.configs.add(name="share.session.timeout.ms", value="50000")
        answer = await made.call(methods.ALTER_GROUP_CONFIGS, request)
        assert answer.error_code == ErrorCode.INVALID_GROUP_ID
        assert not made.view.group_config_entries(EVIL)
        await stored(made, GroupMetadata(GroupId(EVIL), 2))
        assert (await made.call(methods.ALTER_GROUP_CONFIGS, request)).error_code == 0
