"""What things are called: groups, members, nodes, share partitions; bounds and text form of ids."""

import base64
import binascii
from collections.abc import Sequence
from dataclasses import dataclass
from operator import mul
from typing import NewType

from sharemesh.domain.errors import ErrorCode, RefusedError, invalid_request

GroupId = NewType("GroupId", str)
MemberId = NewType("MemberId", str)
NodeId = NewType("NodeId", str)
TopicId = NewType("TopicId", bytes)  # 16 bytes, a UUID
MAX_GROUP_ID_CHARS = 1_000
"""Longest group id, inclusive, wherever one is given."""

MAX_PRINCIPAL_CHARS = 1_000
"""Longest principal that rules and quotas may name, inclusive."""

MAX_MEMBER_ID_CHARS = 36
"""Longest member id, inclusive (spec GC-3)."""

MAX_TOPIC_NAME_CHARS = 249
"""Longest name that a topic can have, inclusive."""

OFFSET_MAX = 1 << 62
"""Highest offset that a client may set, inclusive (BND-13); a log would take ages to come there."""

MAX_TRANSACTIONAL_ID_CHARS = 1_000
"""Longest transactional id, inclusive (BND-10)."""

_TOPIC_ID_BYTES = 16
_PARTITION_MAX = 2**31 - 1
_WEIGHTS = tuple(pow(31, power, 1 << 32) for power in range(512))


@dataclass(frozen=True, slots=True, order=True)
class TopicPartition:
    """One partition of a topic, by topic id."""

    topic_id: TopicId
    partition: int

    def __str__(self) -> str:
        """Return it as log lines name it."""
        return f"{self.topic_id.hex()}/{self.partition}"


@dataclass(frozen=True, slots=True, order=True)
class SharePartitionKey:
    """One partition of a topic as seen by one share group (spec VOC-2)."""

    group_id: GroupId
    topic_id: TopicId
    partition: int

    def __str__(self) -> str:
        """Return it as log lines name it."""
        return f"{self.topic_partition} of group {self.group_id}"

    @property
    def topic_partition(self) -> TopicPartition:
        """The topic-partition that this share partition reads."""
        return TopicPartition(self.topic_id, self.partition)


def check_group_id(group_id: str) -> None:
    """Refuse an id longer than that of any group (AUT-9); each RPC has its rule for an empty one.

    Raises:
        RefusedError: INVALID_GROUP_ID.
    """
    if len(group_id) > MAX_GROUP_ID_CHARS:
        raise RefusedError(
            ErrorCode.INVALID_GROUP_ID,
            f"group id of {len(group_id)} characters; send at most {MAX_GROUP_ID_CHARS}",
        )


def check_group_is_named(group_id: str) -> None:
    """Refuse an empty group id where Kafka does so with this code (spec GC-42, GC-43).

    Raises:
        RefusedError: INVALID_GROUP_ID.
    """
    if not group_id:
        raise RefusedError(ErrorCode.INVALID_GROUP_ID, "group id is empty; name a group")


def check_member_id(member_id: str) -> None:
    """Refuse an empty member id and one that is too long (spec GC-3, REQ-1).

    Raises:
        RefusedError: INVALID_REQUEST.
    """
    if not 0 < len(member_id) <= MAX_MEMBER_ID_CHARS:
        raise invalid_request(
            f"member id of {len(member_id)} characters; send a UUID of 1 to {MAX_MEMBER_ID_CHARS}"
        )


def check_user_principal(principal: str, *, or_else: str = "") -> None:
    """Refuse what is not the principal of a client; ``or_else`` names what else could be written.

    Raises:
        RefusedError: INVALID_REQUEST.
    """
    kind, colon, user = principal.partition(":")
    if kind != "User" or not colon or not user or len(principal) > MAX_PRINCIPAL_CHARS:
        raise invalid_request(f"principal {principal[:100]!r}: write User:<name>{or_else}")


def check_topic_name_length(name: str) -> None:
    """Refuse a name that no topic can have because of its length (AUT-9).

    Raises:
        RefusedError: INVALID_TOPIC_EXCEPTION.
    """
    if not 0 < len(name) <= MAX_TOPIC_NAME_CHARS:
        shown = f"{name[:40]}..." if name else ""
        raise RefusedError(
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            f"topic name {shown!r} has {len(name)} characters; names have 1 to "
            f"{MAX_TOPIC_NAME_CHARS}",
        )


def format_topic_id(topic_id: TopicId) -> str:
    """Return 16 bytes in the URL-safe base64 form without padding that Kafka shows."""
    return base64.urlsafe_b64encode(topic_id).rstrip(b"=").decode("ascii")


def parse_topic_id(text: str) -> TopicId:
    """Return the 16 bytes of a topic id.

    Raises:
        RefusedError: INVALID_REQUEST; it is not 22 characters of URL-safe base64.
    """
    try:
        topic_id = base64.b64decode(f"{text}==", altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        topic_id = b""
    if len(topic_id) != _TOPIC_ID_BYTES or format_topic_id(TopicId(topic_id)) != text:
        raise invalid_request(f"topic id {text!r} is not 22 characters of URL-safe base64")
    return TopicId(topic_id)


def format_key(key: SharePartitionKey) -> str:
    """Return ``groupId:topicId:partition`` (spec SC-1)."""
    return f"{key.group_id}:{format_topic_id(key.topic_id)}:{key.partition}"


def parse_key(text: str) -> SharePartitionKey:
    """Return the key that ``format_key`` made the text from; group ids may contain ``:``.

    Raises:
        RefusedError: INVALID_REQUEST; fewer than three fields, an empty group id, a bad topic id,
            or a partition that is not a number from 0 to 2^31 - 1. INVALID_GROUP_ID; a group id
            that is too long.
    """
    group_id, colon, rest = (text or "").rpartition(":")
    partition_text = rest
    group_id, second_colon, topic_text = group_id.rpartition(":")
    if not colon or not second_colon or not group_id:
        raise invalid_request(
            f"share partition key {text!r} is not of the form group:topic-id:partition"
        )
    check_group_id(group_id)
    topic_id = parse_topic_id(topic_text)
    digits = partition_text.isascii() and partition_text.isdigit()
    if not digits or int(partition_text) > _PARTITION_MAX:
        raise invalid_request(
            f"partition {partition_text!r} of share partition key {text!r} is not a number "
            f"from 0 to {_PARTITION_MAX}"
        )
    return SharePartitionKey(GroupId(group_id), topic_id, int(partition_text))


def string_hash(text: str) -> int:
    """Return Java's hash of a string as a signed 32-bit number (spec SC-2)."""
    if text.isascii():
        units: Sequence[int] = text.encode("ascii")
    else:
        raw = text.encode("utf-16-be", "surrogatepass")
        units = [256 * high + low for high, low in zip(raw[0::2], raw[1::2], strict=True)]
    total: int
    if len(units) <= len(_WEIGHTS):
        total = sum(map(mul, reversed(units), _WEIGHTS)) & 0xFFFF_FFFF
    else:
        total = 0
        for unit in units:
            total = (31 * total + unit) & 0xFFFF_FFFF
    return total - (1 << 32) if total >= 1 << 31 else total


def home_shard(text: str, shards: int) -> int:
    """Return the shard of a key text: its absolute hash modulo the number of shards (SC-2)."""
    hashed = string_hash(text)
    return 0 if hashed == -(1 << 31) else abs(hashed) % shards
