"""Domain answers as protobuf messages."""

from sharemesh.domain.errors import RefusedError
from sharemesh.domain.ids import GroupId, MemberId
from sharemesh.domain.share_group.assignment import Assignment
from sharemesh.domain.share_group.context import MAX_SUBSCRIBED_TOPICS
from sharemesh.domain.share_group.heartbeat import JOIN_EPOCH, Heartbeat, HeartbeatAnswer
from sharemesh.domain.share_group.topics_image import TopicsImage
from sharemesh.ports.network import CallContext
from sharemesh.v1.common_pb2 import TopicPartitions
from sharemesh.v1.group_coordinator_pb2 import (
    ShareGroupAssignment,
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)


def heartbeat_from(request: ShareGroupHeartbeatRequest, context: CallContext) -> Heartbeat:
    """Return what a member says; absent fields are unchanged (spec GC-1)."""
    names: tuple[str, ...] | None = None
    if request.HasField("subscribed_topic_names"):
        # one more than allowed is enough to refuse it, after the checks that come first
        names = tuple(request.subscribed_topic_names.names[: MAX_SUBSCRIBED_TOPICS + 1])
    joins = request.member_epoch == JOIN_EPOCH  # only then is it kept where a member is from
    return Heartbeat(
        GroupId(request.group_id),
        MemberId(request.member_id),
        request.member_epoch,
        rack_id=request.rack_id if request.HasField("rack_id") else None,
        subscribed_topic_names=names,
        client_id=request.client_id,
        client_host=client_host(context.peer) if joins else "",
    )


def client_host(peer: str) -> str:
    """Return the host of a peer such as ``ipv4:10.0.0.1:4711``, as Kafka shows it."""
    for family in ("ipv4:", "ipv6:"):
        if peer.startswith(family):
            return "/" + peer.removeprefix(family).rpartition(":")[0].strip("[]")
    return peer


def assignment_message(
    member_id: MemberId, answer: HeartbeatAnswer, heartbeat_interval_ms: int, catalog: TopicsImage
) -> ShareGroupHeartbeatResponse:
    """Return a heartbeat's answer; without an assignment in it if that did not change."""
    message = ShareGroupHeartbeatResponse(
        member_id=member_id,
        member_epoch=answer.member_epoch,
        heartbeat_interval_ms=heartbeat_interval_ms,
    )
    if answer.assignment is not None:
        message.assignment.CopyFrom(partitions_message(answer.assignment, catalog))
    return message


def partitions_message(assignment: Assignment, catalog: TopicsImage) -> ShareGroupAssignment:
    """Return partitions with the names of their topics where those still exist."""
    message = ShareGroupAssignment()
    for topic_id, numbers in assignment.items():
        topic = catalog.with_id(topic_id)
        message.topic_partitions.append(
            TopicPartitions(
                topic_id=topic_id,
                partitions=numbers,
                topic_name=topic.name if topic is not None else "",
            )
        )
    return message


def refused_heartbeat(member_id: str, error: RefusedError) -> ShareGroupHeartbeatResponse:
    """Return the answer to a heartbeat that was refused."""
    return ShareGroupHeartbeatResponse(
        error_code=error.error, error_message=error.message, member_id=member_id
    )
