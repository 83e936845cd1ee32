"""Checks that every request of a member passes first, in the KIP's order (spec REQ-1, REQ-2)."""

from collections.abc import Iterable, Sequence

from sharemesh.domain.errors import ErrorCode, RefusedError, invalid_request
from sharemesh.domain.ids import GroupId, MemberId, TopicId, TopicPartition, check_member_id
from sharemesh.domain.share_partition.events import AcquireMode
from sharemesh.domain.share_session import SessionKey
from sharemesh.ports.cluster import ClusterView
from sharemesh.share_leader.requests.access import LeaderAccess
from sharemesh.v1 import share_leader_pb2 as pb
from sharemesh.v1.common_pb2 import TopicPartitions

NEWEST_VERSION = 2
_TOPIC_ID_BYTES = 16


class RequestChecks:
    """Raises the top-level error of a request."""

    def __init__(self, view: ClusterView, access: LeaderAccess) -> None:
        self._view = view
        self._access = access

    def member(self, principal: str, group_id: str, member_id: str) -> SessionKey:
        """Return whose session the request means (spec REQ-1, steps 1 to 4).

        Raises:
            RefusedError: UNSUPPORTED_VERSION, INVALID_REQUEST, INVALID_GROUP_ID or
                GROUP_AUTHORIZATION_FAILED.
        """
        if self._view.share_version() < 1:
            raise RefusedError(
                ErrorCode.UNSUPPORTED_VERSION,
                "share groups are switched off in this cluster; set feature share_version to 1",
            )
        if not group_id:
            raise invalid_request("group id is empty; name a group")
        self._access.group(principal, group_id)
        check_member_id(member_id)
        return SessionKey(GroupId(group_id), MemberId(member_id))


def version_of(version: int) -> int:
    """Return the version of a request, where 0 counts as the newest.

    Raises:
        RefusedError: UNSUPPORTED_VERSION.
    """
    if not 0 <= version <= NEWEST_VERSION:
        raise RefusedError(
            ErrorCode.UNSUPPORTED_VERSION,
            f"version {version} is not one of 1..{NEWEST_VERSION}; ask ApiVersions",
        )
    return version or NEWEST_VERSION


def acquire_mode(mode: int, version: int) -> AcquireMode:
    """Return the acquire mode (spec WIRE-1, WIRE-4).

    Raises:
        RefusedError: INVALID_REQUEST for an unknown one, UNSUPPORTED_VERSION for version 1.
    """
    try:
        known = AcquireMode(mode)
    except ValueError:
        raise invalid_request(
            f"share_acquire_mode {mode} is neither 0 (batch_optimized) nor 1 (record_limit)"
        ) from None
    if version < NEWEST_VERSION and known is not AcquireMode.BATCH_OPTIMIZED:
        raise RefusedError(
            ErrorCode.UNSUPPORTED_VERSION, "record_limit needs version 2 of the request"
        )
    return known


def listed(topics: Iterable[pb.AcknowledgeTopic]) -> list[TopicPartition]:
    """Return the partitions of a request, each once, in order.

    Raises:
        RefusedError: INVALID_REQUEST for a topic id that is none.
    """
    seen: dict[TopicPartition, None] = {}
    for topic in topics:
        topic_id = _topic_id(topic.topic_id)
        for partition in topic.partitions:
            seen[TopicPartition(topic_id, partition.partition)] = None
    return list(seen)


def check_count(name: str, count: int, most: int) -> None:
    """Refuse what is more than a request may hold, before it is walked through (spec BND-20).

    Raises:
        RefusedError: INVALID_REQUEST, naming the bound.
    """
    if count > most:
        raise invalid_request(f"the request holds {count} {name}; send at most {most} at a time")


def check_topics(topics: Sequence[pb.AcknowledgeTopic | TopicPartitions], most: int) -> None:
    """Refuse more topics, or partitions of them, than a request may name.

    Raises:
        RefusedError: INVALID_REQUEST, naming the bound.
    """
    check_count("topics", len(topics), most)
    check_count("partitions", sum(len(topic.partitions) for topic in topics), most)


def named(topics: Sequence[TopicPartitions], most: int) -> list[TopicPartition]:
    """Return the partitions that topics name, each once, in order.

    Raises:
        RefusedError: INVALID_REQUEST for more than ``most``, or a topic id that is none.
    """
    check_topics(topics, most)
    seen: dict[TopicPartition, None] = {}
    for topic in topics:
        topic_id = _topic_id(topic.topic_id)
        for partition in topic.partitions:
            seen[TopicPartition(topic_id, partition)] = None
    return list(seen)


def _topic_id(raw: bytes) -> TopicId:
    if len(raw) != _TOPIC_ID_BYTES:
        raise invalid_request(
            f"a topic id has {len(raw)} bytes; send the {_TOPIC_ID_BYTES} of its UUID"
        )
    return TopicId(raw)
