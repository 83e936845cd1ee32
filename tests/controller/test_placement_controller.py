"""The controller: batches, rollouts, balance, its own fail-over, and size."""

import asyncio
import time
from collections import Counter

import pytest

from sharemesh.cluster.bootstrap import ClusterMismatchError, ensure_cluster
from sharemesh.cluster.claims.claim_policy import ClaimSettings
from sharemesh.cluster.store import records
from sharemesh.cluster.store.topics import add_partitions, create_topic
from sharemesh.domain.ids import NodeId
from sharemesh.ports.cluster import NodeInfo, Role
from sharemesh.ports.coordination import Guard, Put
from tests.cluster.mesh import CLUSTER, Mesh, Node
from tests.turns import collected_as_in_a_server

SL, C = Role.SHARE_LEADER, Role.CONTROLLER


@pytest.fixture
async def mesh():
    mesh = Mesh()
    await mesh.begin()
    yield mesh
    await mesh.close()


def load(node):
    tables = node.view.tables
    return Counter(stored.value.leader for stored in tables.assignments.values())


async def topic_of(mesh, node, partitions, name="orders"):
    topic = await create_topic(mesh.parent, node.view, name, partitions, {}, rng=mesh.rng)
    await mesh.settle(50)
    return topic


async def test_a_second_controller_takes_over_and_goes_on(mesh):
    first, second = await mesh.add("c1", C), await mesh.add("c2", C)
    await mesh.add("a", SL)
    await mesh.settle(10)
    assert (first.controller.elected, second.controller.elected) == (True, False)
    await first.kill()
    await mesh.settle(10)
    assert second.controller.elected
    await topic_of(mesh, second, 5)
    assert load(second) == {"a": 5}


async def test_new_partitions_of_a_topic_are_assigned(mesh):
    a, ctl = await mesh.add("a", SL), await mesh.add("ctl", C)
    await topic_of(mesh, a, 2)
    await add_partitions(mesh.parent, a.view, "orders", 7)
    await mesh.settle(20)
    assert load(ctl) == {"a": 7}
    assert len(a.partitions.serving) == 7


async def test_a_new_node_is_filled_only_after_members_settled_and_a_few_at_a_time(mesh):
    a, b = await mesh.add("a", SL), await mesh.add("b", SL)
    ctl = await mesh.add("ctl", C)
    await topic_of(mesh, a, 60)
    c = await mesh.add("c", SL)
    await mesh.settle(25_000)
    assert c.partitions.serving == {}
    await mesh.settle(6_000 + ClaimSettings().departures_ms)
    assert len(c.partitions.serving) == 10
    await mesh.settle(30_000)
    assert len(c.partitions.serving) >= 18
    assert max(load(ctl).values()) <= 22
    assert len(a.partitions.serving) + len(b.partitions.serving) + len(c.partitions.serving) == 60


async def test_nothing_moves_voluntarily_while_a_node_drains_or_versions_differ(mesh):
    nodes = [await mesh.add(name, SL) for name in ("a", "b")]
    ctl = await mesh.add("ctl", C)
    await topic_of(mesh, nodes[0], 40)
    newer = Node(mesh, "c", (SL,))
    newer.member._node = NodeInfo(NodeId("c"), "127.0.0.1", 1, (SL,), version="0.2.0")
    mesh.nodes["c"] = newer
    await newer.start()
    await mesh.settle(60_000)
    assert newer.partitions.serving == {}
    assert sum(load(ctl).values()) == 40


async def test_after_a_restart_of_everything_leaders_get_their_partitions_back(mesh):
    nodes = [await mesh.add(name, SL) for name in ("a", "b", "c")]
    ctl = await mesh.add("ctl", C)
    topic = await topic_of(mesh, nodes[0], 30)
    before = {p: n.info.node_id for n in nodes for p in n.partitions.serving}
    await ctl.stop()
    for node in nodes:
        await node.stop()
    mesh.nodes.clear()
    await mesh.add("ctl", C)
    again = []
    for name in ("c", "b", "a"):
        await mesh.settle(400)
        again.append(await mesh.add(name, SL))
    await mesh.settle(5_000)
    after = {p: n.info.node_id for n in again for p in n.partitions.serving}
    moved = sum(after[p] != before[p] for p in before)
    assert len(after) == topic.partitions
    assert moved == 0


async def test_a_controller_that_saw_a_leader_go_does_not_wait_for_it_when_it_is_elected(mesh):
    nodes = [await mesh.add(name, SL) for name in ("a", "b", "c")]
    first, second = await mesh.add("c1", C), await mesh.add("c2", C)
    await topic_of(mesh, nodes[0], 30)
    for node in nodes[1:]:
        node.claims._policy.settings = ClaimSettings(standby_ms=60_000)  # only a controller helps
    first.freeze()  # it is elected, and can do nothing, until its lease ends
    await nodes[0].kill()
    await mesh.settle(20)
    assert not second.controller.elected
    await mesh.parent.revoke(first.member.session.lease_id)
    await mesh.settle(50)
    assert second.controller.elected
    assert sum(len(node.partitions.serving) for node in nodes[1:]) == 30


async def test_a_write_of_a_deposed_controller_changes_nothing(mesh):
    a, ctl = await mesh.add("a", SL), await mesh.add("ctl", C)
    await mesh.settle(10)
    leader = ctl.view.tables.leader_of("controller")
    await mesh.parent.revoke(ctl.member.session.lease_id)
    key = ctl.view.keys.election("controller")
    guard = Guard(f"{key}/1", create_revision=leader.create_revision)
    assert await ctl.coordination.commit([guard], [Put("/x", b"")]) is None
    assert a.view is not None


async def test_ten_thousand_partitions_on_fifty_nodes_do_not_block_the_loop():
    mesh = Mesh()
    await mesh.begin()
    ctl = await mesh.add("ctl", C)
    session = await mesh.parent.open_session(ttl_ms=1_000_000)
    for number in range(50):
        info = NodeInfo(NodeId(f"n{number:02}"), "h", 1, (SL,), rack=f"r{number % 3}")
        put = Put(ctl.view.keys.member(info.node_id), records.encode_member(info), leased=True)
        await mesh.parent.commit([], [put], session=session)
    await mesh.settle(10)
    longest = 0.0
    for number in range(10):
        await create_topic(mesh.parent, ctl.view, f"t{number}", 1_000, {}, rng=mesh.rng)
    deadline = time.monotonic() + 60
    with collected_as_in_a_server():
        while len(ctl.view.tables.assignments) < 10_000:
            assert time.monotonic() < deadline
            started = time.thread_time()
            await asyncio.sleep(0)
            longest = max(longest, time.thread_time() - started)
            if len(mesh.clock._sleepers):
                await mesh.clock.advance(1)
    counts = load(ctl)
    print(f"longest turn of the loop {longest * 1000:.1f} ms; load {max(counts.values())}")
    assert len(counts) == 50
    assert max(counts.values()) <= 220
    assert longest < 0.25
    await mesh.close()


async def test_the_number_of_shards_is_fixed_at_creation(mesh):
    again = await ensure_cluster(mesh.parent, CLUSTER, group_shards=8, state_shards=8)
    assert again.group_shards == 8
    with pytest.raises(ClusterMismatchError, match="8 group shards and 8 state shards"):
        await ensure_cluster(mesh.parent, CLUSTER, group_shards=16, state_shards=8)
