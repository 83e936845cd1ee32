"""Topics of a mesh, and who leads their partitions."""

from sharemesh.cluster.store.topics import create_topic
from sharemesh.domain.ids import TopicPartition
from sharemesh.ports.cluster import Role

SL, C = Role.SHARE_LEADER, Role.CONTROLLER
PARTITIONS = 12


async def make_topic(mesh, name="orders", partitions=PARTITIONS):
    view = next(iter(mesh.nodes.values())).view
    topic = await create_topic(mesh.parent, view, name, partitions, {}, rng=mesh.rng)
    await mesh.settle(20)
    return topic


def led(topic, *nodes):
    """Every partition and who serves it: exactly one, or the test fails."""
    owners = {}
    for node in nodes:
        for partition in node.partitions.serving:
            if partition.topic_id == topic.topic_id:
                assert partition not in owners, f"two leaders: {owners[partition]}, {node.info}"
                owners[partition] = node.info.node_id
    return owners


def all_partitions(topic):
    return {TopicPartition(topic.topic_id, number) for number in range(topic.partitions)}


async def three(mesh):
    nodes = [await mesh.add(name, SL) for name in ("a", "b", "c")]
    controller = await mesh.add("ctl", C)
    await mesh.settle(3_100)  # they are no longer new
    return nodes, controller
