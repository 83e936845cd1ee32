"""Produce and InitProducerId."""

from collections.abc import Callable, Iterator

from sharemesh.domain.errors import ErrorCode
from sharemesh.kafka.messages import (
    Content,
    KafkaMessage,
    error_code,
    from_uuid,
    in_milliseconds,
    milliseconds,
)
from sharemesh.kafka_listener.failures import produce_code
from sharemesh.kafka_listener.nodes import KafkaNodes
from sharemesh.v1 import record_log_pb2 as pb

NO_ANSWER = 0
_ACKNOWLEDGEMENTS = (-1, 0, 1)
INVALID_REQUIRED_ACKS = 21
_FIRST_BY_ID = 13
_NOTHING = -1


def accepts(asked: KafkaMessage) -> bool:
    """Return whether the number of acknowledgements is one; all of them mean all."""
    return asked.acks in _ACKNOWLEDGEMENTS


def to_request(version: int, asked: KafkaMessage) -> pb.ProduceRequest:
    """Return our request, its partitions in the same order."""
    request = pb.ProduceRequest(
        timeout_ms=max(0, in_milliseconds(asked.timeout)),
        transactional_id=asked.transactional_id or "",
    )
    for topic, part in _parts(asked):
        listed = request.partitions.add(partition=part.index, records=part.records or b"")
        if version >= _FIRST_BY_ID:
            listed.topic_id = from_uuid(topic.topic_id)
        else:
            listed.topic_name = topic.name
    return request


def to_answer(
    version: int, asked: KafkaMessage, response: pb.ProduceResponse, nodes: KafkaNodes
) -> Content:
    """Return Kafka's answer."""
    results = iter(response.partitions)
    by_id = version >= _FIRST_BY_ID

    def told(part: KafkaMessage) -> dict[str, object]:
        found = next(results)
        code = found.error_code
        if code == ErrorCode.UNKNOWN_TOPIC_ID and not by_id:
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION  # Kafka's code where a name was sent
        entry = _part(part, code, found.error_message) | {
            "base_offset": found.base_offset,
            "log_start_offset": found.log_start_offset,
        }
        leader = nodes.number(found.current_leader.leader_id)
        if leader >= 0:
            epoch = found.current_leader.leader_epoch
            entry["current_leader"] = {"leader_id": leader, "leader_epoch": epoch}
        return entry

    return _answer(asked, told) | {
        "throttle_time": milliseconds(response.throttle_time_ms),
        "node_endpoints": nodes.endpoints(each.node_id for each in response.node_endpoints),
    }


def refused(asked: KafkaMessage, code: int, message: str) -> Content:
    """Return the answer to a request that was refused as a whole."""
    return _answer(asked, lambda part: _part(part, code, message))


def failed(response: pb.ProduceResponse) -> bool:
    """Return whether a producer that wants no answer has to be told by a closed connection."""
    return any(each.error_code for each in response.partitions)


def producer_to_request(asked: KafkaMessage) -> pb.InitProducerIdRequest:
    """Return our request for a producer id."""
    return pb.InitProducerIdRequest(
        producer_id=getattr(asked, "producer_id", _NOTHING),
        producer_epoch=getattr(asked, "producer_epoch", _NOTHING),
    )


def producer_to_answer(response: pb.InitProducerIdResponse) -> Content:
    """Return Kafka's answer with a producer id."""
    return _producer(response.error_code, response.producer_id, response.producer_epoch)


def no_producer(code: int) -> Content:
    """Return the answer to a request for a producer id that was refused."""
    return _producer(code, _NOTHING, _NOTHING)


def _producer(code: int, producer_id: int, epoch: int) -> Content:
    return {
        "throttle_time": milliseconds(0),
        "error_code": error_code(code),
        "producer_id": producer_id,
        "producer_epoch": epoch,
    }


def _parts(asked: KafkaMessage) -> Iterator[tuple[KafkaMessage, KafkaMessage]]:
    for topic in asked.topic_data:
        for part in topic.partition_data:
            yield topic, part


def _answer(
    asked: KafkaMessage, told: Callable[[KafkaMessage], dict[str, object]]
) -> dict[str, object]:
    return {
        "throttle_time": milliseconds(0),
        "responses": [
            {
                "name": getattr(topic, "name", None),
                "topic_id": getattr(topic, "topic_id", None),
                "partition_responses": [told(part) for part in topic.partition_data],
            }
            for topic in asked.topic_data
        ],
    }


def _part(part: KafkaMessage, code: int, message: str) -> dict[str, object]:
    return {
        "index": part.index,
        "error_code": error_code(produce_code(code)),
        "base_offset": _NOTHING,
        "log_append_time": None,
        "log_start_offset": _NOTHING,
        "record_errors": (),
        "error_message": message or None,
    }
