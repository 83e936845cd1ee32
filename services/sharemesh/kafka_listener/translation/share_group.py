"""ShareGroupHeartbeat."""

from sharemesh.domain.ids import TopicId
from sharemesh.kafka.messages import Content, KafkaMessage, error_code, milliseconds, to_uuid
from sharemesh.kafka_listener.failures import heartbeat_code
from sharemesh.v1 import group_coordinator_pb2 as pb

JOIN_WAIT_MS = 1_000
"""How long the answer to a member that joins may wait for its assignment: Kafka's clients ask again
only after the heartbeat interval."""


def to_request(asked: KafkaMessage, client_id: str) -> pb.ShareGroupHeartbeatRequest:
    """Return our request."""
    request = pb.ShareGroupHeartbeatRequest(
        group_id=asked.group_id,
        member_id=asked.member_id,
        member_epoch=asked.member_epoch,
        client_id=client_id,
        max_wait_ms=JOIN_WAIT_MS,
    )
    if asked.rack_id is not None:
        request.rack_id = asked.rack_id
    if asked.subscribed_topic_names is not None:
        request.subscribed_topic_names.SetInParent()
        request.subscribed_topic_names.names.extend(asked.subscribed_topic_names)
    return request


def to_answer(response: pb.ShareGroupHeartbeatResponse) -> Content:
    """Return Kafka's answer."""
    assignment = None
    if response.HasField("assignment"):
        assignment = {
            "topic_partitions": [
                {
                    "topic_id": to_uuid(TopicId(each.topic_id)),
                    "partitions": tuple(each.partitions),
                }
                for each in response.assignment.topic_partitions
            ]
        }
    return {
        "throttle_time": milliseconds(response.throttle_time_ms),
        "error_code": error_code(heartbeat_code(response.error_code)),
        "error_message": response.error_message or None,
        "member_id": response.member_id,
        "member_epoch": response.member_epoch,
        "heartbeat_interval": milliseconds(response.heartbeat_interval_ms),
        "assignment": assignment,
    }


def refused(asked: KafkaMessage, code: int, message: str) -> Content:
    """Return the answer to a heartbeat that was refused."""
    return to_answer(
        pb.ShareGroupHeartbeatResponse(
            error_code=code, error_message=message, member_id=asked.member_id
        )
    )
