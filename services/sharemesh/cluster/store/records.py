"""The values in the coordination store: JSON with a format version.

Fields that this build does not know are ignored, so that new ones may be added. A higher
``v`` means that old readers would go wrong: it is refused.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from sharemesh.domain.ids import NodeId, TopicId, format_topic_id, parse_topic_id
from sharemesh.ports.cluster import KafkaEndpoint, NodeInfo, Role, TopicInfo

FORMAT_VERSION = 1
WHY_CHARS_MAX = 500


class RecordFormatError(Exception):
    """A stored value cannot be read; the message says which and why."""


class AssignmentState(StrEnum):
    """How far an assignment is."""

    SERVING = "serving"
    MOVING = "moving"  # from a live leader to another: the old one drains first


@dataclass(frozen=True, slots=True)
class ClusterRecord:
    """What is fixed when a cluster is created."""

    cluster_id: str
    group_shards: int
    state_shards: int


@dataclass(frozen=True, slots=True)
class PartitionAssignment:
    """Who should lead a topic-partition; ``leader_epoch`` is the highest ever claimed."""

    leader: NodeId
    standbys: tuple[NodeId, ...]
    leader_epoch: int
    state: AssignmentState = AssignmentState.SERVING


@dataclass(frozen=True, slots=True)
class Claim:
    """Who leads a topic-partition, under which epoch.

    ``handing_over`` is the epoch of a leader before that gave the claim on while it hands its locks
    over (HND-13); 0: there is none.
    """

    node_id: NodeId
    leader_epoch: int
    handing_over: int = 0


@dataclass(frozen=True, slots=True)
class Trouble:
    """Why a node could not lead a topic-partition."""

    node_id: NodeId
    why: str


@dataclass(frozen=True, slots=True)
class Deletion:
    """A topic that is gone while its directories may not be.

    ``kept``: it was detached and may come back; its leader epochs are not forgotten yet (KTP-19).
    """

    name: str
    topic_id: TopicId
    partitions: int
    kept: bool = False


def encode(fields: Mapping[str, object]) -> bytes:
    """Return a value with the format version."""
    return json.dumps({"v": FORMAT_VERSION, **fields}, separators=(",", ":")).encode()


def decode(value: bytes) -> Mapping[str, object]:
    """Return the fields of a value.

    Raises:
        RecordFormatError: Not JSON, or of a newer format.
    """
    try:
        fields = json.loads(value)
    except ValueError as error:
        raise RecordFormatError(f"not JSON: {value[:60]!r} ({error})") from None
    if not isinstance(fields, dict):
        raise RecordFormatError(f"not a JSON object: {value[:60]!r}")
    version = fields.get("v")
    if not isinstance(version, int) or version < 1:
        raise RecordFormatError(f"no format version: {value[:60]!r}")
    if version > FORMAT_VERSION:
        raise RecordFormatError(
            f"format {version}, this build reads up to {FORMAT_VERSION}; upgrade this process"
        )
    return fields


def text(fields: Mapping[str, object], name: str, default: str | None = None) -> str:
    """Return a text field."""
    found = fields.get(name, default)
    if not isinstance(found, str):
        raise RecordFormatError(f"field {name!r} is {found!r}, not a text")
    return found


def integer(fields: Mapping[str, object], name: str, default: int | None = None) -> int:
    """Return an integer field."""
    found = fields.get(name, default)
    if not isinstance(found, int) or isinstance(found, bool):
        raise RecordFormatError(f"field {name!r} is {found!r}, not an integer")
    return found


def texts(fields: Mapping[str, object], name: str) -> tuple[str, ...]:
    """Return a field that is a list of texts; absent means none."""
    found = fields.get(name, [])
    if not isinstance(found, list) or not all(isinstance(item, str) for item in found):
        raise RecordFormatError(f"field {name!r} is {found!r}, not a list of texts")
    return tuple(found)


def text_map(fields: Mapping[str, object], name: str) -> dict[str, str]:
    """Return a field that maps texts to texts; absent means none."""
    found = fields.get(name, {})
    if not isinstance(found, dict) or not all(isinstance(item, str) for item in found.values()):
        raise RecordFormatError(f"field {name!r} is {found!r}, not a map of texts")
    return dict(found)


def topic_id(fields: Mapping[str, object], name: str) -> TopicId:
    """Return a topic id field (text form)."""
    found = text(fields, name)
    try:
        return parse_topic_id(found)
    except Exception as error:
        raise RecordFormatError(f"field {name!r}: {error}") from None


def encode_cluster(record: ClusterRecord) -> bytes:
    """Return the value of ``cluster``."""
    return encode(
        {
            "cluster_id": record.cluster_id,
            "group_shards": record.group_shards,
            "state_shards": record.state_shards,
        }
    )


def decode_cluster(value: bytes) -> ClusterRecord:
    """Return what is in ``cluster``."""
    fields = decode(value)
    return ClusterRecord(
        text(fields, "cluster_id"), integer(fields, "group_shards"), integer(fields, "state_shards")
    )


def encode_member(node: NodeInfo) -> bytes:
    """Return the value of a registration."""
    kafka = node.kafka
    told = {} if kafka is None else {"kafka": [kafka.number, kafka.host, kafka.port]}
    return encode(
        {
            "host": node.host,
            "port": node.port,
            "roles": [str(role) for role in node.roles],
            "rack": node.rack,
            "version": node.version,
            "draining": node.draining,
            "pid": node.pid,
            **told,
        }
    )


def decode_member(node_id: NodeId, value: bytes) -> NodeInfo:
    """Return a registered node; roles that this build does not know are left out."""
    fields = decode(value)
    known = {str(role): role for role in Role}
    return NodeInfo(
        node_id=node_id,
        host=text(fields, "host"),
        port=integer(fields, "port"),
        roles=tuple(known[role] for role in texts(fields, "roles") if role in known),
        rack=text(fields, "rack", ""),
        version=text(fields, "version", ""),
        draining=fields.get("draining") is True,
        pid=integer(fields, "pid", 0),
        kafka=_kafka_endpoint(fields.get("kafka")),
    )


def _kafka_endpoint(value: object) -> KafkaEndpoint | None:
    match value:
        case [int(number), str(host), int(port)]:
            return KafkaEndpoint(number, host, port)
        case _:
            return None


def encode_topic(topic: TopicInfo) -> bytes:
    """Return the value of a topic record."""
    return encode(
        {
            "topic_id": format_topic_id(topic.topic_id),
            "partitions": topic.partitions,
            "configs": dict(topic.configs),
        }
    )


def decode_topic(name: str, value: bytes) -> TopicInfo:
    """Return a topic."""
    fields = decode(value)
    return TopicInfo(
        name,
        topic_id(fields, "topic_id"),
        integer(fields, "partitions"),
        text_map(fields, "configs"),
    )


def encode_assignment(assignment: PartitionAssignment) -> bytes:
    """Return the value of an assignment."""
    return encode(
        {
            "leader": assignment.leader,
            "standbys": list(assignment.standbys),
            "epoch": assignment.leader_epoch,
            "state": str(assignment.state),
        }
    )


def decode_assignment(value: bytes) -> PartitionAssignment:
    """Return an assignment."""
    fields = decode(value)
    moving = fields.get("state") == AssignmentState.MOVING
    return PartitionAssignment(
        NodeId(text(fields, "leader")),
        tuple(NodeId(standby) for standby in texts(fields, "standbys")),
        integer(fields, "epoch"),
        AssignmentState.MOVING if moving else AssignmentState.SERVING,
    )


def encode_claim(claim: Claim) -> bytes:
    """Return the value of a claim."""
    told = {"handing_over": claim.handing_over} if claim.handing_over else {}
    return encode({"node": claim.node_id, "epoch": claim.leader_epoch, **told})


def decode_claim(value: bytes) -> Claim:
    """Return a claim."""
    fields = decode(value)
    handing_over = integer(fields, "handing_over", 0)
    return Claim(NodeId(text(fields, "node")), integer(fields, "epoch"), handing_over)


def encode_deletion(deletion: Deletion) -> bytes:
    """Return the value of a deletion note."""
    kept = {"kept": 1} if deletion.kept else {}
    return encode({"name": deletion.name, "partitions": deletion.partitions, **kept})


def decode_deletion(deleted_id: TopicId, value: bytes) -> Deletion:
    """Return a deletion note."""
    fields = decode(value)
    kept = integer(fields, "kept", 0) > 0
    return Deletion(text(fields, "name"), deleted_id, integer(fields, "partitions"), kept)


def encode_trouble(trouble: Trouble) -> bytes:
    """Return the value of a note of trouble; its text is cut at ``WHY_CHARS_MAX``."""
    return encode({"node": trouble.node_id, "why": trouble.why[:WHY_CHARS_MAX]})


def decode_trouble(value: bytes) -> Trouble:
    """Return a note of trouble."""
    fields = decode(value)
    return Trouble(NodeId(text(fields, "node")), text(fields, "why"))


def encode_number(number: int) -> bytes:
    """Return the value of a counter: an epoch, a feature level, a producer id."""
    return encode({"n": number})


def decode_number(value: bytes) -> int:
    """Return a counter."""
    return integer(decode(value), "n")


def encode_configs(entries: Mapping[str, str]) -> bytes:
    """Return the value of a set of settings."""
    return encode({"configs": dict(entries)})


def decode_configs(value: bytes) -> dict[str, str]:
    """Return a set of settings."""
    return text_map(decode(value), "configs")


def encode_candidate(node_id: NodeId) -> bytes:
    """Return what a candidate says of itself."""
    return encode({"node": node_id})


def decode_candidate(value: bytes) -> NodeId:
    """Return who stands for election."""
    return NodeId(text(decode(value), "node"))
