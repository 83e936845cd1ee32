"""Section M, first half: members, epochs, groups and settings, asked over gRPC."""

import asyncio

from sharemesh import methods
from sharemesh.domain.share_group.records import (
    CurrentMemberAssignment,
    GroupMetadata,
    InitializedTopic,
    MemberMetadata,
    StatePartitionMetadata,
    TargetAssignmentMember,
    TargetAssignmentMetadata,
)
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
from tests.group_coordinator.world import assigned, topic_id


@scenario("GC-S01")
async def test_feature_off_not_started_loading_wrong_broker():
    async with world(foo=1, started=False) as made:
        await made.start(shards=())
        await made.share_version(0)
        assert (await made.hb("m1", 0, ["foo"])).error_code == 35
        await made.share_version(1)
        assert (await made.hb("m1", 0, ["foo"])).error_code == 15
        gate = asyncio.Event()
        open_log = made.logs.open

        async def slow(*args):
            await gate.wait()
            return await open_log(*args)

        made.logs.open = slow
        loading = asyncio.create_task(made.start_shard())
        await made.clock.settle()
        assert (await made.hb("m1", 0, ["foo"])).error_code == 14
        gate.set()
        await loading
        assert (await made.hb("m1", 0, ["foo"])).error_code == 0
        await made.service.stop_shard(0)
        await made.elect("another")
        assert (await made.hb("m1", 0, ["foo"])).error_code == 16


@scenario("GC-S02")
async def test_bad_fields_are_42_each():
    async with world(foo=1) as made:
        for member, epoch, topics, more in (
            ("", 0, ["foo"], {}),
            ("m1", 0, ["foo"], {"group": ""}),
            ("m1", 0, ["foo"], {"rack_id": ""}),
            ("m1", 0, None, {}),
            ("m1", 0, [], {}),
            ("m1", -2, ["foo"], {}),
        ):
            answer = await made.hb(member, epoch, topics, **more)
            assert answer.error_code == 42, (member, epoch, topics, more)


@scenario("GC-S03")
async def test_long_member_id_and_missing_permissions_change_nothing():
    async with world(a=1, b=1) as made:
        assert (await made.hb("m" * 37, 0, ["a"])).error_code == 42
        made.rules.denied = {("read", "group", "g")}
        assert (await made.hb("m1", 0, ["a"])).error_code == 30
        made.rules.denied = {("describe", "topic", "b")}
        assert (await made.hb("m1", 0, ["a", "b"])).error_code == 29
        assert made.service.served[0].decisions.group("g") is None


@scenario("GC-S04")
async def test_first_join():
    async with world(foo=6) as made:
        answer = await made.hb("m1", 0, ["foo"])
        assert (answer.error_code, answer.member_epoch) == (0, 2)
        assert answer.heartbeat_interval_ms == 5_000
        assert assigned(answer) == {}
        await made.until(lambda: made.states.initialized)
        assert sent(made) == {part("foo", number): (2, -1) for number in range(6)}


@scenario("GC-S05")
async def test_assignment_after_initialization():
    async with world(foo=6) as made:
        await made.hb("m1", 0, ["foo"])
        await settled(made)
        answer = await made.hb("m1", 2)
        assert answer.member_epoch == 3
        assert assigned(answer) == {topic_id("foo"): [0, 1, 2, 3, 4, 5]}
        answer = await made.hb("m1", 3)
        assert (answer.member_epoch, assigned(answer)) == (3, None)


@scenario("GC-S06")
async def test_unknown_group_and_member():
    async with world(foo=1) as made:
        assert (await made.hb("m1", 100)).error_code == 69
        await made.hb("m1", 0, ["foo"])
        assert (await made.hb("m2", 1)).error_code == 25


@scenario("GC-S07")
async def test_the_member_id_is_the_members():
    async with world(foo=1) as made:
        assert (await made.hb("abc", 0, ["foo"])).member_id == "abc"


def group_at_100(made):
    """Records of a group at epoch 100 with m1, which has foo-0, 1, 2."""
    foo = topic_id("foo")
    have = {foo: (0, 1, 2)}
    hashed = made.service._coordinator.catalog.metadata_hash(["bar", "foo"])
    return (
        MemberMetadata(G, M1, subscribed_topic_names=("bar", "foo")),
        GroupMetadata(G, 100, hashed),
        TargetAssignmentMember(G, M1, have),
        TargetAssignmentMetadata(G, 100),
        CurrentMemberAssignment(G, M1, 100, 99, have),
        StatePartitionMetadata(G, {}, {foo: InitializedTopic("foo", dict.fromkeys(range(3), 99))}),
    )


@scenario("GC-S08")
async def test_rejoin_with_epoch_zero():
    async with world(foo=3) as made:
        await stored(made, *group_at_100(made))
        for epoch, error in ((0, 0), (101, 110), (0, 0)):
            answer = await made.hb("m1", epoch, ["foo", "bar"] if epoch == 0 else None)
            assert answer.error_code == error
            if not error:
                assert answer.member_epoch == 100
                assert assigned(answer) == {topic_id("foo"): [0, 1, 2]}
        assert made.service.served[0].decisions.group("g").epoch == 100


@scenario("GC-S09")
async def test_previous_epoch():
    async with world(foo=3) as made:
        hashed = made.service._coordinator.catalog.metadata_hash(["nowhere"])
        await stored(
            made,
            MemberMetadata(G, M1, subscribed_topic_names=("nowhere",)),
            GroupMetadata(G, 5, hashed),
            TargetAssignmentMember(G, M1),
            TargetAssignmentMetadata(G, 5),
            CurrentMemberAssignment(G, M1, 5, 3),
        )
        errors = [(await made.hb("m1", epoch)).error_code for epoch in (5, 3, 4, 6)]
        assert errors == [0, 0, 110, 110]


@scenario("GC-S10")
async def test_size_limit():
    async with world(foo=1) as made:
        await made.cluster_configs(group_share_max_size="1")
        await stored(made, GroupMetadata(G, 100), TargetAssignmentMetadata(G, 100))
        assert (await made.hb("m1", 0, ["foo"])).member_epoch == 101
        assert (await made.hb("m2", 0, ["foo"])).error_code == 81
        assert (await made.hb("m1", 101)).error_code == 0
        await made.cluster_configs(group_share_max_size="2")
        assert (await made.hb("m2", 0, ["foo"])).error_code == 0
        assert (await made.hb("m3", 0, ["foo"])).error_code == 81


@scenario("GC-S12")
async def test_leave_errors():
    async with world(foo=1) as made:
        assert (await made.hb("m1", -1)).error_code == 69
        await made.hb("m1", 0, ["foo"])
        assert (await made.hb("m2", -1)).error_code == 25


@scenario("GC-S13")
async def test_states():
    async with world(foo=1) as made:
        await stored(made, GroupMetadata(G, 1))
        assert (await made.describe()).group_state == "Empty"
        await made.hb("m1", 0, ["foo"])
        assert (await made.describe()).group_state == "Stable"
        await made.hb("m1", -1)
        assert (await made.describe()).group_state == "Empty"


@scenario("GC-S15")
async def test_delete_groups():
    async with world(foo=1) as made:
        await made.hb("m1", 0, ["foo"])
        assert await delete_groups(made, "g") == [68]
        await made.hb("m1", -1)
        assert await delete_groups(made, "g", "missing") == [0, 69]


@scenario("GC-S16")
async def test_expiry():
    async with world(foo=2) as made:
        await no_interval(made)
        first = await made.joined("m1", ["foo"])
        second = await made.joined("m2", ["foo"])
        assert (size(first), size(second)) == (2, 1)
        await made.hb("m1", first.member_epoch)
        epoch = (await made.describe()).group_epoch
        for _ in range(3):
            await made.clock.advance(15_000)
            await made.hb("m2", second.member_epoch)
        await made.clock.advance(1)
        await made.until(lambda: "m1" not in made.service.served[0].decisions.group("g").members)
        assert (await made.describe()).group_epoch == epoch + 1
        await settled(made)
        assert size(await made.hb("m2", second.member_epoch)) == 2
        assert (await made.hb("m1", second.member_epoch)).error_code == 25
        assert (await made.hb("m1", 0, ["foo"])).error_code == 0


@scenario("GC-S17")
async def test_dynamic_configs():
    async with world(foo=1) as made:
        answer = await made.joined("m1", ["foo"])
        request = pb.AlterGroupConfigsRequest(group_id="g")
        request.configs.add(name="share.session.timeout.ms", value="50000")
        request.configs.add(name="share.heartbeat.interval.ms", value="10000")
        assert (await made.call(methods.ALTER_GROUP_CONFIGS, request)).error_code == 0
        answer = await made.hb("m1", answer.member_epoch)
        assert answer.heartbeat_interval_ms == 10_000
        members = made.service.served[0].decisions.group("g").members
        await made.clock.advance(49_999)
        assert "m1" in members
        await made.clock.advance(2)
        await made.until(lambda: "m1" not in members)


@scenario("GC-S18")
async def test_stored_values_out_of_range():
    async with world() as made:
        answer = await made.hb("m1", 0, ["foo"])
        assert answer.heartbeat_interval_ms == 5_000
        await made.group_configs(
            "g", share_session_timeout_ms="70000", share_heartbeat_interval_ms="1"
        )
        answer = await made.hb("m1", 2)
        assert (answer.error_code, answer.member_epoch) == (0, 2)
        assert answer.heartbeat_interval_ms == 5_000
        members = made.service.served[0].decisions.group("g").members
        await made.clock.advance(59_999)
        assert "m1" in members
        await made.clock.advance(2)
        await made.until(lambda: "m1" not in members)
