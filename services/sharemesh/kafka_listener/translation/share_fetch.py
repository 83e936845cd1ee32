"""ShareFetch; its answer is packed here, so that record batches are passed on as they are."""

import struct
from collections.abc import Iterable, Mapping

from sharemesh.domain.ids import TopicId, TopicPartition
from sharemesh.kafka.messages import KafkaMessage, from_uuid, in_milliseconds
from sharemesh.kafka_listener.compact import compact_length, compact_text, nullable_text
from sharemesh.kafka_listener.failures import read_code
from sharemesh.kafka_listener.nodes import KafkaNodes
from sharemesh.kafka_listener.translation.acknowledgements import acknowledge_topics, current_leader
from sharemesh.v1 import share_leader_pb2 as pb
from sharemesh.v1.common_pb2 import TopicPartitions

_HEAD = struct.Struct(">iB")  # correlation id, no tagged fields
_RESPONSE = struct.Struct(">ih")  # throttle time, error
_LEADER = struct.Struct(">iiB")  # leader, epoch, no tagged fields
_ACQUIRED = struct.Struct(">qqhB")  # first, last, deliveries, no tagged fields
_NO_TAGS = b"\0"
_DELIVERIES_MAX = 32_767


def to_request(version: int, asked: KafkaMessage) -> pb.ShareFetchRequest:
    """Return our request."""
    return pb.ShareFetchRequest(
        group_id=asked.group_id or "",
        member_id=asked.member_id or "",
        share_session_epoch=asked.share_session_epoch,
        max_wait_ms=max(0, in_milliseconds(asked.max_wait)),
        min_bytes=asked.min_bytes,
        max_bytes=asked.max_bytes,
        max_records=asked.max_records,
        batch_size=asked.batch_size,
        share_acquire_mode=getattr(asked, "share_acquire_mode", 0),
        is_renew_ack=getattr(asked, "is_renew_ack", False),
        topics=acknowledge_topics(asked.topics),
        forgotten_topics_data=[
            TopicPartitions(topic_id=from_uuid(each.topic_id), partitions=each.partitions)
            for each in asked.forgotten_topics_data
        ],
        version=version,
    )


def to_frame(
    correlation: int,
    response: pb.ShareFetchResponse,
    batches: Mapping[TopicPartition, bytes],
    nodes: KafkaNodes,
) -> list[bytes]:
    """Return the whole frame in pieces: the record batches of each partition are one."""
    pieces: list[bytes] = []
    packed = bytearray(_HEAD.pack(correlation, 0))
    packed += _RESPONSE.pack(response.throttle_time_ms, response.error_code)
    packed += nullable_text(response.error_message)
    packed += struct.pack(">i", response.acquisition_lock_timeout_ms)
    packed += compact_length(len(response.responses))
    for topic in response.responses:
        topic_id = TopicId(topic.topic_id)
        packed += topic_id
        packed += compact_length(len(topic.partitions))
        for part in topic.partitions:
            records = batches.get(TopicPartition(topic_id, part.partition), b"")
            packed += _before_records(part, len(records), nodes)
            if records:
                pieces += (bytes(packed), records)
                packed = bytearray()
            packed += _acquired(part.acquired_records)
        packed += _NO_TAGS
    packed += _endpoints(response, nodes)
    packed += _NO_TAGS
    pieces.append(bytes(packed))
    return [struct.pack(">i", sum(map(len, pieces))), *pieces]


def refused(code: int, message: str) -> pb.ShareFetchResponse:
    """Return the answer to a request that was refused."""
    return pb.ShareFetchResponse(error_code=code, error_message=message)


def _before_records(part: pb.ShareFetchPartition, size: int, nodes: KafkaNodes) -> bytes:
    leader, epoch = current_leader(part, nodes)
    return b"".join(
        (
            struct.pack(">ih", part.partition, read_code(part.error_code)),
            nullable_text(part.error_message),
            struct.pack(">h", part.acknowledge_error_code),
            nullable_text(part.acknowledge_error_message),
            _LEADER.pack(leader, epoch, 0),
            compact_length(size),
        )
    )


def _acquired(ranges: Iterable[pb.AcquiredRecords]) -> bytes:
    packed = [
        _ACQUIRED.pack(
            each.first_offset, each.last_offset, min(each.delivery_count, _DELIVERIES_MAX), 0
        )
        for each in ranges
    ]
    return b"".join((compact_length(len(packed)), *packed, _NO_TAGS))


def _endpoints(response: pb.ShareFetchResponse, nodes: KafkaNodes) -> bytes:
    found = [nodes.named(each.node_id) for each in response.node_endpoints]
    packed = [
        b"".join(
            (
                struct.pack(">i", each.number),
                compact_text(each.host),
                struct.pack(">i", each.port),
                nullable_text(each.rack or ""),
                _NO_TAGS,
            )
        )
        for each in found
        if each is not None
    ]
    return b"".join((compact_length(len(packed)), *packed))
