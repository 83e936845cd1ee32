"""Metadata and DescribeCluster: who is there, and who leads what."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple
from uuid import UUID

from sharemesh.authorization.permitted_operations import NOT_ASKED_FOR
from sharemesh.domain.errors import ErrorCode, RefusedError
from sharemesh.domain.ids import TopicId
from sharemesh.domain.topics import check_topic_name
from sharemesh.kafka.messages import (
    Content,
    KafkaMessage,
    error_code,
    from_uuid,
    milliseconds,
    to_uuid,
)
from sharemesh.kafka_listener.failures import topic_code
from sharemesh.kafka_listener.nodes import NOBODY, KafkaNodes
from sharemesh.kafka_listener.translation.seen_request import SeenRequest
from sharemesh.v1 import admin_pb2 as pb

_ALL_IF_EMPTY = 0
"""In version 0 an empty list of topics asks for all, later only an absent one does."""

_BY_ID_FROM = 12
"""Versions 10 and 11 have ids too, but no answer without a name: Kafka takes none there."""

_BROKERS, _CONTROLLERS = 1, 2
_MISMATCHED_ENDPOINT_TYPE, _UNSUPPORTED_ENDPOINT_TYPE = 114, 115

NameOf = Callable[[TopicId], str | None]


class Permitted(NamedTuple):
    """Bit fields of the operations that are allowed, where somebody asked for them."""

    on_cluster: int
    on_topics: Mapping[str, int]


def to_request(seen: SeenRequest) -> pb.MetadataRequest:
    """Return our request; topics that are asked for by an unknown id are left out."""
    if _asks_for_all(seen):
        return pb.MetadataRequest()
    names = (_name(each, seen.name_of) for each in _wanted(seen.message))
    return pb.MetadataRequest(
        topics=pb.TopicNames(names=[each for each in names if each is not None])
    )


def has_ids_too_early(version: int, asked: KafkaMessage) -> bool:
    """Return whether a topic has an id, or no name, in a version whose answers need names."""
    return version < _BY_ID_FROM and any(
        each.name is None or _id(each) is not None for each in asked.topics or ()
    )


def not_by_id_yet(asked: KafkaMessage) -> Content:
    """Return the answer to a request that ``has_ids_too_early``."""
    return refused(asked, ErrorCode.INVALID_REQUEST, KafkaNodes(()), nameless="")


def to_answer(seen: SeenRequest, response: pb.MetadataResponse, permitted: Permitted) -> Content:
    """Return Kafka's answer: topics once each, in the order in which they were asked for."""
    by_name = {
        each.name: described_topic(each, seen.nodes, permitted.on_topics)
        for each in response.topics
    }
    topics = list(by_name.values())
    if not _asks_for_all(seen):
        topics = [_found(each, seen.name_of, by_name) for each in _wanted(seen.message)]
    return {**_cluster(response, seen.nodes, permitted.on_cluster), "topics": topics}


def refused(
    asked: KafkaMessage, code: int, nodes: KafkaNodes, *, nameless: str | None = None
) -> Content:
    """Return the answer to a request that was refused as a whole.

    ``nameless`` is the name of topics that have none: null, where the version lets it be null.
    """
    return {
        **_cluster(pb.MetadataResponse(), nodes),
        "cluster_id": None,  # clients name what they are told here when they connect (KIP-1242)
        "error_code": error_code(code),
        "topics": [
            _failed(
                topic_code(code),
                nameless if each.name is None else each.name,
                getattr(each, "topic_id", None),
            )
            for each in asked.topics or ()
        ],
    }


def wrong_endpoint(asked: KafkaMessage) -> tuple[int, str] | None:
    """Return why DescribeCluster is not answered: who asks it wants to reach something else."""
    kind = getattr(asked, "endpoint_type", _BROKERS)
    if kind == _BROKERS:
        return None
    if kind == _CONTROLLERS:
        why = "this is an endpoint of brokers: give its address as bootstrap.servers"
        return _MISMATCHED_ENDPOINT_TYPE, why
    return _UNSUPPORTED_ENDPOINT_TYPE, f"endpoint type {kind}: there are brokers (1) only"


def described_cluster(
    response: pb.MetadataResponse, nodes: KafkaNodes, permitted: int = NOT_ASKED_FOR
) -> Content:
    """Return the answer to DescribeCluster."""
    return {
        **_cluster(response, nodes, permitted),
        "error_message": None,
        "endpoint_type": 1,
        "brokers": [
            {
                "broker_id": each.number,
                "host": each.host,
                "port": each.port,
                "rack": each.rack,
                "is_fenced": False,
            }
            for each in nodes.all
        ],
    }


def cluster_not_described(code: int, message: str) -> Content:
    """Return the answer to a DescribeCluster that was refused."""
    return {
        **described_cluster(pb.MetadataResponse(), KafkaNodes(())),
        "error_code": error_code(code),
        "error_message": message,
    }


def is_told(topic: pb.TopicMetadata) -> bool:
    """Return whether the caller may see a topic, even if there is none of that name."""
    return topic.error_code != ErrorCode.TOPIC_AUTHORIZATION_FAILED


def _cluster(
    response: pb.MetadataResponse, nodes: KafkaNodes, permitted: int = NOT_ASKED_FOR
) -> dict[str, object]:
    return {
        "throttle_time": milliseconds(0),
        "error_code": error_code(ErrorCode.NONE),
        "brokers": [
            {"node_id": each.number, "host": each.host, "port": each.port, "rack": each.rack}
            for each in nodes.all
        ],
        "cluster_id": response.cluster_id,
        "controller_id": nodes.controller,
        "cluster_authorized_operations": permitted,
    }


def _asks_for_all(seen: SeenRequest) -> bool:
    topics = seen.message.topics
    return topics is None or (seen.version == _ALL_IF_EMPTY and not topics)


def _wanted(asked: KafkaMessage) -> list[KafkaMessage]:
    """Return the topics to be told: with an id among them, those with ids alone, as in Kafka."""
    by_id = {found: each for each in asked.topics if (found := _id(each)) is not None}
    return list((by_id or {each.name: each for each in asked.topics}).values())


def _id(topic: KafkaMessage) -> UUID | None:
    found: UUID | None = getattr(topic, "topic_id", None)
    return found


_FORBIDDEN = error_code(ErrorCode.TOPIC_AUTHORIZATION_FAILED)


def _name(topic: KafkaMessage, name_of: NameOf) -> str | None:
    topic_id = _id(topic)
    if topic_id is not None or topic.name is None:
        return name_of(from_uuid(topic_id))
    return str(topic.name)


def _found(
    topic: KafkaMessage, name_of: NameOf, by_name: Mapping[str, dict[str, object]]
) -> dict[str, object]:
    topic_id = _id(topic)
    name = _name(topic, name_of)
    found = None if name is None else by_name.get(name)
    if topic_id is None and name is not None:
        return found or _failed(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, name, None)
    if found is None or found["error_code"] == _FORBIDDEN or found["topic_id"] != topic_id:
        # One answer for what is absent and what is forbidden: the name is not the caller's.
        return _failed(ErrorCode.UNKNOWN_TOPIC_ID, None, topic_id)
    return found


def _failed(code: int, name: str | None, topic_id: object) -> dict[str, object]:
    return {
        "error_code": error_code(code),
        "name": name,
        "topic_id": topic_id,
        "is_internal": False,
        "partitions": (),
        "topic_authorized_operations": NOT_ASKED_FOR,
    }


def described_topic(
    topic: pb.TopicMetadata, nodes: KafkaNodes, permitted: Mapping[str, int]
) -> dict[str, object]:
    """Return one topic with its partitions and what is ``permitted``, or why it is not told."""
    code = topic.error_code
    if code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and not _may_exist(topic.name):
        code = ErrorCode.INVALID_TOPIC_EXCEPTION
    topic_id = to_uuid(TopicId(topic.topic_id)) if topic.topic_id else None
    return _failed(code, topic.name, topic_id) | {
        "partitions": [_partition(each, nodes) for each in topic.partitions],
        "topic_authorized_operations": permitted.get(topic.name, NOT_ASKED_FOR),
    }


def _may_exist(name: str) -> bool:
    try:
        check_topic_name(name)
    except RefusedError:
        return False
    return True


def _partition(partition: pb.PartitionMetadata, nodes: KafkaNodes) -> dict[str, object]:
    """Return who leads; a leader that Kafka's clients cannot reach is none for them."""
    leader = nodes.number(partition.leader_id)
    code = partition.error_code
    if leader == NOBODY and not code:
        code = ErrorCode.LEADER_NOT_AVAILABLE
    replicas = _reachable([partition.leader_id, *partition.standbys], nodes)
    return {
        "error_code": error_code(code),
        "partition_index": partition.partition,
        "leader_id": leader,
        "leader_epoch": partition.leader_epoch,
        "replica_nodes": replicas,
        "isr_nodes": replicas,
        "offline_replicas": (),
    }


def _reachable(node_ids: Sequence[str], nodes: KafkaNodes) -> tuple[int, ...]:
    numbers = dict.fromkeys(nodes.number(each) for each in node_ids)
    return tuple(each for each in numbers if each != NOBODY)
