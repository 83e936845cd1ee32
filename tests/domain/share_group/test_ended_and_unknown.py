"""Decisions about members, groups and topics that are gone, or were never there (spec GC-34)."""

from dataclasses import replace

import pytest

from sharemesh.domain.errors import ErrorCode, RefusedError
from sharemesh.domain.ids import MemberId
from sharemesh.domain.share_group.context import TopicsImage
from sharemesh.domain.share_group.heartbeat import remove_members, review, waits_for_assignment
from sharemesh.domain.share_group.offsets import (
    AlteredOffset,
    alter_failed,
    alter_offsets,
    delete_group,
    group_deleted,
)
from sharemesh.domain.share_group.records import (
    CurrentMemberAssignment,
    GroupMetadata,
    GroupTombstone,
    MemberMetadata,
    RecordKind,
)
from sharemesh.domain.share_group.shard import MAX_GROUPS, GroupShard
from tests.domain.share_group.groups import GROUP, World, topic_id

EMPTY = TopicsImage(())
M1 = MemberId("m1")


def refusal(call, *args):
    with pytest.raises(RefusedError) as caught:
        call(*args)
    return caught.value.error


def test_to_remove_members_that_are_gone_writes_nothing():
    world = World(orders=2)
    world.joined("m1", ["orders"])
    records = remove_members(world.group, [MemberId("other")], EMPTY).records
    assert records == ()


def test_a_member_that_is_not_there_waits_for_no_assignment():
    world = World(orders=2)
    assert not waits_for_assignment(None, M1, world.group_context)
    world.joined("m1", ["orders"])
    assert not waits_for_assignment(world.group, MemberId("other"), world.group_context)


def test_an_initialization_of_a_topic_that_is_gone_is_not_tried_again():
    world = World(orders=2)
    world.beat("m1", 0, ["orders"])
    assert world.plan is not None
    world.topics()
    world.advance(world.group_context.initialize_retry_interval_ms)
    assert world.review() is None


def test_an_empty_group_without_initializations_has_nothing_due():
    world = World(orders=2)
    world.joined("m1", ["orders"])
    world.leave("m1")
    outcome = review(world.group, world.group_context)
    assert (outcome.records, outcome.answer) == ((), None)


def altered(world, **offsets):
    asked = {"orders": {int(n[1:]): AlteredOffset(offset) for n, offset in offsets.items()}}
    return world.keep(alter_offsets(world.group, GROUP, asked, world.group_context))


def test_a_negative_start_offset_is_refused_and_the_others_are_altered():
    world = World(orders=2)
    answer = altered(world, p0=-1, p1=7)
    assert answer.refused["orders"][0].error is ErrorCode.INVALID_REQUEST
    assert set(answer.initialize.topics[topic_id("orders")]) == {1}


def test_a_failed_alteration_is_forgotten_and_a_later_one_of_the_topic_stays():
    world = World(orders=2)
    first = altered(world, p0=5).initialize
    altered(world, p1=7)
    world.keep(alter_failed(world.group, first))
    assert set(world.group.initializing[topic_id("orders")].partitions) == {1}
    assert alter_failed(world.group, first).records == ()


def test_a_group_that_was_used_while_it_was_being_deleted_is_not_deleted():
    world = World(orders=2)
    world.joined("m1", ["orders"])
    world.leave("m1")
    plan = world.keep(delete_group(world.group, GROUP, world.group_context.catalog))
    assert refusal(group_deleted, None, GROUP, plan.state_epoch, 0) is ErrorCode.GROUP_ID_NOT_FOUND
    world.joined("m2", ["orders"])
    error = refusal(group_deleted, world.group, GROUP, plan.state_epoch, 0)
    assert error is ErrorCode.NON_EMPTY_GROUP


def test_a_group_whose_topics_are_gone_is_deleted_without_a_plan_for_them():
    world = World(orders=2)
    world.joined("m1", ["orders"])
    world.leave("m1")
    assert delete_group(world.group, GROUP, EMPTY).answer.topics == {}


@pytest.mark.parametrize(
    "kind",
    [
        kind
        for kind in RecordKind
        if kind not in {RecordKind.EPOCH_FLOOR, RecordKind.GROUP_METADATA}
    ],
)
def test_a_tombstone_of_what_is_not_there_changes_nothing(kind):
    world = World(orders=2)
    world.replay(GroupTombstone(GROUP, kind, M1))
    assert world.group is None
    world.replay(GroupMetadata(GROUP, 3))
    world.replay(GroupTombstone(GROUP, kind, M1))
    world.shard.validate()
    assert (world.group.epoch, world.group.members) == (3, {})


def test_a_log_may_begin_with_the_assignment_of_a_member():
    # Compaction keeps the newest record of each key, so the member's own may come later.
    world = World(orders=2)
    world.replay(CurrentMemberAssignment(GROUP, M1, 4, 3), MemberMetadata(GROUP, M1, "rack"))
    member = world.group.members[M1]
    assert (member.member_epoch, member.metadata.rack_id) == (4, "rack")


def test_what_a_known_member_told_before_is_not_counted_again(monkeypatch):
    old = MemberMetadata(GROUP, M1, subscribed_topic_names=("orders",))
    shard = GroupShard()
    shard.apply(GroupMetadata(GROUP, 1), 0)
    shard.apply(old, 1)
    monkeypatch.setattr("sharemesh.domain.share_group.shard.MAX_MEMBERS_BYTES", shard.members_bytes)
    bound = replace(old, principal="User:alice")  # its first heartbeat after an upgrade (BND-26)
    shard.check_room(GROUP, (bound,))
    shard.check_room(GROUP, (replace(bound, subscribed_topic_names=()),))
    more = replace(bound, subscribed_topic_names=("orders", "more"))
    other = MemberMetadata(GROUP, MemberId("m2"))
    for record in (more, other):
        assert refusal(shard.check_room, GROUP, (record,)) is ErrorCode.GROUP_MAX_SIZE_REACHED


def test_a_group_beyond_the_bound_of_a_shard_is_refused():
    shard = GroupShard()
    shard.groups = {f"g{number}": None for number in range(MAX_GROUPS)}
    assert refusal(shard.check_room, GROUP, ()) is ErrorCode.INVALID_REQUEST
    shard.check_room("g0", ())
