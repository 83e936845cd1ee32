"""The Admin service: what it finds, creates and refuses (spec ERR, ACL)."""

import asyncio

import pytest

from sharemesh import methods
from sharemesh.cluster.store.records import (
    AssignmentState,
    PartitionAssignment,
    encode_assignment,
)
from sharemesh.cluster.store.seen_records import encode_damage
from sharemesh.domain.errors import ErrorCode
from sharemesh.domain.ids import (
    MAX_GROUP_ID_CHARS,
    GroupId,
    NodeId,
    SharePartitionKey,
    TopicPartition,
    format_key,
)
from sharemesh.ports.authorizer import CLUSTER_NAME
from sharemesh.ports.cluster import ShardKind
from sharemesh.ports.coordination import Put
from sharemesh.ports.network import CallFailedError, Failure
from sharemesh.v1 import admin_pb2 as pb
from tests.admin.world import World

TOPIC = pb.CONFIG_RESOURCE_TYPE_TOPIC
CLUSTER = pb.CONFIG_RESOURCE_TYPE_CLUSTER


@pytest.fixture
async def world(monkeypatch):
    monkeypatch.setattr("sharemesh.admin.topics.LEADERS_WAIT_MS", 2_000)
    world = await World().start()
    yield world
    await world.stop()


async def create(world, *topics: tuple[str, int], validate_only: bool = False, **configs: str):
    request = pb.CreateTopicsRequest(validate_only=validate_only)
    for name, partitions in topics:
        request.topics.add(name=name, partitions=partitions, configs=configs)
    return (await world.call(methods.CREATE_TOPICS, request)).topics


async def test_api_versions_name_every_method_and_the_feature_level(world) -> None:
    answer = await world.call(methods.API_VERSIONS)
    versions = {each.method: (each.min_version, each.max_version) for each in answer.methods}
    assert set(versions) == {method.name for method in methods.METHODS}
    assert versions["ShareLeader/ShareFetch"] == (1, 2)
    assert versions["ShareLeader/ShareAcknowledge"] == (1, 2)
    assert {bounds for name, bounds in versions.items() if "/Share" not in name} == {(1, 1)}
    assert [(each.name, each.level) for each in answer.features] == [("share.version", 1)]
    assert answer.server_version


async def test_created_topic_has_leaders_when_the_answer_comes(world) -> None:
    await world.register("a")
    (topic,) = await create(world, ("orders", 3))
    assert (topic.error_code, topic.partitions, len(topic.topic_id)) == (0, 3, 16)
    answer = await world.call(methods.METADATA)
    (found,) = answer.topics
    assert (found.name, found.topic_id) == ("orders", topic.topic_id)
    assert [(p.partition, p.leader_id, p.leader_epoch) for p in found.partitions] == [
        (0, "a", 3),
        (1, "a", 3),
        (2, "a", 3),
    ]
    assert [(n.node_id, n.host, n.port) for n in answer.nodes] == [("a", "127.0.0.1", 7)]


async def test_create_answers_after_a_bound_although_nobody_leads(world, monkeypatch) -> None:
    monkeypatch.setattr("sharemesh.admin.topics.LEADERS_WAIT_MS", 50)
    (topic,) = await create(world, ("orders", 1))
    assert topic.error_code == 0
    await world.view.wait_for(lambda: bool(world.view.topics()), timeout_ms=2_000)
    answer = await world.call(methods.METADATA)
    (partition,) = answer.topics[0].partitions
    assert partition.error_code == ErrorCode.LEADER_NOT_AVAILABLE
    assert (partition.leader_id, partition.leader_epoch) == ("", -1)
    cluster = await world.call(methods.DESCRIBE_CLUSTER)
    (gap,) = cluster.unassigned
    assert (gap.topic_name, gap.partition) == ("orders", 0)
    assert gap.reason


@pytest.mark.parametrize(
    ("name", "partitions", "configs", "error"),
    [
        ("", 1, {}, ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("a b", 1, {}, ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("x" * 250, 1, {}, ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("a", 0, {}, ErrorCode.INVALID_PARTITIONS),
        ("a", 10_001, {}, ErrorCode.INVALID_PARTITIONS),
        ("a", 1, {"retention.mss": "1"}, ErrorCode.INVALID_CONFIG),
        ("a", 1, {"retention.ms": "soon"}, ErrorCode.INVALID_CONFIG),
    ],
)
async def test_refused_topic_says_why_and_others_are_created(
    world, name, partitions, configs, error
) -> None:
    await world.register("a")
    request = pb.CreateTopicsRequest()
    request.topics.add(name=name, partitions=partitions, configs=configs)
    request.topics.add(name="good", partitions=1)
    bad, good = (await world.call(methods.CREATE_TOPICS, request)).topics
    assert bad.error_code == error
    assert bad.error_message
    assert good.error_code == 0
    assert [topic.name for topic in world.view.topics()] == ["good"]


async def test_existing_and_doubled_names_are_refused(world) -> None:
    await world.register("a")
    await create(world, ("orders", 1))
    again, one, other = await create(world, ("orders", 1), ("new", 1), ("new", 2))
    assert again.error_code == ErrorCode.TOPIC_ALREADY_EXISTS
    assert one.error_code == other.error_code == ErrorCode.INVALID_REQUEST


async def test_validate_only_changes_nothing(world) -> None:
    (topic,) = await create(world, ("orders", 1), validate_only=True)
    assert topic.error_code == 0
    assert not world.view.topics()
    assert await world.coordination.get(world.view.keys.topic("orders")) is None


async def test_partitions_only_grow(world) -> None:
    await world.register("a")
    await create(world, ("orders", 2))
    for total, error in ((4, 0), (4, 37), (3, 37)):
        request = pb.CreatePartitionsRequest(topics=[pb.NewPartitions(name="orders", total=total)])
        (result,) = (await world.call(methods.CREATE_PARTITIONS, request)).topics
        assert result.error_code == error
    answer = await world.call(methods.METADATA)
    assert [each.leader_id for each in answer.topics[0].partitions] == ["a"] * 4


async def test_partitions_that_are_only_checked_are_not_added(world) -> None:
    await create(world, ("orders", 2))
    for total, error in ((4, 0), (2, 37)):
        request = pb.CreatePartitionsRequest(
            topics=[pb.NewPartitions(name="orders", total=total)], validate_only=True
        )
        (result,) = (await world.call(methods.CREATE_PARTITIONS, request)).topics
        assert result.error_code == error
    assert world.view.topic_named("orders").partitions == 2


async def test_deleted_topic_is_gone_when_the_answer_comes(world) -> None:
    await world.register("a")
    await create(world, ("orders", 1))
    gone, unknown = (await world.call(methods.DELETE_TOPICS, names=["orders", "other"])).topics
    assert gone.error_code == 0
    assert unknown.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    answer = await world.call(
        methods.METADATA, pb.MetadataRequest(topics=pb.TopicNames(names=["orders"]))
    )
    assert answer.topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_metadata_of_no_topics_is_only_nodes(world) -> None:
    await world.register("a")
    await create(world, ("orders", 1))
    answer = await world.call(methods.METADATA, pb.MetadataRequest(topics=pb.TopicNames()))
    assert not answer.topics
    assert len(answer.nodes) == 1


async def test_find_coordinator_by_group_and_by_share_partition(world) -> None:
    await world.register("a")
    await world.register("b")
    group_shard = world.view.group_shard(GroupId("g"))
    key = SharePartitionKey(GroupId("g"), b"0123456789abcdef", 1)
    await world.elect("a", ShardKind.GROUP, group_shard)
    await world.elect("b", ShardKind.STATE, world.view.share_shard(key))
    (found,) = (await world.call(methods.FIND_COORDINATOR, keys=["g"])).coordinators
    assert (found.error_code, found.node.node_id, found.shard) == (0, "a", group_shard)
    request = pb.FindCoordinatorRequest(
        key_type=pb.COORDINATOR_KEY_TYPE_SHARE, keys=[format_key(key), "nonsense"]
    )
    found, bad = (await world.call(methods.FIND_COORDINATOR, request)).coordinators
    assert (found.error_code, found.node.node_id) == (0, "b")
    assert bad.error_code == ErrorCode.INVALID_REQUEST


async def test_shard_between_coordinators_is_retriable_and_empty_groups_are_not(world) -> None:
    between, empty = (await world.call(methods.FIND_COORDINATOR, keys=["g", ""])).coordinators
    assert between.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert empty.error_code == ErrorCode.INVALID_GROUP_ID


async def test_a_group_is_found_under_the_longest_id_that_every_service_takes(world) -> None:
    await world.register("a")
    longest = "g" * MAX_GROUP_ID_CHARS
    await world.elect("a", ShardKind.GROUP, world.view.group_shard(longest))
    keys = [longest, longest + "g"]
    found, longer = (await world.call(methods.FIND_COORDINATOR, keys=keys)).coordinators
    assert (found.error_code, found.node.node_id) == (0, "a")
    assert longer.error_code == ErrorCode.INVALID_GROUP_ID
    assert str(MAX_GROUP_ID_CHARS) in longer.error_message


async def test_describe_cluster_shows_members_shards_and_what_they_lead(world) -> None:
    await world.register("a")
    await create(world, ("orders", 2))
    await world.elect("a", ShardKind.GROUP, 1)
    answer = await world.call(methods.DESCRIBE_CLUSTER)
    (member,) = answer.members
    assert (member.node.node_id, member.pid, member.led_partitions) == ("a", 42, 2)
    assert {each.election: each.leader_id for each in answer.shards} == {
        "group-0": "",
        "group-1": "a",
        "state-0": "",
        "state-1": "",
    }


async def test_describe_cluster_tells_why_a_shard_has_no_leader(world) -> None:
    def reasons(answer):
        return {each.election: each.reason for each in answer.shards}

    told = reasons(await world.call(methods.DESCRIBE_CLUSTER))
    assert told["group-0"] == "no group-coordinator process is registered; start one"
    await world.register("a")
    await world.elect("a", ShardKind.STATE, 0)
    told = reasons(await world.call(methods.DESCRIBE_CLUSTER))
    assert told["state-0"] == ""
    assert told["state-1"] == "it is being elected, or its log loads"
    for each in ("state-0", "state-1"):
        await world.write(
            Put(world.view.keys.damaged_log(each), encode_damage("offset 7 is gone")),
            until=lambda each=each: each in world.view.tables.damages,
        )
    told = reasons(await world.call(methods.DESCRIBE_CLUSTER))
    assert told["state-1"] == "offset 7 is gone"  # STL-30
    assert told["state-0"] == ""  # somebody takes it over again


async def test_describe_cluster_shows_moves_and_on_request_every_partition(world) -> None:
    await world.register("a")
    await create(world, ("orders", 2))
    await world.register("b")
    (topic,) = world.view.topics()
    partition = TopicPartition(topic.topic_id, 1)
    named = PartitionAssignment(NodeId("b"), (NodeId("a"),), 3, AssignmentState.MOVING)
    await world.put(Put(world.view.keys.assignment(partition), encode_assignment(named)))
    assert await world.view.wait_for(lambda: bool(world.view.moves()), timeout_ms=5_000)
    answer = await world.call(methods.DESCRIBE_CLUSTER)
    (move,) = answer.moves
    assert (move.topic_name, move.partition, move.leader_epoch) == ("orders", 1, 3)
    assert (move.from_node_id, move.to_node_id) == ("a", "b")
    assert not answer.partitions
    answer = await world.call(methods.DESCRIBE_CLUSTER, partitions=True)
    shown = [
        (e.partition.partition, e.partition.leader_id, e.partition.leader_epoch)
        for e in answer.partitions
    ]
    assert shown == [(0, "a", 3), (1, "a", 3)]
    assert list(answer.partitions[1].partition.standbys) == ["a"]


async def test_metadata_waits_for_a_newer_leader_and_not_longer_than_told(world) -> None:
    await world.register("a")
    await create(world, ("orders", 2))
    (topic,) = world.view.topics()

    async def metadata(*awaited, wait_ms):
        return await world.call(
            methods.METADATA,
            pb.MetadataRequest(
                topics=pb.TopicNames(names=["orders"]),
                awaited=[
                    pb.AwaitedLeader(topic_id=topic.topic_id, partition=n, above_leader_epoch=epoch)
                    for n, epoch in awaited
                ],
                max_wait_ms=wait_ms,
            ),
        )

    at_once = await metadata((0, 2), (1, 3), wait_ms=60_000)  # 0 is led in 3 already
    assert [each.leader_epoch for each in at_once.topics[0].partitions] == [3, 3]
    nothing_new = await metadata((0, 3), (1, 3), wait_ms=1)
    assert [each.leader_epoch for each in nothing_new.topics[0].partitions] == [3, 3]
    waiting = asyncio.create_task(metadata((0, 3), (1, 3), wait_ms=60_000))
    await world.put(world.claimed(TopicPartition(topic.topic_id, 1), NodeId("a"), 4))
    told = await asyncio.wait_for(waiting, 1.5)  # the bound of a wait is 2 s
    assert [each.leader_epoch for each in told.topics[0].partitions] == [3, 4]
    with pytest.raises(CallFailedError, match="await at most 1000"):
        await metadata(*((0, 3) for _ in range(1_001)), wait_ms=1)


async def test_topic_settings_are_described_altered_and_reset(world) -> None:
    await world.register("a")
    await create(world, ("orders", 1), **{"retention.ms": "5000"})
    resource = pb.ConfigResource(type=TOPIC, name="orders")

    async def value() -> tuple[str, str]:
        request = pb.DescribeConfigsRequest(resources=[resource])
        (result,) = (await world.call(methods.DESCRIBE_CONFIGS, request)).results
        return next((e.value, e.source) for e in result.configs if e.name == "retention.ms")

    assert await value() == ("5000", "topic")
    for change, expected in (
        (pb.AlterConfig(name="retention.ms", value="6000"), ("6000", "topic")),
        (pb.AlterConfig(name="retention.ms"), ("604800000", "default")),
    ):
        request = pb.AlterConfigsRequest(resource=resource, configs=[change])
        assert (await world.call(methods.ALTER_CONFIGS, request)).error_code == 0
        stored = expected[0] if expected[1] == "topic" else None
        await world.view.wait_for(
            lambda stored=stored: (
                world.view.topic_named("orders").configs.get("retention.ms") == stored
            ),
            timeout_ms=2_000,
        )
        assert await value() == expected


async def test_cluster_settings_are_all_or_nothing_and_checked_together(world) -> None:
    resource = pb.ConfigResource(type=CLUSTER)
    bad = pb.AlterConfigsRequest(
        resource=resource,
        configs=[
            pb.AlterConfig(name="group.share.max.size", value="7"),
            pb.AlterConfig(name="group.share.heartbeat.interval.ms", value="50000"),
        ],
    )
    answer = await world.call(methods.ALTER_CONFIGS, bad)
    assert answer.error_code == ErrorCode.INVALID_CONFIG
    assert "heartbeat" in answer.error_message
    assert not world.view.cluster_configs()
    good = pb.AlterConfigsRequest(resource=resource, configs=bad.configs[:1])
    good.validate_only = True
    assert (await world.call(methods.ALTER_CONFIGS, good)).error_code == 0
    assert await world.coordination.get(world.view.keys.cluster_configs) is None
    good.validate_only = False
    assert (await world.call(methods.ALTER_CONFIGS, good)).error_code == 0
    assert await world.view.wait_for(
        lambda: world.view.cluster_configs() == {"group.share.max.size": "7"}, timeout_ms=2_000
    )


async def test_settings_of_unknown_things_are_refused(world) -> None:
    request = pb.DescribeConfigsRequest()
    request.resources.add(type=TOPIC, name="none")
    request.resources.add(name="unspecified")
    unknown, unspecified = (await world.call(methods.DESCRIBE_CONFIGS, request)).results
    assert unknown.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert unspecified.error_code == ErrorCode.INVALID_REQUEST
    doubled = pb.AlterConfigsRequest(resource=pb.ConfigResource(type=CLUSTER))
    doubled.configs.add(name="group.share.max.size", value="7")
    doubled.configs.add(name="group.share.max.size", value="8")
    answer = await world.call(methods.ALTER_CONFIGS, doubled)
    assert answer.error_code == ErrorCode.INVALID_REQUEST


async def test_who_may_not_is_refused_and_sees_nothing(world) -> None:
    await world.register("a")
    await create(world, ("secret", 1), ("open", 1))
    world.rules.denied |= {
        ("describe", "topic", "secret"),
        ("delete", "topic", "open"),
        ("create", "cluster", CLUSTER_NAME),
        ("create", "topic", "new"),
        ("alter", "topic", "open"),
        ("alter_configs", "cluster", CLUSTER_NAME),
        ("describe", "group", "g"),
        ("cluster_action", "cluster", CLUSTER_NAME),
    }
    assert [topic.name for topic in (await world.call(methods.METADATA)).topics] == ["open"]
    described = (await world.call(methods.DESCRIBE_TOPICS, names=["secret"])).topics
    assert described[0].error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    deleted = (await world.call(methods.DELETE_TOPICS, names=["open"])).topics
    assert deleted[0].error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert (await create(world, ("new", 1)))[0].error_code == 29
    grow = pb.CreatePartitionsRequest(topics=[pb.NewPartitions(name="open", total=2)])
    assert (await world.call(methods.CREATE_PARTITIONS, grow)).topics[0].error_code == 29
    alter = pb.AlterConfigsRequest(resource=pb.ConfigResource(type=CLUSTER))
    assert (await world.call(methods.ALTER_CONFIGS, alter)).error_code == 31
    found = (await world.call(methods.FIND_COORDINATOR, keys=["g"])).coordinators
    assert found[0].error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED
    share = pb.FindCoordinatorRequest(key_type=pb.COORDINATOR_KEY_TYPE_SHARE, keys=["x"])
    found = (await world.call(methods.FIND_COORDINATOR, share)).coordinators
    assert found[0].error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED


async def test_too_much_in_one_request_is_refused_as_a_whole(world) -> None:
    with pytest.raises(CallFailedError, match="at most 100") as caught:
        await create(world, *((f"t{number}", 1) for number in range(101)))
    assert caught.value.failure is Failure.INVALID_ARGUMENT
    with pytest.raises(CallFailedError, match="at most 10000"):
        await world.call(methods.FIND_COORDINATOR, keys=[str(n) for n in range(10_001)])
    assert not world.view.topics()


async def test_store_that_does_not_answer_is_told_and_reads_go_on(world) -> None:
    await world.register("a")
    await create(world, ("orders", 1))
    world.coordination.cut_off = True
    (topic,) = await create(world, ("more", 1))
    assert topic.error_code == ErrorCode.REQUEST_TIMED_OUT
    assert "before you repeat" in topic.error_message
    assert [each.name for each in (await world.call(methods.METADATA)).topics] == ["orders"]
    world.coordination.cut_off = False
