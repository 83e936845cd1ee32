"""ShareAcknowledge, and the acknowledgements that come with a ShareFetch."""

from collections.abc import Iterable

from sharemesh.domain.ids import TopicId
from sharemesh.kafka.messages import (
    Content,
    KafkaMessage,
    error_code,
    from_uuid,
    milliseconds,
    to_uuid,
)
from sharemesh.kafka_listener.nodes import NOBODY, KafkaNodes
from sharemesh.v1 import share_leader_pb2 as pb


def acknowledge_topics(topics: Iterable[KafkaMessage]) -> list[pb.AcknowledgeTopic]:
    """Return what is acknowledged, by topic and partition."""
    return [
        pb.AcknowledgeTopic(
            topic_id=from_uuid(topic.topic_id),
            partitions=[
                pb.AcknowledgePartition(
                    partition=part.partition_index,
                    acknowledgement_batches=[
                        pb.AcknowledgementBatch(
                            first_offset=each.first_offset,
                            last_offset=each.last_offset,
                            acknowledge_types=each.acknowledge_types,
                        )
                        for each in part.acknowledgement_batches
                    ],
                )
                for part in topic.partitions
            ],
        )
        for topic in topics
    ]


def to_request(version: int, asked: KafkaMessage) -> pb.ShareAcknowledgeRequest:
    """Return our request."""
    return pb.ShareAcknowledgeRequest(
        group_id=asked.group_id or "",
        member_id=asked.member_id or "",
        share_session_epoch=asked.share_session_epoch,
        is_renew_ack=getattr(asked, "is_renew_ack", False),
        topics=acknowledge_topics(asked.topics),
        version=version,
    )


def to_answer(response: pb.ShareAcknowledgeResponse, nodes: KafkaNodes) -> Content:
    """Return Kafka's answer."""
    return {
        "throttle_time": milliseconds(response.throttle_time_ms),
        "error_code": error_code(response.error_code),
        "error_message": response.error_message or None,
        "acquisition_lock_timeout": milliseconds(response.acquisition_lock_timeout_ms),
        "responses": [
            {
                "topic_id": to_uuid(TopicId(topic.topic_id)),
                "partitions": [_partition(each, nodes) for each in topic.partitions],
            }
            for topic in response.responses
        ],
        "node_endpoints": nodes.endpoints(each.node_id for each in response.node_endpoints),
    }


def refused(code: int, message: str) -> pb.ShareAcknowledgeResponse:
    """Return the answer to a request that was refused."""
    return pb.ShareAcknowledgeResponse(error_code=code, error_message=message)


def current_leader(
    part: pb.ShareFetchPartition | pb.ShareAcknowledgePartition, nodes: KafkaNodes
) -> tuple[int, int]:
    """Return who leads, as Kafka tells it: (0, 0) without an error, (-1, -1) if it is not known."""
    if not part.HasField("current_leader"):
        return (NOBODY, NOBODY) if part.error_code else (0, 0)
    leader = nodes.number(part.current_leader.leader_id)
    return (leader, part.current_leader.leader_epoch) if leader >= 0 else (NOBODY, NOBODY)


def _partition(part: pb.ShareAcknowledgePartition, nodes: KafkaNodes) -> dict[str, object]:
    leader, epoch = current_leader(part, nodes)
    return {
        "partition_index": part.partition,
        "error_code": error_code(part.error_code),
        "error_message": part.error_message or None,
        "current_leader": {"leader_id": leader, "leader_epoch": epoch},
    }
