"""Partitions of the view as messages."""

from sharemesh.domain.errors import ErrorCode
from sharemesh.domain.ids import TopicPartition
from sharemesh.ports.cluster import ClusterView, TopicInfo
from sharemesh.v1 import admin_pb2


def partition_messages(view: ClusterView, topic: TopicInfo) -> list[admin_pb2.PartitionMetadata]:
    """Return every partition of a topic; one between leaders has LEADER_NOT_AVAILABLE."""
    messages = []
    for number in range(topic.partitions):
        partition = TopicPartition(topic.topic_id, number)
        leader = view.leader(partition)
        if leader is None:
            message = admin_pb2.PartitionMetadata(
                partition=number,
                error_code=ErrorCode.LEADER_NOT_AVAILABLE,
                leader_epoch=-1,
            )
        else:
            message = admin_pb2.PartitionMetadata(
                partition=number,
                leader_id=leader.node.node_id,
                leader_epoch=leader.leader_epoch,
            )
        message.standbys.extend(view.standbys(partition))
        messages.append(message)
    return messages
