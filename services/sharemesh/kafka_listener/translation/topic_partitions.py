"""DescribeTopicPartitions, and ListPartitionReassignments, of which there are none."""

from collections.abc import Iterator, Mapping

from sharemesh.authorization.permitted_operations import NOT_ASKED_FOR
from sharemesh.domain.errors import ErrorCode
from sharemesh.kafka.messages import Content, error_code, milliseconds
from sharemesh.kafka_listener.translation.metadata import described_topic
from sharemesh.kafka_listener.translation.seen_request import SeenRequest
from sharemesh.v1 import admin_pb2 as pb

PARTITIONS_MAX = 2_000
"""Most partitions in one answer, as in Kafka; a cursor says where the next one goes on."""

_Page = tuple[list[dict[str, object]], dict[str, object] | None]


def to_request(seen: SeenRequest) -> pb.MetadataRequest:
    """Return our request: all topics where none is named."""
    names = [each.name for each in seen.message.topics]
    if not names:
        return pb.MetadataRequest()
    return pb.MetadataRequest(topics=pb.TopicNames(names=names))


def to_answer(
    seen: SeenRequest, response: pb.MetadataResponse, permitted: Mapping[str, int]
) -> Content:
    """Return one page of the topics, by name, from the cursor on, with what is ``permitted``."""
    topics, cursor = _page(seen, response, permitted)
    return {
        "throttle_time": milliseconds(response.throttle_time_ms),
        "topics": topics,
        "next_cursor": cursor,
    }


def refused(seen: SeenRequest, code: int) -> Content:
    """Return the answer to a request that was refused as a whole."""
    return {
        "throttle_time": milliseconds(0),
        "topics": [
            {
                "error_code": error_code(code),
                "name": each.name,
                "topic_id": None,
                "partitions": (),
                "topic_authorized_operations": NOT_ASKED_FOR,
            }
            for each in seen.message.topics
        ],
        "next_cursor": None,
    }


def no_reassignments() -> Content:
    """Return that nothing moves by hand: the controller alone places partitions."""
    return {
        "throttle_time": milliseconds(0),
        "error_code": error_code(ErrorCode.NONE),
        "error_message": None,
        "topics": (),
    }


def _page(seen: SeenRequest, response: pb.MetadataResponse, permitted: Mapping[str, int]) -> _Page:
    asked = seen.message.response_partition_limit
    room = max(1, min(asked, PARTITIONS_MAX))
    page: list[dict[str, object]] = []
    for topic, first in _from_cursor(seen, response):
        if room == 0:
            return page, {"topic_name": topic.name, "partition_index": first}
        told = described_topic(topic, seen.nodes, permitted)
        partitions: list[dict[str, object]] = told["partitions"][first:]  # type: ignore[index]
        page.append(told | {"partitions": [_with_replicas(e) for e in partitions[:room]]})
        if len(partitions) > room:
            return page, {"topic_name": topic.name, "partition_index": first + room}
        room -= len(partitions)
    return page, None


def _from_cursor(
    seen: SeenRequest, response: pb.MetadataResponse
) -> Iterator[tuple[pb.TopicMetadata, int]]:
    """Yield topics by name, each with its first partition on this page."""
    cursor = seen.message.cursor
    for topic in sorted(response.topics, key=lambda each: each.name):
        if cursor is None or topic.name > cursor.topic_name:
            yield topic, 0
        elif topic.name == cursor.topic_name:
            yield topic, max(0, cursor.partition_index)


def _with_replicas(partition: dict[str, object]) -> dict[str, object]:
    return {"eligible_leader_replicas": (), "last_known_elr": (), **partition}
