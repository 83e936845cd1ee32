"""DescribeShareGroupOffsets, AlterShareGroupOffsets and DeleteShareGroupOffsets."""

from collections.abc import Iterable

from sharemesh.domain.ids import TopicId
from sharemesh.kafka.messages import Content, error_code, milliseconds, to_uuid
from sharemesh.kafka_listener.failures import heartbeat_code
from sharemesh.kafka_listener.translation.seen_request import SeenRequest
from sharemesh.v1 import group_coordinator_pb2 as pb


def describe_request(seen: SeenRequest) -> pb.DescribeShareGroupOffsetsRequest:
    """Return our request; without a list of topics: all of a group."""
    request = pb.DescribeShareGroupOffsetsRequest()
    for group in seen.message.groups:
        wanted = request.groups.add(group_id=group.group_id)
        if group.topics is None:
            continue
        wanted.topics.SetInParent()
        for topic in group.topics:
            wanted.topics.topics.add(topic_name=topic.topic_name, partitions=topic.partitions)
    return request


def describe_answer(_: SeenRequest, response: pb.DescribeShareGroupOffsetsResponse) -> Content:
    """Return Kafka's answer."""
    return {
        "throttle_time": milliseconds(response.throttle_time_ms),
        "groups": [
            {
                "group_id": group.group_id,
                "topics": _topics(group.topics),
                "error_code": error_code(heartbeat_code(group.error_code)),
                "error_message": group.error_message or None,
            }
            for group in response.groups
        ],
    }


def describe_refused(seen: SeenRequest, code: int, message: str) -> Content:
    """Return the answer to a request that was refused as a whole."""
    return describe_answer(
        seen,
        pb.DescribeShareGroupOffsetsResponse(
            groups=[
                pb.DescribedShareGroupOffsets(
                    group_id=each.group_id, error_code=code, error_message=message
                )
                for each in seen.message.groups
            ]
        ),
    )


def alter_request(seen: SeenRequest) -> pb.AlterShareGroupOffsetsRequest:
    """Return our request."""
    request = pb.AlterShareGroupOffsetsRequest(group_id=seen.message.group_id)
    for topic in seen.message.topics:
        altered = request.topics.add(topic_name=topic.topic_name)
        for part in topic.partitions:
            altered.partitions.add(partition=part.partition_index, start_offset=part.start_offset)
    return request


def changed_answer(
    _: SeenRequest,
    response: pb.AlterShareGroupOffsetsResponse | pb.DeleteShareGroupOffsetsResponse,
) -> Content:
    """Return Kafka's answer to either change."""
    return {
        "throttle_time": milliseconds(response.throttle_time_ms),
        "error_code": error_code(heartbeat_code(response.error_code)),
        "error_message": response.error_message or None,
        "responses": _topics(response.topics),
    }


def alter_refused(seen: SeenRequest, code: int, message: str) -> Content:
    """Return the answer to a request that was refused as a whole."""
    refused = pb.AlterShareGroupOffsetsResponse(error_code=code, error_message=message)
    return changed_answer(seen, refused)


def delete_request(seen: SeenRequest) -> pb.DeleteShareGroupOffsetsRequest:
    """Return our request."""
    return pb.DeleteShareGroupOffsetsRequest(
        group_id=seen.message.group_id,
        topic_names=[each.topic_name for each in seen.message.topics],
    )


def delete_refused(seen: SeenRequest, code: int, message: str) -> Content:
    """Return the answer to a request that was refused as a whole."""
    refused = pb.DeleteShareGroupOffsetsResponse(error_code=code, error_message=message)
    return changed_answer(seen, refused)


def _topics(topics: Iterable[pb.OffsetTopicResult]) -> list[dict[str, object]]:
    return [
        {
            "topic_name": topic.topic_name,
            "topic_id": to_uuid(TopicId(topic.topic_id)) if topic.topic_id else None,
            "error_code": error_code(topic.error_code),
            "error_message": topic.error_message or None,
            "partitions": [_part(each) for each in topic.partitions],
        }
        for topic in topics
    ]


def _part(part: pb.OffsetPartition) -> dict[str, object]:
    return {
        "partition_index": part.partition,
        "start_offset": part.start_offset,
        "leader_epoch": part.leader_epoch,
        "lag": part.lag,
        "error_code": error_code(part.error_code),
        "error_message": part.error_message or None,
    }
