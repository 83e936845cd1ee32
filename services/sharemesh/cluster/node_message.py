"""A node of the cluster as every service tells clients of it."""

from sharemesh.ports.cluster import NodeInfo
from sharemesh.v1.common_pb2 import Node


def node_message(node: NodeInfo) -> Node:
    """Return a node and where clients reach it; several roles are separated by commas."""
    return Node(
        node_id=node.node_id,
        host=node.host,
        port=node.port,
        rack=node.rack,
        role=",".join(str(role) for role in node.roles),
    )
