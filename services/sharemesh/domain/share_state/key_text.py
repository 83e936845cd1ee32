"""The text form of a share-partition key, and the shard that it lives in (spec SC-1, SC-2)."""

import base64
import binascii
from collections.abc import Sequence
from operator import mul

from sharemesh.domain.errors import ErrorCode, RefusedError
from sharemesh.domain.ids import GroupId, SharePartitionKey, TopicId

_TOPIC_ID_BYTES = 16
_PARTITION_MAX = 2**31 - 1
_WEIGHTS = tuple(pow(31, power, 1 << 32) for power in range(512))


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
        raise RefusedError(
            ErrorCode.INVALID_REQUEST,
            f"topic id {text!r} is not 22 characters of URL-safe base64",
        )
    return TopicId(topic_id)


def format_key(key: SharePartitionKey) -> str:
    """Return ``groupId:topicId:partition`` (spec SC-1)."""
    return f"{key.group_id}:{format_topic_id(key.topic_id)}:{key.partition}"


def parse_key(text: str) -> SharePartitionKey:
    """Return the key that ``format_key`` made the text from; group ids may contain ``:``.

    Raises:
        RefusedError: INVALID_REQUEST; fewer than three fields, an empty group id, a bad topic id,
            or a partition that is not a number from 0 to 2^31 - 1.
    """
    group_id, colon, rest = (text or "").rpartition(":")
    partition_text = rest
    group_id, second_colon, topic_text = group_id.rpartition(":")
    if not colon or not second_colon or not group_id:
        raise RefusedError(
            ErrorCode.INVALID_REQUEST,
            f"share partition key {text!r} is not of the form group:topic-id:partition",
        )
    topic_id = parse_topic_id(topic_text)
    digits = partition_text.isascii() and partition_text.isdigit()
    if not digits or int(partition_text) > _PARTITION_MAX:
        raise RefusedError(
            ErrorCode.INVALID_REQUEST,
            f"partition {partition_text!r} of share partition key {text!r} is not a number "
            f"from 0 to {_PARTITION_MAX}",
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
