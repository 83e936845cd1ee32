"""Where a topic-partition is led, and the answers that send a client there (spec REQ-11)."""

from sharemesh.cluster.node_message import node_message
from sharemesh.domain.errors import ErrorCode
from sharemesh.domain.ids import TopicPartition
from sharemesh.ports.cluster import ClusterView, NodeInfo
from sharemesh.v1.common_pb2 import CurrentLeader, Node

REDIRECTING = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH})
"""Refusals that name the leader (KIP-951): after others a client has nowhere to be sent."""


class Redirects:
    """Collects, for one response, the leaders that it points to."""

    def __init__(self, view: ClusterView) -> None:
        self._view = view
        self._nodes: dict[str, NodeInfo] = {}

    def leader_of(self, partition: TopicPartition, error: int) -> CurrentLeader | None:
        """Return the current leader if ``error`` sends the client there and one is known."""
        if error not in REDIRECTING:
            return None
        leader = self._view.leader(partition)
        if leader is None:
            return None
        self._nodes[leader.node.node_id] = leader.node
        return CurrentLeader(leader_id=leader.node.node_id, leader_epoch=leader.leader_epoch)

    def endpoints(self) -> list[Node]:
        """Return the nodes named so far, each once."""
        return [node_message(node) for node in self._nodes.values()]


def not_led(view: ClusterView, partition: TopicPartition) -> tuple[ErrorCode, str]:
    """Return why this node cannot answer for a partition (spec REQ-5, INI-1)."""
    topic = view.topic(partition.topic_id)
    if topic is None:
        return (
            ErrorCode.UNKNOWN_TOPIC_ID,
            f"no topic has id {partition.topic_id.hex()}; refresh metadata",
        )
    if not 0 <= partition.partition < topic.partitions:
        return (
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            f"topic {topic.name!r} has partitions 0..{topic.partitions - 1}, "
            f"not {partition.partition}",
        )
    leader = view.leader(partition)
    if leader is None:
        where = "it has no leader now; retry"
    else:
        where = f"{leader.node.node_id} at {leader.node.address} leads it; ask there"
    return (
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        f"this node does not lead {topic.name}-{partition.partition}: {where}",
    )
