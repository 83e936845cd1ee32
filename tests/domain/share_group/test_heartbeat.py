"""Join, heartbeat, leave: spec GC-3 to GC-25."""

import pytest

from sharemesh.domain.errors import ErrorCode, RefusedError
from sharemesh.domain.ids import GroupId, MemberId
from sharemesh.domain.share_group.group import GroupState
from sharemesh.domain.share_group.heartbeat import (
    Heartbeat,
    check_fields,
    deliver,
    waits_for_assignment,
)
from sharemesh.domain.share_group.records import (
    CurrentMemberAssignment,
    GroupMetadata,
    GroupTombstone,
    InitializingPartition,
    InitializingTopic,
    MemberMetadata,
    StatePartitionMetadata,
    TargetAssignmentMember,
    TargetAssignmentMetadata,
)
from sharemesh.domain.share_group.shard import GroupShard
from tests.domain.share_group.groups import GROUP, World, catalog, topic_id


def refused(call, *args, **more):
    with pytest.raises(RefusedError) as caught:
        call(*args, **more)
    return caught.value.error


@pytest.mark.parametrize(
    "request_",
    [
        Heartbeat(GROUP, MemberId(""), 1),
        Heartbeat(GroupId(""), MemberId("m"), 1),
        Heartbeat(GROUP, MemberId("m"), 1, rack_id=""),
        Heartbeat(GROUP, MemberId("m"), 0),
        Heartbeat(GROUP, MemberId("m"), 0, subscribed_topic_names=()),
        Heartbeat(GROUP, MemberId("m"), -2),
    ],
)
def test_bad_fields_are_invalid_requests(request_):
    assert refused(check_fields, request_) is ErrorCode.INVALID_REQUEST


def test_first_join_answers_epoch_2_and_nothing_yet_and_initializes():
    world = World(foo=6)
    answer = world.beat("m1", 0, ["foo"])
    assert (answer.member_epoch, answer.assignment) == (2, {})
    assert world.plan.topics == {
        topic_id("foo"): {number: InitializingPartition(-1, 2) for number in range(6)}
    }


def test_records_of_a_first_join_come_in_the_order_of_gc_34():
    world = World(foo=6)
    world.beat("m1", 0, ["foo"])
    assert [type(record) for record in world.records] == [
        MemberMetadata,
        GroupMetadata,
        TargetAssignmentMember,
        TargetAssignmentMetadata,
        CurrentMemberAssignment,
        StatePartitionMetadata,
    ]


def test_partitions_come_once_they_are_initialized():
    world = World(foo=6)
    world.beat("m1", 0, ["foo"])
    world.initialized()
    answer = world.beat("m1", 2)
    assert (answer.member_epoch, answer.assignment) == (3, {topic_id("foo"): (0, 1, 2, 3, 4, 5)})
    answer = world.beat("m1", 3)
    assert (answer.member_epoch, answer.assignment) == (3, None)
    assert world.records == []


def test_first_assignment_does_not_wait_for_the_interval():
    world = World(interval_ms=1_000, foo=2)
    world.beat("m1", 0, ["foo"])
    world.advance(5)
    world.initialized()
    world.review()
    assert world.group.target(MemberId("m1")) == {topic_id("foo"): (0, 1)}


def test_unknown_group_and_member():
    world = World(foo=1)
    assert refused(world.beat, "m1", 100) is ErrorCode.GROUP_ID_NOT_FOUND
    world.beat("m1", 0, ["foo"])
    assert refused(world.beat, "m2", 1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert refused(world.leave, "m2") is ErrorCode.UNKNOWN_MEMBER_ID


def test_rejoin_keeps_assignment_and_epoch():
    world = World(foo=3)
    epoch = world.joined("m1", ["foo", "bar"])
    answer = world.beat("m1", 0, ["bar", "foo"])
    assert (answer.member_epoch, answer.assignment) == (epoch, {topic_id("foo"): (0, 1, 2)})
    assert world.records == []
    assert refused(world.beat, "m1", epoch + 1) is ErrorCode.FENCED_MEMBER_EPOCH


def test_previous_epoch_is_accepted_once_lost_and_gets_the_assignment_again():
    world = World(foo=3)
    world.replay(
        MemberMetadata(GROUP, MemberId("m1"), subscribed_topic_names=("foo",)),
        GroupMetadata(GROUP, 5, catalog(foo=3).metadata_hash(["foo"])),
        TargetAssignmentMetadata(GROUP, 5),
        TargetAssignmentMember(GROUP, MemberId("m1")),
        CurrentMemberAssignment(GROUP, MemberId("m1"), 5, 3),
    )
    assert world.beat("m1", 5).assignment is None
    assert world.beat("m1", 3).assignment == {}
    assert refused(world.beat, "m1", 4) is ErrorCode.FENCED_MEMBER_EPOCH
    assert refused(world.beat, "m1", 6) is ErrorCode.FENCED_MEMBER_EPOCH


def test_full_group_refuses_new_members_before_looking_them_up():
    world = World(foo=1)
    world.set(max_size=1)
    world.replay(GroupMetadata(GROUP, 100), TargetAssignmentMetadata(GROUP, 100))
    assert world.beat("m1", 0, ["foo"]).member_epoch == 101
    assert refused(world.beat, "m2", 0, ["foo"]) is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert refused(world.beat, "m2", 7) is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert world.beat("m1", 101).member_epoch == 101


def test_leave_writes_tombstones_and_the_last_one_settles_the_assignment():
    world = World(foo=3)
    world.joined("m1", ["foo"])
    world.joined("m2", ["foo"])
    world.leave("m1")
    assert [getattr(record, "kind", None) for record in world.records[:3]] == [14, 13, 10]
    assert [type(record) for record in world.records] == [GroupTombstone] * 3 + [GroupMetadata]
    epoch = world.group.epoch
    world.leave("m2")
    assert isinstance(world.records[-1], TargetAssignmentMetadata)
    assert world.group.assignment_epoch == world.group.epoch == epoch + 1
    assert world.group.state is GroupState.EMPTY


def test_states_follow_members():
    world = World()
    world.replay(GroupMetadata(GROUP, 1))
    assert world.group.state is GroupState.EMPTY
    world.replay(MemberMetadata(GROUP, MemberId("m1")))
    assert world.group.state is GroupState.STABLE


def test_second_member_shares_the_partitions():
    world = World(foo=3)
    world.joined("m1", ["foo"])
    world.beat("m2", 0, ["foo"])
    sizes = [len(target.get(topic_id("foo"), ())) for target in world.group.targets.values()]
    assert sorted(sizes) == [1, 2]


def test_assignment_interval_delays_the_next_assignment_but_not_the_epoch():
    world = World(interval_ms=1_000, t1=2)
    world.beat("m1", 0, ["t1", "t2"])
    world.initialized()
    epoch = world.beat("m1", 2).member_epoch
    world.topics(t1=2, t2=2)
    world.beat("m1", epoch)
    world.initialized()
    before = world.group.epoch
    world.beat("m1", epoch)
    assert world.records == []
    assert world.group.epoch == before == epoch + 1
    world.advance(1_000)
    answer = world.beat("m1", epoch)
    assert set(answer.assignment) == {topic_id("t1"), topic_id("t2")}


def test_changing_topics_change_the_assignment():
    world = World(foo=2, bar=3)

    def count():
        epoch = world.group.members[MemberId("m1")].member_epoch
        answer = world.beat("m1", epoch)
        if world.plan is not None:
            world.initialized()
            answer = world.beat("m1", answer.member_epoch)
        total = sum(map(len, world.group.target(MemberId("m1")).values()))
        return total, answer.member_epoch

    world.beat("m1", 0, ["foo", "bar", "baz"])
    world.initialized()
    seen = [count()]
    for topics in (
        {"foo": 2, "bar": 3, "baz": 4},
        {"foo": 2, "bar": 6, "baz": 4},
        {"bar": 6, "baz": 4},
    ):
        world.topics(**topics)
        seen.append(count())
    assert [total for total, _ in seen] == [5, 9, 12, 10]
    epochs = [epoch for _, epoch in seen]
    assert epochs == sorted(set(epochs))


def test_replay_of_all_records_rebuilds_the_group():
    world = World(foo=3)
    kept = []
    keep = world.keep

    def recording(outcome):
        kept.extend(outcome.records)
        return keep(outcome)

    world.keep = recording
    world.joined("m1", ["foo"])
    world.joined("m2", ["foo"])
    world.leave("m1")
    world.beat("m2", world.group.members[MemberId("m2")].member_epoch)
    twin = GroupShard()
    for record in kept:
        twin.apply(record, 0)
    again = GroupShard()
    for chunk in world.shard.live_records():
        for record in chunk:
            again.apply(record, 0)
    assert twin.live_records() == world.shard.live_records() == again.live_records()


def test_deliver_tells_only_members_whose_partitions_changed():
    world = World(foo=4)
    world.joined("m1", ["foo"])
    world.beat("m2", 0, ["foo"])
    answers = world.keep(deliver(world.group, [MemberId("m1"), MemberId("m2"), MemberId("gone")]))
    assert set(answers) == {"m1"}
    assert answers["m1"].assignment == world.group.target(MemberId("m1"))
    assert world.keep(deliver(world.group, [MemberId("m1")])) == {}


def test_a_member_waits_while_its_topics_are_being_initialized():
    world = World(foo=2)
    world.beat("m1", 0, ["foo"])
    assert waits_for_assignment(world.group, MemberId("m1"), world.group_context)
    world.initialized()
    world.review()
    assert not waits_for_assignment(world.group, MemberId("m1"), world.group_context)
    world.beat("m2", 0, ["nowhere"])
    assert not waits_for_assignment(world.group, MemberId("m2"), world.group_context)


def test_retry_repeats_the_recorded_start_offset_under_a_new_epoch():
    world = World(t1=1)
    world.beat("m1", 0, ["t1"])
    world.advance(29_999)
    world.beat("m1", 2)
    assert world.plan is None
    world.advance(2)
    world.beat("m1", 2)
    assert world.plan.topics == {topic_id("t1"): {0: InitializingPartition(-1, 3)}}


def test_loaded_initialization_resumes_with_what_was_recorded():
    world = World(t1=1)
    world.replay(
        MemberMetadata(GROUP, MemberId("m1"), subscribed_topic_names=("t1",)),
        GroupMetadata(GROUP, 2, catalog(t1=1).metadata_hash(["t1"])),
        StatePartitionMetadata(
            GROUP, {topic_id("t1"): InitializingTopic("t1", {0: InitializingPartition(-1, 2)})}
        ),
    )
    world.review()
    assert world.plan.topics == {topic_id("t1"): {0: InitializingPartition(-1, 3)}}


def test_failed_initialization_keeps_the_intended_start_offset():
    world = World(t1=2)
    world.beat("m1", 0, ["t1"])
    world.initialized(failed={topic_id("t1"): frozenset({1})})
    assert dict(world.group.initialized[topic_id("t1")].partitions) == {0: 2}
    world.advance(1_000)
    world.review()
    assert world.plan.topics == {topic_id("t1"): {1: InitializingPartition(-1, 3)}}


def test_new_partitions_of_a_known_topic_start_at_zero():
    world = World(t1=2, t2=2)
    world.joined("m1", ["t1", "t2"])
    epoch = world.group.epoch
    world.topics(t1=4, t2=2)
    world.beat("m1", epoch)
    new = InitializingPartition(0, epoch + 1)
    assert world.plan.topics == {topic_id("t1"): {2: new, 3: new}}


def test_unsubscribing_does_not_uninitialize():
    """GC-31."""
    world = World(t1=1, t2=1)
    world.joined("m1", ["t1", "t2"])
    world.beat("m1", world.group.members[MemberId("m1")].member_epoch, ["t2"])
    assert topic_id("t1") in world.group.initialized


def test_a_member_may_change_its_subscription():
    world = World(t1=1, t2=1)
    epoch = world.joined("m1", ["t1"])
    answer = world.beat("m1", epoch, ["t2", "t2"])
    assert answer.member_epoch == epoch + 1
    assert answer.assignment == {}
    assert world.group.subscribed_names == ["t2"]
