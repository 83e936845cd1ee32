"""ListOffsets: the ends of partitions, and offsets by time."""

from collections.abc import Callable, Iterator

from sharemesh.domain.errors import ErrorCode
from sharemesh.domain.ids import TopicId
from sharemesh.kafka.messages import Content, KafkaMessage, error_code, milliseconds
from sharemesh.v1 import record_log_pb2 as pb

_LATEST, _EARLIEST, _EARLIEST_HERE, _LATEST_ELSEWHERE = -1, -2, -4, -5
_OUR_LAST_STABLE = -4
_READ_COMMITTED = 1
_NOTHING = -1

IdOf = Callable[[str], TopicId | None]
_Part = tuple[KafkaMessage, KafkaMessage]


def to_request(asked: KafkaMessage, id_of: IdOf) -> pb.ListOffsetsRequest:
    """Return our request: of partitions whose topics are known, and that have to be asked for."""
    committed = getattr(asked, "isolation_level", 0) == _READ_COMMITTED
    return pb.ListOffsetsRequest(
        partitions=[
            pb.ListOffsetsPartition(
                topic_id=id_of(topic.name),
                partition=part.partition_index,
                timestamp=_timestamp(part.timestamp, committed=committed),
            )
            for topic, part in _parts(asked)
            if _is_asked(topic, part, id_of)
        ]
    )


def to_answer(asked: KafkaMessage, response: pb.ListOffsetsResponse, id_of: IdOf) -> Content:
    """Return Kafka's answer."""
    results = iter(response.partitions)

    def told(topic: KafkaMessage, part: KafkaMessage) -> dict[str, object]:
        if not _is_asked(topic, part, id_of):
            unknown = id_of(topic.name) is None
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if unknown else ErrorCode.NONE
            return _part(part, code)
        found = next(results)
        code = ErrorCode(found.error_code)
        if code is ErrorCode.UNKNOWN_TOPIC_ID:
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION  # Kafka's code where a name was sent
        return _part(part, code) | {
            "timestamp": found.timestamp,
            "offset": found.offset,
            "leader_epoch": found.leader_epoch if not code else _NOTHING,
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


def _is_asked(topic: KafkaMessage, part: KafkaMessage, id_of: IdOf) -> bool:
    """Nothing lies on other storage: its latest offset is none."""
    return part.timestamp != _LATEST_ELSEWHERE and id_of(topic.name) is not None


def _timestamp(asked: int, *, committed: bool) -> int:
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
