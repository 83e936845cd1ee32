"""Requests that no good client sends: each is answered, and the coordinator goes on."""

import random

import pytest

from sharemesh import methods
from sharemesh.domain.share_group.context import MAX_SUBSCRIBED_TOPICS
from sharemesh.group_coordinator.coordinator_context import ServiceLimits
from sharemesh.methods import StreamingKind
from sharemesh.ports.network import CallFailedError, Failure
from sharemesh.v1 import group_coordinator_pb2 as pb
from tests.group_coordinator.world import assigned, topic_id, world

TEXTS = ("", "g", "m1", "foo", "nowhere", "x" * 2_000, "\0", "ü:/", "share.delivery.count.limit")
NUMBERS = (0, 1, -1, 2, 5, 2**31 - 1, -(2**31))
UNARY = [
    method
    for method in methods.METHODS
    if method.name.startswith("GroupCoordinator/") and method.kind is StreamingKind.UNARY
]


def filled(message, chance, depth=0):
    """Fill fields by chance; repeated ones get up to three values."""
    for field in message.DESCRIPTOR.fields:
        if chance.random() < 0.25:
            continue
        times = chance.randrange(4) if field.is_repeated else 1
        for _ in range(times):
            if field.message_type is not None:
                if depth < 4:
                    part = getattr(message, field.name)
                    inner = part.add() if field.is_repeated else part
                    if not field.is_repeated:
                        inner.SetInParent()
                    filled(inner, chance, depth + 1)
                continue
            value = value_of(field, chance)
            if field.is_repeated:
                getattr(message, field.name).append(value)
            else:
                setattr(message, field.name, value)
    return message


def value_of(field, chance):
    kinds = {
        field.TYPE_STRING: TEXTS,
        field.TYPE_BOOL: (True, False),
        field.TYPE_BYTES: (b"", b"x"),
    }
    value = chance.choice(kinds.get(field.type, NUMBERS))
    return min(value, 5) if field.name == "max_wait_ms" else value


@pytest.mark.parametrize("seed", range(5))
async def test_random_requests_are_answered(seed):
    chance = random.Random(seed)
    async with world(foo=2) as made:
        for _ in range(400):
            method = chance.choice(UNARY)
            request = filled(method.request(), chance)
            await made.call(method, request)
        answer = await made.joined("good", ["foo"], group="fresh")
        assert assigned(answer) == {topic_id("foo"): [0, 1]}, f"seed {seed}"
        machine = made.service.served[0].shard.peek(lambda each: each)
        machine.validate()


def too_much(kind):
    """Return (method, request) that lists one thing more than ``LIMITS`` allow."""
    if kind == "describe":
        return methods.SHARE_GROUP_DESCRIBE, pb.ShareGroupDescribeRequest(group_ids=["g"] * 4)
    if kind == "delete":
        return methods.DELETE_GROUPS, pb.DeleteGroupsRequest(group_ids=["g"] * 4)
    if kind == "list":
        return methods.LIST_GROUPS, pb.ListGroupsRequest(
            states_filter=["Empty"] * 2, types_filter=["share"] * 2
        )
    if kind == "describe configs":
        return methods.DESCRIBE_GROUP_CONFIGS, pb.DescribeGroupConfigsRequest(group_ids=["g"] * 4)
    if kind == "alter configs":
        request = pb.AlterGroupConfigsRequest(group_id="g")
        for _ in range(4):
            request.configs.add(name="share.delivery.count.limit", value="5")
        return methods.ALTER_GROUP_CONFIGS, request
    if kind == "delete offsets":
        request = pb.DeleteShareGroupOffsetsRequest(group_id="g", topic_names=["foo"] * 4)
        return methods.DELETE_SHARE_GROUP_OFFSETS, request
    return too_much_on_offsets(kind)


def too_much_on_offsets(kind):
    if kind == "alter topics":
        request = pb.AlterShareGroupOffsetsRequest(group_id="g")
        for _ in range(6):
            request.topics.add(topic_name="foo")
        return methods.ALTER_SHARE_GROUP_OFFSETS, request
    if kind == "alter partitions":
        request = pb.AlterShareGroupOffsetsRequest(group_id="g")
        for _ in range(2):
            topic = request.topics.add(topic_name="foo")
            for _ in range(3):
                topic.partitions.add(partition=0, start_offset=0)
        return methods.ALTER_SHARE_GROUP_OFFSETS, request
    request = pb.DescribeShareGroupOffsetsRequest()
    for _ in range(4 if kind == "describe offsets of groups" else 2):
        asked = request.groups.add(group_id="g")
        for _ in range(3 if kind == "describe offsets of topics" else 1):
            asked.topics.topics.add(topic_name="foo", partitions=[0] * 3)
    return methods.DESCRIBE_SHARE_GROUP_OFFSETS, request


@pytest.mark.parametrize(
    "kind",
    [
        "describe",
        "delete",
        "list",
        "describe configs",
        "alter configs",
        "delete offsets",
        "alter topics",
        "alter partitions",
        "describe offsets of groups",
        "describe offsets of topics",
        "describe offsets of partitions",
    ],
)
async def test_a_request_that_lists_too_much_is_refused_as_a_whole(kind):
    limits = ServiceLimits(look_interval_ms=0, requested_groups=3, requested_partitions=5)
    async with world(foo=1, limits=limits) as made:
        with pytest.raises(CallFailedError) as refused:
            await made.call(*too_much(kind))
        assert refused.value.failure is Failure.RESOURCE_EXHAUSTED
        assert "ask for at most" in str(refused.value)
        assert not made.service.served[0].shard.peek(lambda machine: machine.groups)


async def test_more_topics_than_a_member_may_name_are_refused_after_the_earlier_checks():
    async with world(foo=1) as made:
        names = ["foo"] * (MAX_SUBSCRIBED_TOPICS + 1)
        answer = await made.hb("m1", 0, names)
        assert (answer.error_code, "more than 1000" in answer.error_message) == (42, True)
        made.rules.denied.add(("read", "group", "g"))
        assert (await made.hb("m1", 0, names)).error_code == 30


async def test_members_that_tell_too_much_of_themselves_are_refused_and_the_others_go_on(
    monkeypatch,
):
    monkeypatch.setattr("sharemesh.domain.share_group.shard.MAX_MEMBERS_BYTES", 1_000_000)
    async with world(foo=1) as made:
        await made.joined("good", ["foo"])
        names = [f"{number:0200}" for number in range(1_000)]
        codes = [(await made.hb(f"m{n}", 0, names, group=f"g{n}")).error_code for n in range(8)]
        assert codes == [0] * 3 + [81] * 5
        machine = made.service.served[0].shard.peek(lambda each: each)
        assert set(machine.groups) == {"g", "g0", "g1", "g2"}
        machine.validate()
        assert (await made.hb("m0", -1, group="g0")).error_code == 0
        assert (await made.hb("m7", 0, names, group="g7")).error_code == 0
        await made.start()  # counted anew from the log
        loaded = made.service.served[0].shard.peek(lambda each: each)
        assert loaded.members_bytes == machine.members_bytes
        assert (await made.hb("m8", 0, names, group="g8")).error_code == 81
        assert (await made.hb("good", 0, ["foo"])).error_code == 0
