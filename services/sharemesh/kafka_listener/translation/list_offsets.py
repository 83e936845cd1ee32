"""ListOffsets: the ends of partitions, and offsets by time."""

from collections import Counter
from collections.abc import Callable, Iterator

from sharemesh.domain.errors import ErrorCode
from sharemesh.kafka.messages import Content, KafkaMessage, error_code, milliseconds
from sharemesh.v1 import record_log_pb2 as pb

_LATEST, _EARLIEST, _MAX_TIMESTAMP, _EARLIEST_HERE = -1, -2, -3, -4
_LATEST_ELSEWHERE, _EARLIEST_NOT_YET_ELSEWHERE = -5, -6
_SINCE = {
    _LATEST: 0,
    _EARLIEST: 0,
    _MAX_TIMESTAMP: 7,
    _EARLIEST_HERE: 8,
    _LATEST_ELSEWHERE: 9,
    _EARLIEST_NOT_YET_ELSEWHERE: 11,
}
"""The version from which on Kafka's brokers know a special value; others they know in none."""

_UNSUPPORTED_VERSION = 35
_OUR_LAST_STABLE = -4
_READ_COMMITTED = 1
_NOTHING = -1

_Part = tuple[KafkaMessage, KafkaMessage]


def to_request(asked: KafkaMessage) -> pb.ListOffsetsRequest:
    """Return our request: of partitions that were sent once, in the same order."""
    doubled = _doubled(asked)
    committed = getattr(asked, "isolation_level", 0) == _READ_COMMITTED
    return pb.ListOffsetsRequest(
        partitions=[
            pb.ListOffsetsPartition(
                topic_name=topic.name,
                partition=part.partition_index,
                timestamp=_timestamp(part.timestamp, committed=committed),
                current_leader_epoch=_epoch(part),
            )
            for topic, part in _parts(asked)
            if (topic.name, part.partition_index) not in doubled
        ]
    )


def to_answer(version: int, asked: KafkaMessage, response: pb.ListOffsetsResponse) -> Content:
    """Return Kafka's answer."""
    results, doubled = iter(response.partitions), _doubled(asked)

    def told(topic: KafkaMessage, part: KafkaMessage) -> dict[str, object]:
        if (topic.name, part.partition_index) in doubled:
            return _part(part, ErrorCode.INVALID_REQUEST)
        found = next(results)
        code = ErrorCode(found.error_code)
        if code is ErrorCode.UNKNOWN_TOPIC_ID:
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION  # Kafka's code where a name was sent
        if not code and not _knows(version, part.timestamp):
            return _part(part, _UNSUPPORTED_VERSION)
        if part.timestamp in (_LATEST_ELSEWHERE, _EARLIEST_NOT_YET_ELSEWHERE):
            return _part(part, code)
        return _part(part, code) | {
            "timestamp": found.timestamp,
            "offset": found.offset,
            "leader_epoch": found.leader_epoch if found.offset >= 0 else _NOTHING,
        }

    return _answer(asked, told)


def refused(asked: KafkaMessage, code: int) -> Content:
    """Return the answer to a request that was refused as a whole."""
    return _answer(asked, lambda _, part: _part(part, code))


def _answer(
    asked: KafkaMessage, told: Callable[[KafkaMessage, KafkaMessage], dict[str, object]]
) -> Content:
    return {
        "throttle_time": milliseconds(0),
        "topics": [
            {"name": topic.name, "partitions": [told(topic, part) for part in topic.partitions]}
            for topic in asked.topics
        ],
    }


def _parts(asked: KafkaMessage) -> Iterator[_Part]:
    for topic in asked.topics:
        for part in topic.partitions:
            yield topic, part


def _doubled(asked: KafkaMessage) -> frozenset[tuple[str, int]]:
    sent = Counter((topic.name, part.partition_index) for topic, part in _parts(asked))
    return frozenset(each for each, count in sent.items() if count > 1)


def _knows(version: int, timestamp: int) -> bool:
    return timestamp >= 0 or (timestamp in _SINCE and version >= _SINCE[timestamp])


def _timestamp(asked: int, *, committed: bool) -> int:
    """Nothing lies on other storage: for its offsets, as for unknown ones, rights are asked."""
    if asked == _EARLIEST_HERE:
        return _EARLIEST
    if asked == _LATEST and committed:
        return _OUR_LAST_STABLE
    is_asked = asked >= 0 or asked in (_EARLIEST, _MAX_TIMESTAMP)
    return asked if is_asked else _LATEST


def _epoch(part: KafkaMessage) -> int | None:
    """Return the leader epoch that the client knows (version 4 and later); None: none."""
    epoch: int = getattr(part, "current_leader_epoch", _NOTHING)
    return epoch if epoch >= 0 else None


def _part(part: KafkaMessage, code: int) -> dict[str, object]:
    return {
        "partition_index": part.partition_index,
        "error_code": error_code(code),
        "timestamp": _NOTHING,
        "offset": _NOTHING,
        "leader_epoch": _NOTHING,
    }
