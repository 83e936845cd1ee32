"""Plans that were overtaken are not written over what overtook them."""

from dataclasses import replace

import pytest

from sharemesh.cluster.store import records
from sharemesh.cluster.store.keys import CONTROLLER
from sharemesh.cluster.store.topics import create_topic, delete_topic
from sharemesh.controller.desired import DesiredPlacement, PlacementLimits
from sharemesh.controller.placement_controller import AssignmentWriter
from sharemesh.domain.ids import NodeId, TopicPartition
from sharemesh.ports.cluster import Role
from sharemesh.ports.coordination import Delete, Put, SessionLostError
from tests.cluster.mesh import Mesh

SL = Role.SHARE_LEADER


@pytest.fixture
async def mesh():
    mesh = Mesh()
    await mesh.begin()
    yield mesh
    await mesh.close()


async def planned(mesh, partitions=3):
    node = await mesh.add("a", SL)
    await mesh.add("b", SL)
    topic = await create_topic(mesh.parent, node.view, "orders", partitions, {}, rng=mesh.rng)
    await mesh.settle(10)
    session = await mesh.parent.open_session(ttl_ms=60_000)
    leadership = await mesh.parent.campaign(node.view.keys.election(CONTROLLER), b"{}", session)
    desired = DesiredPlacement(node.view, mesh.clock, PlacementLimits())
    plan = await desired.plan(mesh.clock.now_ms(), 30_000)
    return node, topic, AssignmentWriter(mesh.parent, node.view), leadership, plan


async def assignments(mesh, node):
    return (await mesh.parent.list(node.view.keys.assignments)).entries


async def test_a_plan_is_written_whole(mesh):
    node, _, writer, leadership, plan = await planned(mesh, 250)
    assert await writer.write(leadership, plan)
    assert len(await assignments(mesh, node)) == 250


async def test_a_topic_that_was_deleted_meanwhile_gets_no_assignments(mesh):
    node, _, writer, leadership, plan = await planned(mesh)
    await delete_topic(mesh.parent, node.view, "orders")
    assert not await writer.write(leadership, plan)
    assert await assignments(mesh, node) == ()


async def test_what_a_standby_took_over_meanwhile_stays_with_it_and_the_rest_is_written(mesh):
    node, topic, writer, leadership, plan = await planned(mesh)
    taken = TopicPartition(topic.topic_id, 1)
    theirs = records.PartitionAssignment(NodeId("standby"), (), 7)
    put = Put(node.view.keys.assignment(taken), records.encode_assignment(theirs))
    await mesh.parent.commit([], [put])
    assert not await writer.write(leadership, plan)
    stored = {e.key: records.decode_assignment(e.value) for e in await assignments(mesh, node)}
    assert len(stored) == 3
    assert stored[node.view.keys.assignment(taken)] == theirs


async def test_a_controller_that_lost_its_election_writes_nothing(mesh):
    node, _, writer, leadership, plan = await planned(mesh)
    await mesh.parent.commit([], [Delete(leadership.key)])
    with pytest.raises(SessionLostError):
        await writer.write(leadership, plan)
    with pytest.raises(SessionLostError):
        await writer.write(replace(leadership, token=leadership.token + 1), plan)
    assert await assignments(mesh, node) == ()
