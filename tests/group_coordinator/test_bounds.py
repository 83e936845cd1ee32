"""Groups and their settings have a bound; what is there already is served on (spec BND-23)."""

import asyncio

from sharemesh import methods
from sharemesh.authorization.slices import UNITS_OF_A_SLICE
from sharemesh.domain.errors import ErrorCode
from sharemesh.group_coordinator import offset_admin
from sharemesh.v1 import group_coordinator_pb2 as pb
from sharemesh.v1.common_pb2 import StateBatch
from tests.group_coordinator.world import world
from tests.turns import Turns, holds_no_turn

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS


async def configured(made, group, value="50000", *, validate_only=False):
    request = pb.AlterGroupConfigsRequest(group_id=group, validate_only=validate_only)
    setting = request.configs.add(name="share.session.timeout.ms")
    if value is not None:
        setting.value = value
    return await made.call(methods.ALTER_GROUP_CONFIGS, request)


async def test_no_group_is_made_beyond_the_bound_and_old_ones_are_served_bnd_23():
    async with world(group_shards=3, foo=1) as made:
        await made.cluster_configs(group_share_max_groups="4")
        for number in range(4):
            assert (await made.hb("m", 0, ["foo"], group=f"g{number}")).error_code == 0
        refused = await made.hb("m", 0, ["foo"], group="one more")
        assert refused.error_code == ErrorCode.INVALID_REQUEST
        assert "4 groups, the most is 4 (group.share.max.groups)" in refused.error_message
        request = pb.AlterShareGroupOffsetsRequest(group_id="one more")
        request.topics.add(topic_name="foo").partitions.add(partition=0, start_offset=5)
        answer = await made.call(methods.ALTER_SHARE_GROUP_OFFSETS, request)
        assert answer.error_code == ErrorCode.INVALID_REQUEST
        assert (await made.describe("one more")).error_code == ErrorCode.GROUP_ID_NOT_FOUND
        for number in range(4):
            assert (await made.hb("m2", 0, ["foo"], group=f"g{number}")).error_code == 0
        assert (await made.hb("m", -1, group="g0")).error_code == 0
        assert (await made.hb("m2", -1, group="g0")).error_code == 0
        deleted = await made.call(methods.DELETE_GROUPS, pb.DeleteGroupsRequest(group_ids=["g0"]))
        assert [each.error_code for each in deleted.results] == [0]
        assert (await made.hb("m", 0, ["foo"], group="one more")).error_code == 0


def started_jobs(made, monkeypatch):
    """Return the list of jobs that the shard will have started from now on."""
    [served] = made.service.served
    started = []

    def start_job(name, job, **_):
        started.append(name)
        job.close()

    monkeypatch.setattr(served.shard, "start_job", start_job)
    return started


async def test_a_refused_join_of_a_new_group_starts_nothing_bnd_23(monkeypatch):
    async with world(foo=1) as made:
        await made.cluster_configs(group_share_max_groups="1")
        await made.joined("m", ["foo"], group="g0")
        started = started_jobs(made, monkeypatch)
        [served] = made.service.served
        for number in range(3):
            refused = await made.hb(f"m{number}", 0, ["foo"], group=f"random {number}")
            assert refused.error_code == ErrorCode.INVALID_REQUEST
            assert not served._timers.running(f"random {number}", f"m{number}")
        assert started == []


async def test_a_replaced_coordinator_does_not_say_that_there_are_too_many_groups_bnd_23():
    async with world(foo=1) as made:
        await made.cluster_configs(group_share_max_groups="1")
        await made.joined("m", ["foo"], group="g0")
        taker = await made.logs.open("group", 0, made.epoch + 1)
        answer = await made.hb("m1", 0, ["foo"], group="g1")
        assert answer.error_code == ErrorCode.NOT_COORDINATOR
        await taker.close()


async def test_a_join_that_the_shard_has_no_room_for_starts_nothing(monkeypatch):
    async with world(foo=1, bar=1) as made:
        await made.joined("m", ["foo"])
        monkeypatch.setattr("sharemesh.domain.share_group.shard.MAX_MEMBERS_BYTES", 500)
        started = started_jobs(made, monkeypatch)
        refused = await made.hb("m1", 0, ["bar"])
        assert refused.error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
        assert not made.service.served[0]._timers.running("g", "m1")
        assert started == []


async def test_that_new_groups_are_refused_is_logged_once_bnd_23(caplog):
    async with world(foo=1) as made:
        await made.cluster_configs(group_share_max_groups="1")
        await made.hb("m", 0, ["foo"], group="g0")
        for number in range(5):
            await made.hb("m", 0, ["foo"], group=f"g{number}")
    said = [each.message for each in caplog.records if "new groups are refused" in each.message]
    assert len(said) == 1
    assert "1 groups, the most is 1 (group.share.max.groups); delete groups" in said[0]


async def test_a_lower_bound_ends_no_group_bnd_23():
    async with world(group_shards=2, foo=1) as made:
        for number in range(3):
            await made.hb("m", 0, ["foo"], group=f"g{number}")
        await made.cluster_configs(group_share_max_groups="1")
        await made.start(shards=range(2))
        for number in range(3):
            assert (await made.hb("m", 0, ["foo"], group=f"g{number}")).error_code == 0


async def test_settings_of_groups_that_do_not_exist_are_bounded_bnd_23():
    async with world(group_shards=2, foo=1) as made:
        await made.cluster_configs(group_share_max_groups="3")
        for group in ("a", "b", "c"):
            assert (await configured(made, group)).error_code == 0
        for validate_only in (True, False):
            refused = await configured(made, "d", validate_only=validate_only)
            assert refused.error_code == ErrorCode.INVALID_REQUEST
            assert "3 groups of this coordinator have settings" in refused.error_message
        assert not made.view.group_config_entries("d")
        assert (await configured(made, "a", "51000")).error_code == 0
        assert (await made.hb("m", 0, ["foo"], group="b")).error_code == 0
        assert (await configured(made, "d")).error_code == 0  # b exists now
        assert (await configured(made, "c", None)).error_code == 0
        assert (await configured(made, "e")).error_code == 0


async def test_taking_back_settings_that_no_group_has_is_no_error_at_the_bound_bnd_23():
    async with world(foo=1) as made:
        await made.cluster_configs(group_share_max_groups="1")
        assert (await configured(made, "a")).error_code == 0
        assert (await configured(made, "b", None)).error_code == 0
        assert (await configured(made, "b")).error_code == ErrorCode.INVALID_REQUEST


async def test_settings_that_are_stored_at_once_are_bounded_together_bnd_23():
    async with world(foo=1) as made:
        await made.cluster_configs(group_share_max_groups="3")
        answers = await asyncio.gather(*(configured(made, f"g{number}") for number in range(20)))
        stored = [number for number, answer in enumerate(answers) if not answer.error_code]
        assert len(stored) == len(made.view.configured_groups()) == 3


async def test_an_empty_group_stays_however_long_it_is_empty_bnd_23():
    async with world(foo=1) as made:
        await made.joined("m1", ["foo"])
        await made.hb("m1", -1)
        await made.stop()  # or a year of its timers would pass
        await made.clock.advance(400 * DAY_MS)
        await made.start()
        await made.clock.advance(HOUR_MS)
        assert (await made.describe()).group_state == "Empty"


async def test_a_hundred_thousand_rows_are_answered_in_slices_bnd_20():
    async with world(foo=1) as made:
        made.rules.denied.add(("describe", "topic", "hidden"))
        request = pb.DescribeShareGroupOffsetsRequest()
        for name in ("hidden", "nowhere"):
            topics = request.groups.add(group_id="g").topics.topics
            topics.add(topic_name=name, partitions=range(49_000))
        await holds_no_turn(lambda: made.call(methods.DESCRIBE_SHARE_GROUP_OFFSETS, request))


async def test_states_of_many_batches_are_read_in_slices_or_refused_bnd_20():
    async with world(foo=8) as made:
        request = pb.AlterShareGroupOffsetsRequest(group_id="g")
        batches = [StateBatch(first_offset=n, last_offset=n) for n in range(100_000)]
        listed = request.topics.add(topic_name="foo").partitions
        listed.add(partition=0, start_offset=0, state_batches=batches)
        for number in range(1, 5):
            listed.add(partition=number, start_offset=-1, state_batches=batches[:20_000])
        answers = []

        async def altered():
            answers.append(await made.call(methods.ALTER_SHARE_GROUP_OFFSETS, request))

        await holds_no_turn(altered)
        first, *others = answers[0].topics[0].partitions
        assert "100000 state batches exceed the 20000 of one write" in first.error_message
        assert {each.error_code for each in others} == {ErrorCode.INVALID_REQUEST}


async def test_what_is_stored_of_one_topic_is_asked_for_in_slices_bnd_20(monkeypatch):
    async with world(foo=10_000) as made:
        await made.joined("m1", ["foo"])
        await made.hb("m1", -1)
        turns = Turns(made.clock, monkeypatch)
        turns.count(made.states, "read_summary")
        request = pb.DescribeShareGroupOffsetsRequest()
        request.groups.add(group_id="g")
        answer = await made.call(methods.DESCRIBE_SHARE_GROUP_OFFSETS, request)
        assert len(answer.groups[0].topics[0].partitions) == 10_000
        assert turns.total == 10_000
        assert turns.most <= UNITS_OF_A_SLICE


async def test_new_offsets_of_one_topic_are_read_in_slices_bnd_20(monkeypatch):
    async with world(foo=1) as made:
        request = pb.AlterShareGroupOffsetsRequest(group_id="g")
        topic = request.topics.add(topic_name="foo")
        for number in range(10_000):
            topic.partitions.add(partition=number, start_offset=5)
        turns = Turns(made.clock, monkeypatch)
        turns.count(offset_admin, "AlteredOffset")
        answer = await made.call(methods.ALTER_SHARE_GROUP_OFFSETS, request)
        assert len(answer.topics[0].partitions) == turns.total == 10_000
        assert turns.most <= UNITS_OF_A_SLICE
