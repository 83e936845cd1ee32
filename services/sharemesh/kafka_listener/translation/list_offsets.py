"""ListOffsets: the ends of partitions, and offsets by time."""

from collections.abc import Callable, Iterator

from sharemesh.domain.errors import ErrorCode
from sharemesh.kafka.messages import Content, KafkaMessage, error_code, milliseconds
from sharemesh.v1 import record_log_pb2 as pb

_LATEST, _EARLIEST, _EARLIEST_HERE, _LATEST_ELSEWHERE = -1, -2, -4, -5
_OUR_LAST_STABLE = -4
_READ_COMMITTED = 1
_NOTHING = -1

_Part = tuple[KafkaMessage, KafkaMessage]


def to_request(asked: KafkaMessage) -> pb.ListOffsetsRequest:
    """Return our request, its partitions in the same order."""
    committed = getattr(asked, "isolation_level", 0) == _READ_COMMITTED
    return pb.ListOffsetsRequest(
        partitions=[
            pb.ListOffsetsPartition(
                topic_name=topic.name,
                partition=part.partition_index,
                timestamp=_timestamp(part.timestamp, committed=committed),
            )
            for topic, part in _parts(asked)
        ]
    )


def to_answer(asked: KafkaMessage, response: pb.ListOffsetsResponse) -> Content:
    """Return Kafka's answer."""
    results = iter(response.partitions)

    def told(part: KafkaMessage) -> dict[str, object]:
        found = next(results)
        code = ErrorCode(found.error_code)
        if code is ErrorCode.UNKNOWN_TOPIC_ID:
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION  # Kafka's code where a name was sent
        if part.timestamp == _LATEST_ELSEWHERE:
            return _part(part, code)
        return _part(part, code) | {
            "timestamp": found.timestamp,
            "offset": found.offset,
            "leader_epoch": found.leader_epoch if not code else _NOTHING,
        }

    return _answer(asked, told)


def refused(asked: KafkaMessage, code: int) -> Content:
    """Return the answer to a request that was refused as a whole."""
    return _answer(asked, lambda part: _part(part, code))


def _answer(asked: KafkaMessage, told: Callable[[KafkaMessage], dict[str, object]]) -> Content:
    return {
        "throttle_time": milliseconds(0),
        "topics": [
            {"name": topic.name, "partitions": [told(part) for part in topic.partitions]}
            for topic in asked.topics
        ],
    }


def _parts(asked: KafkaMessage) -> Iterator[_Part]:
    for topic in asked.topics:
        for part in topic.partitions:
            yield topic, part


def _timestamp(asked: int, *, committed: bool) -> int:
    """Nothing lies on other storage: of its latest offset only the right is asked for."""
    if asked == _LATEST_ELSEWHERE:
        return _LATEST
    if asked == _LATEST and committed:
        return _OUR_LAST_STABLE
    return _EARLIEST if asked == _EARLIEST_HERE else asked


def _part(part: KafkaMessage, code: int) -> dict[str, object]:
    return {
        "partition_index": part.partition_index,
        "error_code": error_code(code),
        "timestamp": _NOTHING,
        "offset": _NOTHING,
        "leader_epoch": _NOTHING,
    }
