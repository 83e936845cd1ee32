"""Describe, alter and delete offsets: spec GC-40 to GC-43."""

import pytest

from sharemesh import methods
from sharemesh.domain.errors import ErrorCode
from sharemesh.domain.ids import TopicPartition
from sharemesh.ports.share_state import StateWriteResult
from sharemesh.v1 import group_coordinator_pb2 as pb
from tests.group_coordinator.world import topic_id, world

FOO, BAR = topic_id("foo"), topic_id("bar")


async def describe(made, group="g", **topics):
    asked = pb.DescribeShareGroupOffsetsGroup(group_id=group)
    if topics:
        asked.topics.SetInParent()
        for name, numbers in topics.items():
            asked.topics.topics.add(topic_name=name, partitions=numbers)
    request = pb.DescribeShareGroupOffsetsRequest(groups=[asked])
    [answer] = (await made.call(methods.DESCRIBE_SHARE_GROUP_OFFSETS, request)).groups
    return answer


def rows(answer):
    return {
        (topic.topic_name, each.partition): (each.start_offset, each.lag, each.error_code)
        for topic in answer.topics
        for each in topic.partitions
    }


async def alter(made, group="g", **topics):
    request = pb.AlterShareGroupOffsetsRequest(group_id=group)
    for name, offsets in topics.items():
        topic = request.topics.add(topic_name=name)
        for number, offset in offsets.items():
            topic.partitions.add(partition=number, start_offset=offset)
    return await made.call(methods.ALTER_SHARE_GROUP_OFFSETS, request)


async def delete(made, *names, group="g"):
    request = pb.DeleteShareGroupOffsetsRequest(group_id=group, topic_names=names)
    return await made.call(methods.DELETE_SHARE_GROUP_OFFSETS, request)


async def empty_group(made, *topics):
    await made.joined("m1", topics)
    await made.hb("m1", -1)


async def test_lag_is_log_end_less_start_less_complete():
    async with world(foo=2) as made:
        await empty_group(made, "foo")
        await made.lead(("foo", 0))
        made.log_ends[TopicPartition(FOO, 0)] = 30
        made.states.put("g", TopicPartition(FOO, 0), 10, 5, leader_epoch=7)
        answer = await describe(made)
        assert rows(answer) == {("foo", 0): (10, 15, 0), ("foo", 1): (-1, -1, 0)}
        assert answer.topics[0].partitions[0].leader_epoch == 7
        assert answer.topics[0].topic_id == FOO


async def test_describe_of_unknown_things_is_no_error():
    async with world(foo=2) as made:
        assert rows(await describe(made, "nowhere")) == {}
        answer = await describe(made, "nowhere", foo=[1], absent=[0])
        assert answer.error_code == 0
        assert rows(answer) == {("foo", 1): (-1, -1, 0), ("absent", 0): (-1, -1, 0)}
        ids = {topic.topic_name: topic.topic_id for topic in answer.topics}
        assert ids == {"foo": FOO, "absent": bytes(16)}


async def test_an_empty_list_of_topics_describes_none():
    async with world(foo=1) as made:
        await empty_group(made, "foo")
        asked = pb.DescribeShareGroupOffsetsGroup(group_id="g", topics=pb.OffsetTopics())
        request = pb.DescribeShareGroupOffsetsRequest(groups=[asked])
        [answer] = (await made.call(methods.DESCRIBE_SHARE_GROUP_OFFSETS, request)).groups
        assert (answer.error_code, list(answer.topics)) == (0, [])


async def test_describe_hides_unauthorized_topics_or_says_so():
    async with world(foo=1, bar=1) as made:
        await empty_group(made, "foo", "bar")
        made.rules.denied.add(("describe", "topic", "bar"))
        assert set(rows(await describe(made))) == {("foo", 0)}
        answer = await describe(made, bar=[0])
        assert rows(answer) == {("bar", 0): (-1, -1, ErrorCode.TOPIC_AUTHORIZATION_FAILED)}


async def test_alter_sets_offsets_under_a_new_epoch():
    async with world(foo=2) as made:
        await empty_group(made, "foo")
        response = await alter(made, foo={0: 40, 9: 1}, absent={0: 1})
        assert response.error_code == 0
        errors = {
            (topic.topic_name, each.partition): each.error_code
            for topic in response.topics
            for each in topic.partitions
        }
        assert errors == {
            ("foo", 0): 0,
            ("foo", 9): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            ("absent", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        }
        assert made.states.initialized[-1] == ("g", {TopicPartition(FOO, 0): (5, 40)})
        await made.lead(("foo", 0))
        made.log_ends[TopicPartition(FOO, 0)] = 105
        assert rows(await describe(made, foo=[0])) == {("foo", 0): (40, 65, 0)}


async def test_alter_refuses_groups_with_members_and_empty_ids():
    async with world(foo=1) as made:
        await made.joined("m1", ["foo"])
        assert (await alter(made, foo={0: 1})).error_code == ErrorCode.NON_EMPTY_GROUP
        assert (await alter(made, "", foo={0: 1})).error_code == ErrorCode.INVALID_GROUP_ID


@pytest.mark.parametrize("offset", [-1, 2**62 + 1, 2**63 - 1])
async def test_alter_refuses_offsets_that_no_log_can_have(offset):
    """BND-13."""
    async with world(foo=3) as made:
        await empty_group(made, "foo")
        request = pb.AlterShareGroupOffsetsRequest(group_id="g")
        topic = request.topics.add(topic_name="foo")
        topic.partitions.add(partition=0, start_offset=offset)
        imported = topic.partitions.add(partition=1, start_offset=0)
        imported.state_batches.add(first_offset=0, last_offset=offset, delivery_state=0)
        topic.partitions.add(partition=2, start_offset=2**62)
        response = await made.call(methods.ALTER_SHARE_GROUP_OFFSETS, request)
        codes = [each.error_code for each in response.topics[0].partitions]
        assert codes == [ErrorCode.INVALID_REQUEST] * 2 + [0]
        found = rows(await describe(made, foo=[0, 1, 2]))
        assert [found["foo", number][0] for number in range(3)] == [-1, -1, 2**62]


async def test_alter_creates_a_missing_group():
    async with world(foo=1) as made:
        response = await alter(made, "new", foo={0: 7})
        assert response.topics[0].partitions[0].error_code == 0
        assert (await made.describe("new")).group_state == "Empty"
        await made.hb("m1", 0, ["foo"], group="new")
        answer = await made.joined("m1", ["foo"], group="new")
        assert answer.assignment.topic_partitions[0].topic_id == FOO
        assert len(made.states.initialized) == 1


async def test_alter_goes_above_an_epoch_that_the_share_coordinator_knew():
    async with world(foo=1) as made:
        made.states.refuse = StateWriteResult(ErrorCode.FENCED_STATE_EPOCH, "floor", 9)
        response = await alter(made, "new", foo={0: 7})
        assert response.topics[0].partitions[0].error_code == ErrorCode.FENCED_STATE_EPOCH
        epochs = [each[TopicPartition(FOO, 0)][0] for _, each in made.states.initialized]
        assert epochs == [2, 10, 11]
        assert not made.service.served[0].decisions.group("new").initializing


async def test_an_altered_offset_survives_a_crash_before_it_was_sent():
    async with world(foo=1) as made:
        made.states.open.clear()
        request = pb.AlterShareGroupOffsetsRequest(group_id="g")
        request.topics.add(topic_name="foo").partitions.add(partition=0, start_offset=40)
        import asyncio

        asking = asyncio.create_task(made.call(methods.ALTER_SHARE_GROUP_OFFSETS, request))
        await made.until(lambda: made.states.initialized)
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        await made.start()
        made.states.open.set()
        await made.until(lambda: len(made.states.initialized) == 2)
        assert made.states.initialized[1][1] == {TopicPartition(FOO, 0): (3, 40)}
        await made.until(lambda: made.service.served[0].decisions.group("g").initialized)


async def test_delete_of_offsets():
    async with world(foo=2, bar=1) as made:
        assert (await delete(made, "foo")).error_code == ErrorCode.GROUP_ID_NOT_FOUND
        assert (await delete(made, "foo", group="")).error_code == ErrorCode.INVALID_GROUP_ID
        await made.joined("m1", ["foo"])
        assert (await delete(made, "foo")).error_code == ErrorCode.NON_EMPTY_GROUP
        await made.hb("m1", -1)
        response = await delete(made, "foo", "absent", "bar")
        assert [(each.topic_name, each.error_code) for each in response.topics] == [
            ("foo", 0),
            ("absent", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
            ("bar", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ]
        assert response.topics[2].error_message == "There is no offset information to delete."
        both = {TopicPartition(FOO, 0), TopicPartition(FOO, 1)}
        assert [each[2] for each in made.states.deleted] == [both]
        group = made.service.served[0].decisions.group("g")
        assert not group.initialized
        assert not group.deleting


async def test_deletes_that_failed_are_finished_by_the_next_coordinator():
    async with world(foo=1) as made:
        await empty_group(made, "foo")
        made.states.refuse = StateWriteResult(ErrorCode.COORDINATOR_NOT_AVAILABLE, "down")
        [topic] = (await delete(made, "foo")).topics
        assert topic.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        made.states.refuse = None
        await made.start()
        await made.until(lambda: not made.service.served[0].decisions.group("g").deleting)
        assert not made.states.stored
