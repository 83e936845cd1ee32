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

FIRST_VERSION = 9
"""The first that is flexible."""

FIRST_BY_ID = 13
"""The first that names topics by their ids."""

_HEAD = struct.Struct(">BhiB")  # no transaction, acks, timeout, topics
_PART = struct.Struct(">Bi")  # partitions, index
_ONE = compact_length(1)[0]
_TOPIC_ID_BYTES = 16
_NO_TOPIC_ID = bytes(_TOPIC_ID_BYTES)
_NO_TAGS = b"\0\0\0"  # of the partition, the topic, the request
_ANSWER_HEAD = struct.Struct(">iBB")  # correlation id, no tagged fields, topics
_ANSWER = struct.Struct(">BihqqqBBBBiB")  # from the number of partitions on
_SIZE = struct.Struct(">i")
_NO_TIME = -1
_EMPTY = compact_length(0)[0]


@dataclass(slots=True)
class LonePart:
    """Records for a partition."""

    index: int
    records: bytes


@dataclass(slots=True)
class LoneTopic:
    """A topic with what is for its partitions; it has an id or a name."""

    topic_id: UUID | None
    name: str | None
    packed: bytes
    """The id or the name as it stands in the request, and in the answer."""
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
    if version < FIRST_VERSION or len(body) < _HEAD.size:
        return None
    no_transaction, acks, timeout_ms, topics = _HEAD.unpack_from(body)
    if no_transaction or topics != _ONE:
        return None
    try:
        topic_id, name, at = (_by_id if version >= FIRST_BY_ID else _by_name)(body)
        packed = bytes(body[_HEAD.size : at])
        parts, index = _PART.unpack_from(body, at)
        size, at = unsigned_varint(body, at + _PART.size)
    except (IndexError, struct.error, UnicodeDecodeError, MalformedMessageError):
        return None
    end = at + size - 1
    is_lone = parts == _ONE and (topic_id or name) is not None
    if not is_lone or size == 0 or body[end : end + len(_NO_TAGS)] != _NO_TAGS:
        return None
    topic = LoneTopic(topic_id, name, packed, (LonePart(index, bytes(body[at:end])),))
    return LoneBatch(None, acks, milliseconds(timeout_ms), (topic,))


def _by_id(body: memoryview) -> tuple[UUID | None, None, int]:
    """Return the topic's id and where it ends."""
    end = _HEAD.size + _TOPIC_ID_BYTES
    topic_id = bytes(body[_HEAD.size : end])
    if len(topic_id) < _TOPIC_ID_BYTES or topic_id == _NO_TOPIC_ID:
        return None, None, end
    return UUID(bytes=topic_id), None, end


def _by_name(body: memoryview) -> tuple[None, str | None, int]:
    """Return the topic's name and where it ends."""
    size, at = unsigned_varint(body, _HEAD.size)
    if size == 0:
        return None, None, at
    end = at + size - 1
    return None, str(body[at:end], "utf-8"), end


def to_frame(correlation: int, asked: LoneBatch, response: pb.ProduceResponse) -> bytes | None:
    """Return the frame that tells of success, its size in front; None: there is more to tell."""
    result = response.partitions[0]
    if result.error_code or result.error_message or result.HasField("current_leader"):
        return None
    if response.node_endpoints:
        return None
    topic = asked.topic_data[0]
    answer = _ANSWER.pack(
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
    size = _ANSWER_HEAD.size + len(topic.packed) + len(answer)
    head = _ANSWER_HEAD.pack(correlation, 0, _ONE)
    return b"".join((_SIZE.pack(size), head, topic.packed, answer))
