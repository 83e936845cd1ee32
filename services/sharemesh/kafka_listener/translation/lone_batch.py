"""Produce with records for one partition, read and answered without a general codec.

Most requests of producers are such, and the general way costs more than all else that is done for
them here. What is not quite of this shape, or did not succeed, goes the general way.
"""

import struct
from dataclasses import dataclass
from uuid import UUID

from sharemesh.kafka.messages import MalformedMessageError, milliseconds
from sharemesh.kafka_listener.compact import compact_length
from sharemesh.kafka_listener.request_header import unsigned_varint
from sharemesh.v1 import record_log_pb2 as pb

VERSION = 13
"""What current clients ask, and brokers that identify topics."""

_HEAD = struct.Struct(">BhiB16sBi")  # no transaction, acks, timeout, topics, id, partitions, index
_ONE = compact_length(1)[0]
_NO_TOPIC_ID = bytes(16)
_NO_TAGS = b"\0\0\0"  # of the partition, the topic, the request
_ANSWER = struct.Struct(">iiBB16sBihqqqBBBBiB")
_NO_TIME = -1
_EMPTY = compact_length(0)[0]


@dataclass(slots=True)
class LonePart:
    """Records for a partition."""

    index: int
    records: bytes


@dataclass(slots=True)
class LoneTopic:
    """A topic with what is for its partitions."""

    topic_id: UUID
    partition_data: tuple[LonePart]


@dataclass(slots=True)
class LoneBatch:
    """The request, with the attributes that a general codec would give it."""

    transactional_id: None
    acks: int
    timeout: object
    topic_data: tuple[LoneTopic]


def read(version: int, body: memoryview) -> LoneBatch | None:
    """Return the request behind its header, or None: it is another, or none."""
    if version != VERSION or len(body) < _HEAD.size:
        return None
    no_transaction, acks, timeout_ms, topics, topic_id, parts, index = _HEAD.unpack_from(body)
    if no_transaction or topics != _ONE or parts != _ONE or topic_id == _NO_TOPIC_ID:
        return None
    try:
        size, at = unsigned_varint(body, _HEAD.size)
    except (IndexError, MalformedMessageError):
        return None
    end = at + size - 1
    if size == 0 or body[end : end + len(_NO_TAGS)] != _NO_TAGS:
        return None
    part = LonePart(index, bytes(body[at:end]))
    topic = LoneTopic(UUID(bytes=topic_id), (part,))
    return LoneBatch(None, acks, milliseconds(timeout_ms), (topic,))


def to_frame(correlation: int, asked: LoneBatch, response: pb.ProduceResponse) -> bytes | None:
    """Return the frame that tells of success, its size in front; None: there is more to tell."""
    result = response.partitions[0]
    if result.error_code or result.error_message or result.HasField("current_leader"):
        return None
    if response.node_endpoints:
        return None
    topic = asked.topic_data[0]
    return _ANSWER.pack(
        _ANSWER.size - 4,
        correlation,
        0,  # tags of the header
        _ONE,
        topic.topic_id.bytes,
        _ONE,
        topic.partition_data[0].index,
        0,
        result.base_offset,
        _NO_TIME,
        result.log_start_offset,
        _EMPTY,
        0,  # no message
        *_NO_TAGS[:2],
        response.throttle_time_ms,
        0,
    )
