"""DeleteRecords."""

from collections.abc import Callable, Iterator

from sharemesh.domain.errors import ErrorCode
from sharemesh.kafka.messages import Content, KafkaMessage, error_code, milliseconds
from sharemesh.kafka_listener.translation.seen_request import SeenRequest
from sharemesh.v1 import record_log_pb2 as pb

_NOTHING = -1


def to_request(seen: SeenRequest) -> pb.DeleteRecordsRequest:
    """Return our request, its partitions in the same order."""
    return pb.DeleteRecordsRequest(
        partitions=[
            pb.DeleteRecordsPartition(
                topic_name=topic.name, partition=part.partition_index, offset=part.offset
            )
            for topic, part in _parts(seen)
        ]
    )


def to_answer(seen: SeenRequest, response: pb.DeleteRecordsResponse) -> Content:
    """Return Kafka's answer."""
    results = iter(response.partitions)

    def told(part: KafkaMessage) -> dict[str, object]:
        found = next(results)
        code = ErrorCode(found.error_code)
        if code is ErrorCode.UNKNOWN_TOPIC_ID:
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION  # Kafka's code where a name was sent
        return _part(part, code) | {"low_watermark": found.low_watermark}

    return _answer(seen, told)


def refused(seen: SeenRequest, code: int, _: str) -> Content:
    """Return the answer to a request that was refused as a whole."""
    return _answer(seen, lambda part: _part(part, code))


def _parts(seen: SeenRequest) -> Iterator[tuple[KafkaMessage, KafkaMessage]]:
    for topic in seen.message.topics:
        for part in topic.partitions:
            yield topic, part


def _answer(seen: SeenRequest, told: Callable[[KafkaMessage], dict[str, object]]) -> Content:
    return {
        "throttle_time": milliseconds(0),
        "topics": [
            {"name": topic.name, "partitions": [told(part) for part in topic.partitions]}
            for topic in seen.message.topics
        ],
    }


def _part(part: KafkaMessage, code: int) -> dict[str, object]:
    return {
        "partition_index": part.partition_index,
        "low_watermark": _NOTHING,
        "error_code": error_code(code),
    }
