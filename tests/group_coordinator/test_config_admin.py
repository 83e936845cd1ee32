"""Settings of groups over the network port: spec CFG-20, CFG-41, ACL-11."""

from sharemesh import methods
from sharemesh.domain.errors import ErrorCode
from sharemesh.domain.ids import MAX_GROUP_ID_CHARS
from sharemesh.v1 import group_coordinator_pb2 as pb
from tests.group_coordinator.world import world


async def alter(made, group="g", *, validate_only=False, **entries):
    request = pb.AlterGroupConfigsRequest(group_id=group, validate_only=validate_only)
    for name, value in entries.items():
        request.configs.add(name=name.replace("_", "."), value=value)
    return await made.call(methods.ALTER_GROUP_CONFIGS, request)


async def described(made, group="g"):
    request = pb.DescribeGroupConfigsRequest(group_ids=[group])
    [result] = (await made.call(methods.DESCRIBE_GROUP_CONFIGS, request)).results
    assert result.error_code == 0
    return {each.name: (each.value, each.source) for each in result.configs}


async def test_settings_are_stored_and_in_force_when_answered():
    async with world() as made:
        assert (await alter(made, share_session_timeout_ms="50000")).error_code == 0
        assert made.view.group_config("g").session_timeout_ms == 50_000
        assert (await alter(made, share_heartbeat_interval_ms="10000")).error_code == 0
        configs = await described(made)
        assert configs["share.session.timeout.ms"] == ("50000", "group")
        assert configs["share.heartbeat.interval.ms"] == ("10000", "group")
        assert configs["share.record.lock.duration.ms"] == ("30000", "default")


async def test_a_description_says_that_the_group_is_paused():
    """PAU-4."""
    async with world() as made:
        await made.hb("m1", 0, ["foo"])
        assert not (await made.describe()).paused
        await alter(made, share_paused="true")
        assert (await made.describe()).paused


async def test_an_absent_value_goes_back_to_the_default():
    async with world() as made:
        await alter(made, share_isolation_level="read_committed")
        request = pb.AlterGroupConfigsRequest(group_id="g")
        request.configs.add(name="share.isolation.level")
        assert (await made.call(methods.ALTER_GROUP_CONFIGS, request)).error_code == 0
        assert (await described(made))["share.isolation.level"] == ("read_uncommitted", "default")


async def test_nothing_changes_when_one_of_several_is_wrong_or_only_validated():
    async with world() as made:
        response = await alter(
            made, share_session_timeout_ms="50000", share_delivery_count_limit="1"
        )
        assert response.error_code == ErrorCode.INVALID_CONFIG
        assert "share.delivery.count.limit" in response.error_message
        response = await alter(made, share_session_timeout_ms="50000", validate_only=True)
        assert response.error_code == 0
        assert made.view.group_config_entries("g") == {}


async def test_an_unknown_name_is_answered_with_the_nearest_one():
    async with world() as made:
        response = await alter(made, share_session_timeout="50000")
        assert response.error_code == ErrorCode.INVALID_CONFIG
        assert "did you mean share.session.timeout.ms?" in response.error_message


async def test_dead_letter_settings_are_not_in_this_version():
    async with world() as made:
        response = await alter(made, errors_deadletterqueue_topic_name="dlq.x")
        assert response.error_code == ErrorCode.INVALID_CONFIG
        assert "not in this version" in response.error_message


async def test_permissions_are_checked():
    async with world() as made:
        made.rules.denied = {("alter_configs", "group", "g"), ("describe_configs", "group", "g")}
        refused = ErrorCode.GROUP_AUTHORIZATION_FAILED
        assert (await alter(made, share_session_timeout_ms="50000")).error_code == refused
        request = pb.DescribeGroupConfigsRequest(group_ids=["g"])
        [result] = (await made.call(methods.DESCRIBE_GROUP_CONFIGS, request)).results
        assert result.error_code == refused


async def test_settings_change_interval_and_session_of_a_running_group():
    async with world(foo=1) as made:
        answer = await made.joined("m1", ["foo"])
        await alter(made, share_session_timeout_ms="50000", share_heartbeat_interval_ms="10000")
        answer = await made.hb("m1", answer.member_epoch)
        assert answer.heartbeat_interval_ms == 10_000
        await made.clock.advance(49_999)
        assert "m1" in made.service.served[0].decisions.group("g").members
        await made.clock.advance(2)
        await made.until(lambda: "m1" not in made.service.served[0].decisions.group("g").members)


async def test_only_the_coordinator_of_the_group_answers():
    async with world() as made:
        await made.service.stop_shard(0)
        answer = await alter(made, share_session_timeout_ms="50000")
        assert answer.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        await made.elect("gc-2")
        for validate_only in (True, False):
            answer = await alter(
                made, validate_only=validate_only, share_session_timeout_ms="50000"
            )
            assert answer.error_code == ErrorCode.NOT_COORDINATOR
            assert "gc-2" in answer.error_message
        assert await made.coordination.get(made.view.keys.group_config("g")) is None


async def test_a_group_id_longer_than_any_group_has_is_refused_and_not_stored():
    async with world() as made:
        longest, longer = "x" * MAX_GROUP_ID_CHARS, "x" * (MAX_GROUP_ID_CHARS + 1)
        assert (await alter(made, longest, share_session_timeout_ms="50000")).error_code == 0
        for group in ("", longer):
            answer = await alter(made, group, share_session_timeout_ms="50000")
            assert answer.error_code == ErrorCode.INVALID_GROUP_ID
            assert await made.coordination.get(made.view.keys.group_config(group)) is None
