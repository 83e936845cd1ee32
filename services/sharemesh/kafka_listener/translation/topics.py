"""CreateTopics, DeleteTopics and CreatePartitions."""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple
from uuid import UUID

from sharemesh.domain.errors import ErrorCode
from sharemesh.domain.ids import TopicId
from sharemesh.domain.topics import TOPIC_CONFIGS
from sharemesh.kafka.messages import (
    Content,
    KafkaMessage,
    error_code,
    from_uuid,
    milliseconds,
    to_uuid,
)
from sharemesh.kafka_listener.translation.config_entries import created_entries
from sharemesh.kafka_listener.translation.seen_request import SeenRequest
from sharemesh.v1 import admin_pb2 as pb

INVALID_REPLICATION_FACTOR = 38
INVALID_REPLICA_ASSIGNMENT = 39
_BY_ID_FROM = 6
_BY_DEFAULT = -1
_PARTITIONS_BY_DEFAULT = 1
_Refusal = tuple[int, str]
_PLACED_ELSEWHERE: _Refusal = (
    INVALID_REPLICA_ASSIGNMENT,
    "the controller places partitions: send their number without an assignment",
)


class _Deletion(NamedTuple):
    """One topic to be deleted, by its name as far as it is known, or why it is not tried."""

    name: str | None
    topic_id: TopicId | None
    sent_name: str | None
    refused: str


def create_request(seen: SeenRequest) -> pb.CreateTopicsRequest:
    """Return our request: of topics that can be passed on."""
    request = pb.CreateTopicsRequest(validate_only=seen.message.validate_only)
    for topic in seen.message.topics:
        if _creation_refused(seen, topic) is None:
            request.topics.add(
                name=topic.name, partitions=_partitions(topic), configs=_configs(topic)
            )
    return request


def create_answer(seen: SeenRequest, response: pb.CreateTopicsResponse) -> Content:
    """Return Kafka's answer, in the order of the request."""
    results = iter(response.topics)

    def told(topic: KafkaMessage) -> dict[str, object]:
        refused = _creation_refused(seen, topic)
        if refused is not None:
            return _not_created(topic.name, *refused)
        found = next(results)
        if found.error_code:
            return _not_created(topic.name, found.error_code, found.error_message)
        return _not_created(topic.name, ErrorCode.NONE, "") | {
            "topic_id": to_uuid(TopicId(found.topic_id)),
            "num_partitions": found.partitions,
            "replication_factor": 1 if topic.replication_factor < 1 else topic.replication_factor,
            "configs": created_entries(TOPIC_CONFIGS, _configs(topic)),
        }

    return _created([told(each) for each in seen.message.topics], response.throttle_time_ms)


def create_refused(seen: SeenRequest, code: int, message: str) -> Content:
    """Return the answer to a request that was refused as a whole."""
    return _created([_not_created(each.name, code, message) for each in seen.message.topics], 0)


def delete_request(seen: SeenRequest) -> pb.DeleteTopicsRequest:
    """Return our request: of topics whose names are known, each of them once."""
    named = (each.name for each in _deletions(seen) if not each.refused)
    return pb.DeleteTopicsRequest(names=dict.fromkeys(each for each in named if each is not None))


def delete_answer(seen: SeenRequest, response: pb.DeleteTopicsResponse) -> Content:
    """Return Kafka's answer, in the order of the request."""
    found = {each.name: each for each in response.topics}

    def told(deletion: _Deletion) -> dict[str, object]:
        name, topic_id = deletion.name, deletion.topic_id
        if deletion.refused:
            return _not_deleted(deletion, ErrorCode.INVALID_REQUEST, deletion.refused)
        result = None if name is None else found.get(name)
        if result is None:
            return _not_deleted(deletion, ErrorCode.UNKNOWN_TOPIC_ID, "no topic has this id")
        known = TopicId(result.topic_id) if result.topic_id else topic_id
        if topic_id is not None and result.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
            return _deletion(None, known, result.error_code, "")  # the name is not the caller's
        return _deletion(name, known, result.error_code, result.error_message)

    return _deleted([told(each) for each in _deletions(seen)], response.throttle_time_ms)


def delete_refused(seen: SeenRequest, code: int, message: str) -> Content:
    """Return the answer to a request that was refused as a whole."""
    return _deleted([_not_deleted(each, code, message) for each in _deletions(seen)], 0)


def grow_request(seen: SeenRequest) -> pb.CreatePartitionsRequest:
    """Return our request: of topics that can be passed on."""
    return pb.CreatePartitionsRequest(
        validate_only=seen.message.validate_only,
        topics=[
            pb.NewPartitions(name=each.name, total=each.count)
            for each in seen.message.topics
            if not each.assignments
        ],
    )


def grow_answer(seen: SeenRequest, response: pb.CreatePartitionsResponse) -> Content:
    """Return Kafka's answer, in the order of the request."""
    results = iter(response.topics)

    def told(topic: KafkaMessage) -> dict[str, object]:
        if topic.assignments:
            return _growth(topic.name, *_PLACED_ELSEWHERE)
        found = next(results)
        return _growth(topic.name, found.error_code, found.error_message)

    return _grown([told(each) for each in seen.message.topics], response.throttle_time_ms)


def grow_refused(seen: SeenRequest, code: int, message: str) -> Content:
    """Return the answer to a request that was refused as a whole."""
    return _grown([_growth(each.name, code, message) for each in seen.message.topics], 0)


def _creation_refused(seen: SeenRequest, topic: KafkaMessage) -> _Refusal | None:
    """Return why a topic is not created, if it is known before it is asked for."""
    if topic.assignments:
        return _PLACED_ELSEWHERE
    unset = next((each.name for each in topic.configs if each.value is None), None)
    if unset is not None:
        return ErrorCode.INVALID_CONFIG, f"{unset[:100]} has no value: send one, or leave it out"
    copies, nodes = topic.replication_factor, len(seen.nodes.all)
    if copies != _BY_DEFAULT and not 1 <= copies <= max(nodes, 1):
        return (
            INVALID_REPLICATION_FACTOR,
            f"replication factor {copies}: send -1, or 1 to {max(nodes, 1)}, the processes with a "
            "listener",
        )
    return None


def _partitions(topic: KafkaMessage) -> int:
    asked: int = topic.num_partitions
    return _PARTITIONS_BY_DEFAULT if asked == _BY_DEFAULT else asked


def _configs(topic: KafkaMessage) -> dict[str, str]:
    return {each.name: each.value for each in topic.configs}


def _not_created(name: str, code: int, message: str) -> dict[str, object]:
    return {
        "name": name,
        "topic_id": None,
        "error_code": error_code(code),
        "error_message": message or None,
        "topic_config_error_code": 0,
        "num_partitions": -1,
        "replication_factor": -1,
        "configs": (),
    }


def _created(topics: Sequence[dict[str, object]], throttle_ms: int) -> Content:
    return {"throttle_time": milliseconds(throttle_ms), "topics": topics}


def _deletions(seen: SeenRequest) -> list[_Deletion]:
    """Return what is to be deleted; what was sent twice is refused, and told once."""
    if seen.version < _BY_ID_FROM:
        sent = Counter((each, None) for each in seen.message.topic_names)
    else:
        sent = Counter((each.name, each.topic_id) for each in seen.message.topics)
    return [_asked_for(seen, *each, is_twice=count > 1) for each, count in sent.items()]


def _asked_for(
    seen: SeenRequest, name: str | None, given: UUID | None, *, is_twice: bool
) -> _Deletion:
    topic_id = None if given is None else from_uuid(given)
    if (name is None) == (topic_id is None):
        return _Deletion(name, topic_id, name, "name a topic either by its name or by its id")
    if is_twice:
        return _Deletion(name, topic_id, name, "the topic is named twice: name it once")
    known = seen.name_of(topic_id) if topic_id is not None else name
    return _Deletion(known, topic_id, name, "")


def _not_deleted(deletion: _Deletion, code: int, message: str) -> dict[str, object]:
    """Nobody has looked at rights: who named a topic by its id is not told its name."""
    return _deletion(deletion.sent_name, deletion.topic_id, code, message)


def _deletion(
    name: str | None, topic_id: TopicId | None, code: int, message: str
) -> dict[str, object]:
    return {
        "name": name,
        "topic_id": None if topic_id is None else to_uuid(topic_id),
        "error_code": error_code(code),
        "error_message": message or None,
    }


def _deleted(topics: Sequence[dict[str, object]], throttle_ms: int) -> Content:
    return {"throttle_time": milliseconds(throttle_ms), "responses": topics}


def _growth(name: str, code: int, message: str) -> dict[str, object]:
    return {"name": name, "error_code": error_code(code), "error_message": message or None}


def _grown(topics: Sequence[dict[str, object]], throttle_ms: int) -> Content:
    return {"throttle_time": milliseconds(throttle_ms), "results": topics}
