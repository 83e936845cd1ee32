"""The watched view: what it reads, what it ignores, how it tells."""

import asyncio

import pytest

from sharemesh.cluster.store import records
from sharemesh.cluster.store.configs import (
    alter_cluster_configs,
    load_group_configs,
    store_group_configs,
    take_producer_ids,
)
from sharemesh.cluster.store.topics import (
    add_partitions,
    alter_topic_configs,
    create_topic,
    delete_topic,
)
from sharemesh.domain.errors import ErrorCode, RefusedError
from sharemesh.domain.ids import (
    GroupId,
    NodeId,
    SharePartitionKey,
    TopicId,
    TopicPartition,
    format_key,
    string_hash,
)
from sharemesh.ports.cluster import NodeInfo, Role
from sharemesh.ports.coordination import CoordinationError, Put
from tests.cluster.mesh import CLUSTER, Mesh, Node


@pytest.fixture
async def mesh():
    mesh = Mesh()
    await mesh.begin()
    yield mesh
    await mesh.close()


@pytest.fixture
async def view(mesh):
    node = await mesh.add("c", Role.CONTROLLER)
    return node.view


async def test_a_view_of_no_cluster_says_so():
    mesh = Mesh()
    node = Node(mesh, "a", ())
    with pytest.raises(CoordinationError, match="no cluster 'test'"):
        await node.view.start()
    await mesh.store.close()


async def test_members_are_read_with_all_their_fields(mesh, view):
    info = NodeInfo(
        NodeId("n/1"), "10.0.0.1", 9092, (Role.SHARE_LEADER,), "r1", "0.1", draining=True, pid=7
    )
    put = Put(view.keys.member(info.node_id), records.encode_member(info))
    await mesh.parent.commit([], [put])
    await mesh.settle()
    assert view.node(NodeId("n/1")) == info
    assert info in view.nodes()
    assert view.nodes_with(Role.SHARE_LEADER) == (info,)


async def test_unknown_fields_and_rooms_are_ignored_and_newer_formats_are_noted(mesh, view):
    prefix = view.keys.prefix
    good = b'{"v":1,"host":"h","port":1,"roles":["share-leader","oracle"],"shoe_size":42}'
    await mesh.parent.commit(
        [],
        [
            Put(f"{prefix}members/good", good),
            Put(f"{prefix}members/newer", b'{"v":2,"host":"h"}'),
            Put(f"{prefix}members/broken", b"{"),
            Put(f"{prefix}assign/nonsense", b'{"v":1}'),
            Put(f"{prefix}weather/today", b"rain"),
        ],
    )
    await mesh.settle()
    assert view.node(NodeId("good")).roles == (Role.SHARE_LEADER,)
    assert view.node(NodeId("newer")) is None
    unreadable = view.tables.unreadable
    assert "upgrade this process" in unreadable[f"{prefix}members/newer"]
    assert "not JSON" in unreadable[f"{prefix}members/broken"]
    assert len(unreadable) == 3
    await mesh.parent.commit([], [Put(f"{prefix}members/broken", good)])
    await mesh.settle()
    assert len(unreadable) == 2


async def test_shards_of_groups_and_share_partitions_follow_javas_hash(mesh, view):
    assert view.group_shard(GroupId("hello")) == 99162322 % 8
    assert view.group_shard(GroupId("polygenelubricants")) == 0  # the hash is -2^31
    key = SharePartitionKey(GroupId("a:b"), TopicId(b"\1" * 16), 3)
    assert view.share_shard(key) == abs(string_hash(format_key(key))) % 8


async def test_changes_are_told_once_a_turn_and_waiters_wake(mesh, view):
    calls = []
    unsubscribe = view.on_change(lambda: calls.append(len(view.topics())))
    await create_topic(mesh.parent, view, "a", 1, {}, rng=mesh.rng)
    await mesh.settle()
    assert 1 in calls
    assert await view.wait_for(lambda: view.topic_named("a") is not None, timeout_ms=1)
    unsubscribe()
    count = len(calls)
    await create_topic(mesh.parent, view, "b", 1, {}, rng=mesh.rng)
    await mesh.settle()
    assert len(calls) == count


async def test_waiting_ends_at_its_time_out(mesh, view):
    waiting = asyncio.create_task(view.wait_for(lambda: False, timeout_ms=500))
    await mesh.settle(499)
    assert not waiting.done()
    await mesh.settle(1)
    assert await waiting is False


# ---- topics --------------------------------------------------------------------------------------


async def code_of(awaitable) -> ErrorCode:
    with pytest.raises(RefusedError) as refused:
        await awaitable
    return refused.value.error


async def test_topics_are_created_grown_configured_and_deleted(mesh, view):
    topic = await create_topic(
        mesh.parent, view, "orders", 2, {"retention.ms": "60000"}, rng=mesh.rng
    )
    assert len(topic.topic_id) == 16
    await mesh.settle()
    assert view.topic(topic.topic_id) == view.topic_named("orders") == topic
    grown = await add_partitions(mesh.parent, view, "orders", 5)
    assert grown.partitions == 5
    changed = await alter_topic_configs(
        mesh.parent, view, "orders", {"retention.ms": None, "segment.bytes": "1048576"}
    )
    assert changed.configs == {"segment.bytes": "1048576"}
    await mesh.settle()
    assert view.topics() == (changed,)
    assert len(view.unassigned()) == 5
    await delete_topic(mesh.parent, view, "orders")
    await mesh.settle()
    assert view.topics() == ()
    assert view.topic(topic.topic_id) is None
    again = await create_topic(mesh.parent, view, "orders", 1, {}, rng=mesh.rng)
    assert again.topic_id != topic.topic_id


async def test_bad_topics_are_refused_and_change_nothing(mesh, view):
    def create(name="x", partitions=1, configs=None):
        return create_topic(mesh.parent, view, name, partitions, configs or {}, rng=mesh.rng)

    await create("a.b")
    await mesh.settle()
    assert await code_of(create("a.b")) is ErrorCode.TOPIC_ALREADY_EXISTS
    assert await code_of(create("a_b")) is ErrorCode.INVALID_TOPIC_EXCEPTION
    assert await code_of(create("")) is ErrorCode.INVALID_TOPIC_EXCEPTION
    assert await code_of(create("..")) is ErrorCode.INVALID_TOPIC_EXCEPTION
    assert await code_of(create("a/b")) is ErrorCode.INVALID_TOPIC_EXCEPTION
    assert await code_of(create("ü")) is ErrorCode.INVALID_TOPIC_EXCEPTION
    assert await code_of(create("a" * 250)) is ErrorCode.INVALID_TOPIC_EXCEPTION
    assert await code_of(create(partitions=0)) is ErrorCode.INVALID_PARTITIONS
    assert await code_of(create(partitions=10_001)) is ErrorCode.INVALID_PARTITIONS
    assert await code_of(create(configs={"retention": "1"})) is ErrorCode.INVALID_CONFIG
    assert await code_of(create(configs={"retention.ms": "-2"})) is ErrorCode.INVALID_CONFIG
    assert await code_of(create(configs={"cleanup.policy": "compact"})) is ErrorCode.INVALID_CONFIG
    for missing in (
        delete_topic(mesh.parent, view, "nope"),
        add_partitions(mesh.parent, view, "nope", 2),
        alter_topic_configs(mesh.parent, view, "nope", {}),
    ):
        assert await code_of(missing) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    fewer = add_partitions(mesh.parent, view, "a.b", 1)
    assert await code_of(fewer) is ErrorCode.INVALID_PARTITIONS
    await create("dry", 1)
    await create_topic(mesh.parent, view, "no", 1, {}, rng=mesh.rng, validate_only=True)
    await mesh.settle()
    assert [topic.name for topic in view.topics()] == ["a.b", "dry"]


async def test_of_two_that_create_the_same_topic_at_once_one_is_told_that_it_exists(mesh, view):
    results = await asyncio.gather(
        *(create_topic(mesh.parent, view, "t", 1, {}, rng=mesh.rng) for _ in range(2)),
        return_exceptions=True,
    )
    errors = [r for r in results if isinstance(r, RefusedError)]
    assert [error.error for error in errors] == [ErrorCode.TOPIC_ALREADY_EXISTS]


# ---- settings and producer ids -------------------------------------------------------------------


async def test_group_settings_take_effect_clamped_to_the_clusters_bounds(mesh, view):
    group = GroupId("g/with:odd chars")
    assert view.group_config(group).record_lock_duration_ms == 30_000
    stored = await load_group_configs(mesh.parent, view, group)
    assert (stored.entries, stored.mod_revision) == ({}, 0)
    entries = {"share.record.lock.duration.ms": "50000"}
    assert await store_group_configs(mesh.parent, view, group, entries, expected_mod_revision=0)
    assert not await store_group_configs(mesh.parent, view, group, {}, expected_mod_revision=0)
    await mesh.settle()
    assert view.group_config(group).record_lock_duration_ms == 50_000
    assert view.group_config_entries(group) == entries
    await alter_cluster_configs(
        mesh.parent, view, {"group.share.max.record.lock.duration.ms": "40000"}
    )
    await mesh.settle()
    assert view.group_config(group).record_lock_duration_ms == 40_000
    loaded = await load_group_configs(mesh.parent, view, group)
    assert await store_group_configs(
        mesh.parent, view, group, {}, expected_mod_revision=loaded.mod_revision
    )
    await mesh.settle()
    assert view.group_config_entries(group) == {}
    assert view.group_config(group).record_lock_duration_ms == 30_000


async def test_cluster_settings_that_do_not_fit_together_are_refused(mesh, view):
    bad = {"group.share.heartbeat.interval.ms": "99999"}
    assert await code_of(alter_cluster_configs(mesh.parent, view, bad)) is ErrorCode.INVALID_CONFIG
    good = {"group.share.heartbeat.interval.ms": "6000"}
    assert await alter_cluster_configs(mesh.parent, view, good) == good
    await mesh.settle()
    assert view.cluster_configs() == good
    await alter_cluster_configs(mesh.parent, view, {"group.share.heartbeat.interval.ms": None})
    await mesh.settle()
    assert view.cluster_configs() == {}


async def test_producer_id_blocks_never_overlap_and_resume_above_what_was_seen(mesh, view):
    blocks = await asyncio.gather(
        *(take_producer_ids(mesh.parent, view, at_least=0) for _ in range(5))
    )
    ids = [number for block in blocks for number in block]
    assert len(ids) == len(set(ids)) == 5_000
    above = await take_producer_ids(mesh.parent, view, at_least=1_000_000)
    assert above == range(1_000_000, 1_001_000)
    assert (await take_producer_ids(mesh.parent, view, at_least=0)).start == 1_001_000


async def test_leaders_of_deleted_topics_and_of_unknown_partitions_are_nobody(mesh, view):
    assert view.leader(TopicPartition(TopicId(b"\0" * 16), 0)) is None
    assert view.standbys(TopicPartition(TopicId(b"\0" * 16), 0)) == ()
    assert view.share_version() == 1
    assert view.cluster_id == CLUSTER
