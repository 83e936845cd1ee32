"""Section M, second half: share partitions, assignments, coordinator changes, over gRPC."""

from sharemesh import methods
from sharemesh.codec.group_record import Moment, read_record
from sharemesh.domain.errors import ErrorCode
from sharemesh.domain.share_group.context import GroupUpdate, InitializePlan
from sharemesh.domain.share_group.initialization import initialization_ended, plan_initialization
from sharemesh.domain.share_group.records import (
    CurrentMemberAssignment,
    GroupMetadata,
    GroupTombstone,
    InitializedTopic,
    InitializingPartition,
    InitializingTopic,
    MemberMetadata,
    RecordKind,
    StatePartitionMetadata,
    TargetAssignmentMember,
    TargetAssignmentMetadata,
)
from sharemesh.ports.share_state import StateWriteResult
from sharemesh.v1 import group_coordinator_pb2 as pb
from tests.conformance.group_scene import (
    M1,
    G,
    delete_groups,
    no_interval,
    part,
    sent,
    settled,
    size,
    stored,
    world,
)
from tests.conformance.scenario import scenario
from tests.domain.share_group.groups import GROUP
from tests.domain.share_group.groups import World as DomainWorld
from tests.domain.share_group.groups import topic_id as domain_topic_id
from tests.group_coordinator.world import assigned, topic_id


def two_topics_at_2(made, **counts):
    """Records of a group at epoch 2 in which t1(2) and perhaps t2(2) are initialized."""
    have = {topic_id(name): tuple(range(count)) for name, count in counts.items()}
    hashed = made.service._coordinator.catalog.metadata_hash(counts)
    return (
        MemberMetadata(G, M1, subscribed_topic_names=tuple(sorted(counts))),
        GroupMetadata(G, 2, hashed),
        TargetAssignmentMember(G, M1, have),
        TargetAssignmentMetadata(G, 2),
        CurrentMemberAssignment(G, M1, 2, 1, have),
        StatePartitionMetadata(
            G,
            {},
            {
                topic_id(name): InitializedTopic(name, dict.fromkeys(range(count), 2))
                for name, count in counts.items()
            },
        ),
    )


@scenario("GC-S19")
async def test_new_partitions():
    async with world(t1=2, t2=2) as made:
        await stored(made, *two_topics_at_2(made, t1=2, t2=2))
        await made.topics(t1=4, t2=2)
        await made.hb("m1", 2)
        await made.until(lambda: made.states.initialized)
        assert sent(made) == {part("t1", 2): (3, 0), part("t1", 3): (3, 0)}


@scenario("GC-S20")
async def test_new_partitions_and_a_new_topic_are_one_bump():
    async with world(t1=2) as made:
        await stored(made, *two_topics_at_2(made, t1=2))
        made.states.open.clear()
        await made.stop()
        await made.topics(t1=4, t3=2)
        await made.start()
        await made.hb("m1", 2, ["t1", "t3"])
        wanted = {("t1", 2): 0, ("t1", 3): 0, ("t3", 0): -1, ("t3", 1): -1}
        await made.until(lambda: sum(len(each) for _, each in made.states.initialized) == 4)
        offsets = {key: each[1] for _, one in made.states.initialized for key, each in one.items()}
        assert offsets == {part(*key): offset for key, offset in wanted.items()}
    domain = DomainWorld(t1=2)
    epoch = domain.joined("m1", ["t1"])
    domain.topics(t1=4, t3=2)
    domain.beat("m1", epoch, ["t1", "t3"])
    assert domain.group.epoch == epoch + 1
    assert {
        key: {number: each.start_offset for number, each in topic.items()}
        for key, topic in domain.plan.topics.items()
    } == {domain_topic_id("t1"): {2: 0, 3: 0}, domain_topic_id("t3"): {0: -1, 1: -1}}


@scenario("GC-S21")
def test_one_bump_while_the_assignment_waits():
    made = DomainWorld(interval_ms=1_000, t1=1, t2=1)
    t1, t2 = domain_topic_id("t1"), domain_topic_id("t2")
    have = {t1: (0,)}
    made.replay(
        MemberMetadata(GROUP, M1, subscribed_topic_names=("t1", "t2")),
        GroupMetadata(GROUP, 2, made.group_context.catalog.metadata_hash(["t1", "t2"])),
        TargetAssignmentMember(GROUP, M1, have),
        TargetAssignmentMetadata(GROUP, 2, made.group_context.now_ms - 500),
        CurrentMemberAssignment(GROUP, M1, 2, 1, have),
        StatePartitionMetadata(
            GROUP, {}, {t1: InitializedTopic("t1", {0: 2}), t2: InitializedTopic("t2", {0: 2})}
        ),
    )
    made.beat("m1", 2)
    assert made.group.epoch == 3
    assert made.group.assignment_epoch == 2
    made.advance(499)
    made.beat("m1", 2)
    assert made.records == []
    assert made.group.epoch == 3


@scenario("GC-S22")
def test_unfinished_initialization_is_repeated_after_the_interval():
    for age_ms, repeated in ((30_001, True), (30_000 - 1, False)):
        made = DomainWorld(t1=1)
        t1 = domain_topic_id("t1")
        since_ms = made.group_context.now_ms - age_ms
        made.replay(
            MemberMetadata(GROUP, M1, subscribed_topic_names=("t1",)),
            GroupMetadata(GROUP, 2, made.group_context.catalog.metadata_hash(["t1"])),
            TargetAssignmentMember(GROUP, M1),
            TargetAssignmentMetadata(GROUP, 2),
            CurrentMemberAssignment(GROUP, M1, 2, 1),
            StatePartitionMetadata(
                GROUP,
                {t1: InitializingTopic("t1", {0: InitializingPartition(0, 2)}, since_ms)},
            ),
        )
        made.beat("m1", 2)
        if repeated:
            assert made.plan.topics == {t1: {0: InitializingPartition(0, 3)}}
        else:
            assert made.plan is None


@scenario("GC-S23")
def test_outcomes_of_initialization():
    made = DomainWorld(t1=2)
    t1 = domain_topic_id("t1")
    made.beat("m1", 0, ["t1"])
    plan = made.plan
    made.initialized(InitializePlan(GROUP, {}))
    assert made.records == []
    made.initialized(plan)
    [record] = made.records
    assert isinstance(record, StatePartitionMetadata)
    assert set(record.initialized[t1].partitions) == {0, 1}
    assert t1 not in record.initializing

    made = DomainWorld(t1=2)
    made.replay(
        MemberMetadata(GROUP, M1, subscribed_topic_names=("t1",)),
        GroupMetadata(GROUP, 2),
        StatePartitionMetadata(GROUP, {}, {}, {t1: "t1"}),
    )
    draft = GroupUpdate(made.group.copy())
    assert plan_initialization(draft, made.group_context).topics.keys() == {t1}
    assert t1 in draft.group.initializing
    assert t1 not in draft.group.deleting
    assert initialization_ended(made.group, plan, {}, made.group_context).records == ()


@scenario("GC-S26")
async def test_two_members_share():
    async with world(foo=3) as made:
        await no_interval(made)
        first = await made.joined("m1", ["foo"])
        assert size(first) == 3
        second = await made.joined("m2", ["foo"])
        first = await made.hb("m1", first.member_epoch)
        have = [*assigned(first)[topic_id("foo")], *assigned(second)[topic_id("foo")]]
        assert sorted(have) == [0, 1, 2]
        assert sorted((size(first), size(second))) == [1, 2]


def target_size(made):
    return sum(map(len, made.service.served[0].decisions.group("g").target("m1").values()))


@scenario("GC-S27")
async def test_changing_topics():
    async with world(foo=2, bar=3) as made:
        await no_interval(made)
        answer = await made.joined("m1", ["foo", "bar", "baz"])
        counts, epochs = [size(answer)], [answer.member_epoch]
        for topics in (
            {"foo": 2, "bar": 3, "baz": 4},
            {"foo": 2, "bar": 6, "baz": 4},
            {"bar": 6, "baz": 4},
        ):
            await made.topics(**topics)
            count = sum(topics.values())
            await made.until(lambda count=count: target_size(made) == count)
            await settled(made)
            answer = await made.hb("m1", epochs[-1])
            counts.append(size(answer))
            epochs.append(answer.member_epoch)
        assert counts == [5, 9, 12, 10]
        assert epochs == sorted(set(epochs))
        await made.until(lambda: made.states.deleted)
        assert made.states.deleted[-1][2] == {part("foo", 0), part("foo", 1)}


@scenario("GC-S28")
async def test_coordinator_change():
    async with world(foo=2) as made:
        answer = await made.joined("m1", ["foo"])
        await made.clock.advance(40_000)
        await made.service.stop_shard(0)
        await made.elect("another")
        assert (await made.hb("m1", answer.member_epoch)).error_code in (15, 16)
        await made.start()
        again = await made.hb("m1", answer.member_epoch)
        assert (again.error_code, again.member_epoch) == (0, answer.member_epoch)
        assert assigned(again) is None
        await made.clock.advance(1_000)
        await made.start()
        members = made.service.served[0].decisions.group("g").members
        await made.clock.advance(44_999)
        assert "m1" in members
        await made.clock.advance(2)
        await made.until(lambda: "m1" not in members)


@scenario("GC-S32")
async def test_delete_offsets():
    async with world(t1=1, t2=1) as made:

        async def delete(*names, group="g"):
            request = pb.DeleteShareGroupOffsetsRequest(group_id=group, topic_names=names)
            return await made.call(methods.DELETE_SHARE_GROUP_OFFSETS, request)

        await made.joined("m1", ["t1"])
        assert (await delete("t1")).error_code == 68
        await made.hb("m1", -1)
        response = await delete("t1", "unknown", "t2")
        assert [each.error_code for each in response.topics] == [0, 3, 3]
        assert response.topics[2].error_message == "There is no offset information to delete."
        assert made.states.deleted[0][2] == {part("t1", 0)}
        assert not made.states.stored
        assert (await delete("t1", group="missing")).error_code == 69


@scenario("GC-S33")
async def test_delete_group_deletes_state_first():
    async with world(t1=2, t2=1) as made:
        records = (
            GroupMetadata(G, 7),
            TargetAssignmentMetadata(G, 7),
            StatePartitionMetadata(
                G,
                {},
                {topic_id("t1"): InitializedTopic("t1", {0: 5, 1: 5})},
                {topic_id("t2"): "t2"},
            ),
        )
        made.states.refuse = StateWriteResult(ErrorCode.COORDINATOR_NOT_AVAILABLE, "down")
        await stored(made, *records)
        await made.until(lambda: made.states.deleted)
        assert await delete_groups(made, "g") == [15]
        assert (await made.describe()).error_code == 0
        wanted = {part("t1", 0), part("t1", 1), part("t2", 0)}
        assert made.states.deleted[-1][2] == wanted
        made.states.refuse = None
        assert await delete_groups(made, "g") == [0]
        assert made.states.deleted[-1][2] == wanted
        assert (await made.describe()).error_code == 69
        await made.stop()
        tail = await logged(made)
        kinds = [record.kind for record in tail if isinstance(record, GroupTombstone)]
        assert kinds == [
            RecordKind.TARGET_ASSIGNMENT_METADATA,
            RecordKind.STATE_PARTITION_METADATA,
            RecordKind.GROUP_METADATA,
        ]


async def logged(made):
    """All records of the group log."""

    made.epoch += 1
    log = await made.logs.open("group", 0, made.epoch)
    moment = Moment(made.clock.now_ms(), made.clock.wall_ms())
    records = [
        read_record(stored.key, stored.value, moment)
        async for chunk in log.replay()
        for stored in chunk
    ]
    await log.close()
    return records
