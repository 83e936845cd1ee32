"""Section T: settings, and permissions of the group coordinator's requests."""

import pytest

from sharemesh import methods
from sharemesh.domain.errors import ErrorCode, RefusedError
from sharemesh.domain.group_config.evaluate import (
    check_cluster_configs,
    check_group_configs,
    effective_group_config,
)
from sharemesh.v1 import group_coordinator_pb2 as pb
from tests.conformance.scenario import scenario
from tests.conformance.scene import Scene
from tests.group_coordinator.world import world


def invalid(call, *args):
    with pytest.raises(RefusedError) as caught:
        call(*args)
    return caught.value.error is ErrorCode.INVALID_CONFIG


@scenario("CFG-S01")
def test_settings_that_a_cluster_does_not_start_with():
    for entries in (
        {"record.lock.duration.ms": 10_000},
        {"record.lock.duration.ms": 70_000},
        {"min.record.lock.duration.ms": 20_000, "record.lock.duration.ms": 15_000},
        {"delivery.count.limit": 1},
        {"delivery.count.limit": 11},
        {"partition.max.record.locks": 99},
        {"partition.max.record.locks": 10_001},
        {"max.share.sessions": 100},
        {"heartbeat.interval.ms": 45_000},
    ):
        named = {f"group.share.{name}": str(value) for name, value in entries.items()}
        assert invalid(check_cluster_configs, named), entries


@scenario("CFG-S02")
async def test_settings_that_a_group_may_not_have():
    async with world() as made:
        for name, value in (
            ("share.record.lock.duration.ms", "10000"),
            ("share.record.lock.duration.ms", "70000"),
            ("share.session.timeout.ms", "1"),
            ("share.session.timeout.ms", "70000"),
            ("share.heartbeat.interval.ms", "1"),
            ("share.heartbeat.interval.ms", "70000"),
            ("share.isolation.level", "bad"),
            ("share.auto.offset.reset", "by_duration:-PT1H"),
            ("share.auto.offset.reset", "by_duration:x"),
            ("errors.deadletterqueue.topic.name", "__x"),
        ):
            assert invalid(check_group_configs, {name: value}, {}, {})
            request = pb.AlterGroupConfigsRequest(group_id="g")
            request.configs.add(name=name, value=value)
            answer = await made.call(methods.ALTER_GROUP_CONFIGS, request)
            assert answer.error_code == ErrorCode.INVALID_CONFIG, name
        assert made.view.group_config_entries("g") == {}


@scenario("CFG-S03")
def test_stored_values_outside_the_range_are_clamped():
    for name, field, low, high in (
        ("record.lock.duration.ms", "record_lock_duration_ms", (10_000, 15_000), (70_000, 60_000)),
        ("delivery.count.limit", "delivery_count_limit", (1, 2), (15, 10)),
        ("partition.max.record.locks", "partition_max_record_locks", (50, 100), (5_000, 4_000)),
    ):
        for stored, used in (low, high):
            config = effective_group_config({f"share.{name}": str(stored)}, {})
            assert getattr(config, field) == used


@scenario("CFG-S05")
def test_the_in_flight_limit_of_a_group_changes_without_restart():
    def limit(text):
        entries = check_group_configs({"share.partition.max.record.locks": text}, {}, {})
        return effective_group_config(entries, {}).partition_max_record_locks

    assert effective_group_config({}, {}).partition_max_record_locks == 2_000
    scene = Scene(max_in_flight=limit("100"))
    scene.acquired(*(f"{offset}-{offset}" for offset in range(99)))
    assert scene.machine.can_acquire()
    scene.acquired("99-99")
    assert not scene.machine.can_acquire()
    scene.configure(partition_max_record_locks=limit("500"))
    assert scene.machine.can_acquire()


def describe_offsets(group="g"):
    asked = pb.DescribeShareGroupOffsetsGroup(group_id=group)
    asked.topics.topics.add(topic_name="a", partitions=[0])
    return pb.DescribeShareGroupOffsetsRequest(groups=[asked])


def alter_offsets():
    request = pb.AlterShareGroupOffsetsRequest(group_id="g")
    request.topics.add(topic_name="a").partitions.add(partition=0, start_offset=1)
    return request


def topic_error(response):
    [topic] = response.topics
    return topic.error_code or topic.partitions[0].error_code


def only_group(response):
    [group] = response.groups
    return group.error_code


def only_result(response):
    [result] = response.results
    return result.error_code


def described_partition(response):
    [group] = response.groups
    [topic] = group.topics
    return topic.partitions[0].error_code


@scenario("ACL-S01")
async def test_permissions_of_the_group_coordinators_requests():
    async with world(a=1) as made:
        join = pb.ShareGroupHeartbeatRequest(group_id="g", member_id="m1", member_epoch=0)
        join.subscribed_topic_names.names.append("a")
        alter_config = pb.AlterGroupConfigsRequest(group_id="g")
        alter_config.configs.add(name="share.isolation.level", value="read_committed")
        delete_offsets = pb.DeleteShareGroupOffsetsRequest(group_id="g", topic_names=["a"])
        top = lambda response: response.error_code  # noqa: E731
        group, topic = ("group", "g"), ("topic", "a")
        for method, request, needs, error, at in (
            (methods.SHARE_GROUP_HEARTBEAT, join, ("read", *group), 30, top),
            (methods.SHARE_GROUP_HEARTBEAT, join, ("describe", *topic), 29, top),
            (methods.SHARE_GROUP_HEARTBEAT, join, None, 0, top),
            (
                methods.SHARE_GROUP_DESCRIBE,
                pb.ShareGroupDescribeRequest(group_ids=["g"]),
                ("describe", *group),
                30,
                only_group,
            ),
            (
                methods.DESCRIBE_SHARE_GROUP_OFFSETS,
                describe_offsets(),
                ("describe", *group),
                30,
                only_group,
            ),
            (
                methods.DESCRIBE_SHARE_GROUP_OFFSETS,
                describe_offsets(),
                ("describe", *topic),
                29,
                described_partition,
            ),
            (
                methods.ALTER_GROUP_CONFIGS,
                alter_config,
                ("alter_configs", *group),
                30,
                top,
            ),
            (
                methods.DESCRIBE_GROUP_CONFIGS,
                pb.DescribeGroupConfigsRequest(group_ids=["g"]),
                ("describe_configs", *group),
                30,
                only_result,
            ),
        ):
            made.rules.denied = {needs} if needs else set()
            assert at(await made.call(method, request)) == error, (method.name, needs)
            made.rules.denied = set()
            assert at(await made.call(method, request)) == 0, (method.name, needs)
        await made.until(lambda: made.service.served[0].decisions.group("g").initialized)
        await made.hb("m1", -1)
        delete_group = pb.DeleteGroupsRequest(group_ids=["g"])
        for method, request, needs, error, at in (
            (methods.ALTER_SHARE_GROUP_OFFSETS, alter_offsets(), ("read", *group), 30, top),
            (methods.ALTER_SHARE_GROUP_OFFSETS, alter_offsets(), ("read", *topic), 29, topic_error),
            (methods.DELETE_SHARE_GROUP_OFFSETS, delete_offsets, ("delete", *group), 30, top),
            (
                methods.DELETE_SHARE_GROUP_OFFSETS,
                delete_offsets,
                ("read", *topic),
                29,
                topic_error_code,
            ),
            (methods.DELETE_GROUPS, delete_group, ("delete", *group), 30, only_result),
        ):
            made.rules.denied = {needs}
            assert at(await made.call(method, request)) == error, (method.name, needs)
        made.rules.denied = {("describe", "cluster", "kafka-cluster"), ("describe", *group)}
        listing = await made.call(methods.LIST_GROUPS, pb.ListGroupsRequest())
        assert (listing.error_code, list(listing.groups)) == (0, [])
        for granted in ({("describe", "cluster", "kafka-cluster")}, {("describe", *group)}):
            made.rules.denied = granted
            listing = await made.call(methods.LIST_GROUPS, pb.ListGroupsRequest())
            assert [each.group_id for each in listing.groups] == ["g"]
        made.rules.denied = set()
        for method, request, at in (
            (methods.ALTER_SHARE_GROUP_OFFSETS, alter_offsets(), topic_error),
            (methods.DELETE_SHARE_GROUP_OFFSETS, delete_offsets, topic_error_code),
            (methods.DELETE_GROUPS, delete_group, only_result),
        ):
            assert at(await made.call(method, request)) == 0, method.name


def topic_error_code(response):
    [topic] = response.topics
    return topic.error_code


@scenario("ACL-S02")
async def test_partial_permission_refuses_the_whole():
    async with world(a=1, b=1) as made:
        made.rules.denied = {("describe", "topic", "b")}
        assert (await made.hb("m1", 0, ["a", "b"])).error_code == 29
        made.rules.denied = set()
        await made.joined("m1", ["a", "b"])
        made.rules.denied = {("describe", "topic", "b")}
        group = await made.describe()
        assert (group.error_code, list(group.members)) == (29, [])
