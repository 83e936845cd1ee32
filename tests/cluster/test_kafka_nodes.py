"""Numbers of processes for Kafka's clients (spec KLS-8)."""

import asyncio

import pytest

from sharemesh.cluster.store import kafka_nodes, records
from sharemesh.cluster.store.kafka_nodes import kafka_node_number
from sharemesh.domain.ids import NodeId
from sharemesh.ports.cluster import KafkaEndpoint, NodeInfo, Role
from sharemesh.ports.coordination import CoordinationError, Put
from tests.cluster.mesh import CLUSTER, Mesh


@pytest.fixture
async def mesh():
    mesh = Mesh()
    await mesh.begin()
    yield mesh
    await mesh.close()


async def number(mesh, name):
    return await kafka_node_number(mesh.parent, CLUSTER, NodeId(name))


async def test_a_number_is_given_out_once_and_kept(mesh):
    """KLS-8."""
    assert [await number(mesh, name) for name in ("a", "b", "a", "c/d", "b")] == [1, 2, 1, 3, 2]


async def test_processes_that_begin_together_get_different_ones(mesh):
    """KLS-8."""
    found = await asyncio.gather(*(number(mesh, f"n{each}") for each in range(10)))
    assert sorted(found) == list(range(1, 11))


async def test_numbers_end(mesh, monkeypatch):
    """KLS-8."""
    await number(mesh, "a")
    monkeypatch.setattr(kafka_nodes, "_LAST", 1)
    with pytest.raises(CoordinationError, match="were given out"):
        await number(mesh, "b")
    assert await number(mesh, "a") == 1


async def test_others_that_always_come_first_are_said(mesh, monkeypatch):
    async def lost(guards, operations, *, session=None):
        return None

    monkeypatch.setattr(mesh.parent, "commit", lost)
    with pytest.raises(CoordinationError, match="20 times"):
        await number(mesh, "a")


async def test_a_registration_tells_where_clients_of_kafka_come_in(mesh):
    """KLS-8; a form that this build does not know is none."""
    node = await mesh.add("c", Role.CONTROLLER)
    info = NodeInfo(NodeId("n"), "h", 1, (), kafka=KafkaEndpoint(3, "kafka-host", 9092))
    key = node.view.keys.member(info.node_id)
    await mesh.parent.commit([], [Put(key, records.encode_member(info))])
    await mesh.settle()
    assert node.view.node(NodeId("n")) == info
    odd = b'{"v":1,"host":"h","port":1,"roles":[],"kafka":{"number":3}}'
    await mesh.parent.commit([], [Put(key, odd)])
    await mesh.settle()
    assert node.view.node(NodeId("n")).kafka is None
