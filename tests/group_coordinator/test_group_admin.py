"""Describe, list and delete groups: spec GC-25, GC-32, GC-44, ADM-2."""

import asyncio

from sharemesh import methods
from sharemesh.domain.errors import ErrorCode
from sharemesh.domain.ids import TopicPartition
from sharemesh.ports.share_state import StateWriteResult
from sharemesh.v1 import group_coordinator_pb2 as pb
from tests.group_coordinator.world import assigned, topic_id, world

FOO = topic_id("foo")


async def listed(made, **filters):
    response = await made.call(methods.LIST_GROUPS, pb.ListGroupsRequest(**filters))
    return response.error_code, {each.group_id: each.group_state for each in response.groups}


async def delete(made, *groups):
    response = await made.call(methods.DELETE_GROUPS, pb.DeleteGroupsRequest(group_ids=groups))
    return [each.error_code for each in response.results]


async def test_describe_shows_members_with_names_of_topics():
    async with world(foo=2) as made:
        await made.hb("m1", 0, ["foo", "later"], rack_id="r1", client_id="c1", max_wait_ms=5_000)
        group = await made.describe()
        assert (group.error_code, group.group_state, group.assignor_name) == (0, "Stable", "simple")
        assert (group.group_epoch, group.assignment_epoch, group.coordinator_id) == (3, 3, "gc-1")
        [member] = group.members
        assert (member.member_id, member.rack_id, member.client_id) == ("m1", "r1", "c1")
        assert list(member.subscribed_topic_names) == ["foo", "later"]
        [topic] = member.assignment.topic_partitions
        assert (topic.topic_name, list(topic.partitions)) == ("foo", [0, 1])
        assert assigned(member) == {FOO: [0, 1]}


async def test_describe_of_a_missing_group_is_not_found():
    async with world() as made:
        group = await made.describe("nowhere")
        assert group.error_code == ErrorCode.GROUP_ID_NOT_FOUND
        assert group.group_state == "Dead"


async def test_describe_tells_authorized_operations_only_if_asked():
    async with world(foo=1) as made:
        await made.hb("m1", 0, ["foo"])
        assert (await made.describe()).authorized_operations == -(2**31)
        made.rules.denied.add(("delete", "group", "g"))
        group = await made.describe(include_authorized_operations=True)
        assert group.authorized_operations == 1 << 3 | 1 << 8 | 1 << 10 | 1 << 11


async def test_list_filters_by_state_and_type():
    async with world(foo=1, group_shards=3) as made:
        await made.hb("m1", 0, ["foo"], group="full")
        await made.hb("m1", 0, ["foo"], group="left")
        await made.hb("m1", -1, group="left")
        assert await listed(made) == (0, {"full": "Stable", "left": "Empty"})
        assert await listed(made, states_filter=["sTABLE"]) == (0, {"full": "Stable"})
        assert await listed(made, types_filter=["Share"]) == (
            0,
            {"full": "Stable", "left": "Empty"},
        )
        assert await listed(made, types_filter=["consumer"]) == (0, {})
        assert await listed(made, states_filter=["odd"]) == (ErrorCode.INVALID_REQUEST, {})


async def test_list_leaves_out_what_may_not_be_described():
    async with world(foo=1) as made:
        await made.hb("m1", 0, ["foo"])
        made.rules.denied.add(("describe", "cluster", "kafka-cluster"))
        assert await listed(made) == (0, {"g": "Stable"})
        made.rules.denied.add(("describe", "group", "g"))
        assert await listed(made) == (0, {})


async def test_adm_4_a_list_says_of_which_shards_it_is_and_which_have_no_leader():
    async with world(foo=1, group_shards=3) as made:
        response = await made.call(methods.LIST_GROUPS, pb.ListGroupsRequest())
        assert (response.error_code, response.shard_count) == (0, 3)
        assert list(response.shards) == [0, 1, 2]
        await made.service.stop_shard(1)
        response = await made.call(methods.LIST_GROUPS, pb.ListGroupsRequest())
        assert list(response.shards) == [0, 2]
        assert response.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert "the list is incomplete: group-1 has no leader" in response.error_message


async def test_only_empty_groups_are_deleted_and_their_state_first():
    async with world(foo=2) as made:
        await made.joined("m1", ["foo"])
        assert await delete(made, "g") == [ErrorCode.NON_EMPTY_GROUP]
        await made.hb("m1", -1)
        assert await delete(made, "g", "nowhere") == [0, ErrorCode.GROUP_ID_NOT_FOUND]
        assert made.states.deleted == [("g", 4, {TopicPartition(FOO, 0), TopicPartition(FOO, 1)})]
        assert (await made.describe()).error_code == ErrorCode.GROUP_ID_NOT_FOUND
        await made.start()
        assert await listed(made) == (0, {})


async def test_a_group_whose_state_cannot_be_deleted_stays():
    async with world(foo=2) as made:
        await made.joined("m1", ["foo"])
        await made.hb("m1", -1)
        made.states.refuse = StateWriteResult(ErrorCode.COORDINATOR_NOT_AVAILABLE, "down")
        assert await delete(made, "g") == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
        assert await listed(made) == (0, {"g": "Empty"})
        made.states.refuse = None
        assert await delete(made, "g") == [0]


async def test_a_group_that_is_created_again_starts_above_its_old_epochs():
    async with world(foo=1) as made:
        await made.joined("m1", ["foo"])
        await made.hb("m1", -1)
        assert await delete(made, "g") == [0]
        await made.start()
        answer = await made.hb("m1", 0, ["foo"])
        assert answer.member_epoch == 5
        await made.until(lambda: len(made.states.initialized) == 2)
        assert made.states.initialized[1][1] == {TopicPartition(FOO, 0): (5, -1)}


async def test_groups_of_one_request_are_deleted_side_by_side_and_answered_in_its_order():
    async with world(foo=1, group_shards=2) as made:
        for group in ("a", "b", "c"):
            await made.joined("m1", ["foo"], group=group)
            if group != "b":
                await made.hb("m1", -1, group=group)
        made.states.open.clear()  # the share coordinator is slow
        deleting = asyncio.create_task(delete(made, "a", "b", "nowhere", "c", "a"))
        await made.until(lambda: {group for group, *_ in made.states.deleted} == {"a", "c"})
        assert not deleting.done()
        made.states.open.set()
        not_found, not_empty = ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.NON_EMPTY_GROUP
        assert await deleting == [0, not_empty, not_found, 0, 0]
