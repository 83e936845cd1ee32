"""Fetch; its answer is packed here, so that record batches are passed on as they are."""

import struct

from sharemesh.domain.errors import ErrorCode
from sharemesh.kafka.messages import KafkaMessage, from_uuid, in_milliseconds
from sharemesh.kafka_listener.compact import compact_length, compact_text, nullable_text
from sharemesh.kafka_listener.failures import read_code
from sharemesh.kafka_listener.nodes import NOBODY, KafkaNodes
from sharemesh.ports.network import CallFailedError, Failure
from sharemesh.v1 import record_log_pb2 as pb

_WITH_LOG_START, _WITH_SESSIONS, _WITH_REPLICA = 5, 7, 11
_FLEXIBLE, _BY_ID, _WITH_ENDPOINTS = 12, 13, 16
_WHOLE = (0, -1)
"""Epochs of a request that names all it wants: it opens a session, ends one, or has none."""

_NO_SESSION = 0
_NO_EPOCH = _NO_REPLICA = _NOT_KNOWN = -1
_READ_COMMITTED = 1
_SESSION_ID_NOT_FOUND = 70
_NO_TAGS = b"\0"
_LEADER = struct.Struct(">BBBiiB")  # one tagged field: 1, its size, leader and epoch
_LEADER_TAG, _LEADER_BYTES = 1, 9
_ENDPOINTS_TAG = 0
_ABORTED = struct.Struct(">qq")  # producer id, first offset


def names_all(version: int, asked: KafkaMessage) -> bool:
    """Return whether a request stands for itself: no session is kept here (spec KLS-18)."""
    return version < _WITH_SESSIONS or asked.session_epoch in _WHOLE


def to_request(version: int, asked: KafkaMessage) -> pb.FetchRequest:
    """Return our request, its partitions in the same order."""
    request = pb.FetchRequest(
        max_wait_ms=max(0, in_milliseconds(asked.max_wait)),
        min_bytes=asked.min_bytes,
        max_bytes=asked.max_bytes,
        read_committed=asked.isolation_level == _READ_COMMITTED,
    )
    for topic in asked.topics:
        topic_id = from_uuid(topic.topic_id) if version >= _BY_ID else b""
        topic_name = "" if version >= _BY_ID else topic.topic
        for part in topic.partitions:
            listed = request.partitions.add(
                topic_id=topic_id,
                topic_name=topic_name,
                partition=part.partition,
                fetch_offset=part.fetch_offset,
                max_bytes=part.partition_max_bytes,
            )
            epoch = getattr(part, "current_leader_epoch", _NO_EPOCH)
            if epoch >= 0:
                listed.current_leader_epoch = epoch
    return request


def refused(request: pb.FetchRequest, error: CallFailedError) -> pb.FetchResponse:
    """Return the answer to a request that was refused as a whole: each partition says so.

    Consumers of Kafka end at a code that they do not expect; after these they ask again.
    """
    is_elsewhere = error.failure is Failure.UNIMPLEMENTED
    code = ErrorCode.NOT_LEADER_OR_FOLLOWER if is_elsewhere else ErrorCode.KAFKA_STORAGE_ERROR
    return pb.FetchResponse(
        throttle_time_ms=error.throttle_ms,
        partitions=[
            pb.FetchPartitionResult(
                partition=each.partition,
                error_code=int(code),
                error_message=error.message,
                high_watermark=_NOT_KNOWN,
                last_stable_offset=_NOT_KNOWN,
                log_start_offset=_NOT_KNOWN,
            )
            for each in request.partitions
        ],
    )


def without_session(version: int, correlation: int) -> list[bytes]:
    """Return the frame that makes a client name all that it wants."""
    packed = _head(version, correlation, 0, _SESSION_ID_NOT_FOUND) + _count(version, 0)
    return _framed([bytes(packed) + (_NO_TAGS if version >= _FLEXIBLE else b"")])


def to_frame(
    version: int,
    correlation: int,
    asked: KafkaMessage,
    response: pb.FetchResponse,
    nodes: KafkaNodes,
) -> list[bytes]:
    """Return the whole frame in pieces: the records of each partition are one."""
    pieces: list[bytes] = []
    results = iter(response.partitions)
    flexible = version >= _FLEXIBLE
    packed = _head(version, correlation, response.throttle_time_ms, 0)
    packed += _count(version, len(asked.topics))
    for topic in asked.topics:
        packed += from_uuid(topic.topic_id) if version >= _BY_ID else _text(version, topic.topic)
        packed += _count(version, len(topic.partitions))
        for _ in topic.partitions:
            found = next(results)
            records = found.records  # each look at a field of bytes copies it
            packed += _before_records(version, found, len(records))
            if records:
                pieces += (bytes(packed), records)
                packed = bytearray()
            if flexible:
                packed += _leader_tag(found, nodes)
        if flexible:
            packed += _NO_TAGS
    if flexible:
        packed += _endpoints_tag(version, response, nodes)
    pieces.append(bytes(packed))
    return _framed(pieces)


def _framed(pieces: list[bytes]) -> list[bytes]:
    return [struct.pack(">i", sum(map(len, pieces))), *pieces]


def _head(version: int, correlation: int, throttle_ms: int, code: int) -> bytearray:
    packed = bytearray(struct.pack(">i", correlation))
    if version >= _FLEXIBLE:
        packed += _NO_TAGS
    packed += struct.pack(">i", throttle_ms)
    if version >= _WITH_SESSIONS:
        packed += struct.pack(">hi", code, _NO_SESSION)
    return packed


def _before_records(version: int, found: pb.FetchPartitionResult, size: int) -> bytes:
    packed = struct.pack(">ih", found.partition, _code(version, found.error_code))
    packed += struct.pack(">qq", found.high_watermark, found.last_stable_offset)
    if version >= _WITH_LOG_START:
        packed += struct.pack(">q", found.log_start_offset)
    packed += _count(version, len(found.aborted_transactions))
    for each in found.aborted_transactions:
        packed += _ABORTED.pack(each.producer_id, each.first_offset)
        packed += _NO_TAGS if version >= _FLEXIBLE else b""
    if version >= _WITH_REPLICA:
        packed += struct.pack(">i", _NO_REPLICA)
    return packed + _count(version, size)


def _code(version: int, code: int) -> int:
    """Return a code that consumers know; where names are sent, an unknown topic is one of those."""
    if code == ErrorCode.UNKNOWN_TOPIC_ID and version < _BY_ID:
        return int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return code if code == ErrorCode.OFFSET_OUT_OF_RANGE else read_code(code)


def _leader_tag(found: pb.FetchPartitionResult, nodes: KafkaNodes) -> bytes:
    number = nodes.number(found.current_leader.leader_id)
    if number == NOBODY:
        return _NO_TAGS
    epoch = found.current_leader.leader_epoch
    return _LEADER.pack(1, _LEADER_TAG, _LEADER_BYTES, number, epoch, 0)


def _endpoints_tag(version: int, response: pb.FetchResponse, nodes: KafkaNodes) -> bytes:
    named = [nodes.named(each.node_id) for each in response.node_endpoints]
    found = [each for each in named if each is not None]
    if version < _WITH_ENDPOINTS or not found:
        return _NO_TAGS
    packed = compact_length(len(found)) + b"".join(
        struct.pack(">i", each.number)
        + compact_text(each.host)
        + struct.pack(">i", each.port)
        + nullable_text(each.rack or "")
        + _NO_TAGS
        for each in found
    )
    size = compact_length(len(packed) - 1)  # the size of a tagged field is not one more than it is
    return bytes((1, _ENDPOINTS_TAG)) + size + packed


def _count(version: int, count: int) -> bytes:
    return compact_length(count) if version >= _FLEXIBLE else struct.pack(">i", count)


def _text(version: int, text: str) -> bytes:
    if version >= _FLEXIBLE:
        return compact_text(text)
    encoded = text.encode()
    return struct.pack(">h", len(encoded)) + encoded
