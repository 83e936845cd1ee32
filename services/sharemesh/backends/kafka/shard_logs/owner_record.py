"""Whose the own topics are: the first record in partition 0 of the state topic says it (KTP-20)."""

import json
import struct
from dataclasses import asdict, dataclass

from sharemesh.codec.batch_frame import walk_frames
from sharemesh.codec.record_set import RecordSetError, build_plain_batch, decode_records
from sharemesh.ports.brokers import (
    EARLIEST_TIMESTAMP,
    BrokerPartition,
    BrokerRefusedError,
    Brokers,
    BrokerUnreachableError,
)

OWNER_KEY = b"sharemesh-owner"
WRITE_TIMEOUT_MS = 5_000
_READ_BYTES = 64 * 1024
_READ_WAIT_MS = 500
_OFFSET_OUT_OF_RANGE = 1
_NO_END = 1 << 62
_HEAD = struct.Struct(">qi")  # base offset, and how many bytes follow


@dataclass(frozen=True, slots=True)
class TopicOwner:
    """A cluster that the own topics belong to; only the id decides.

    Attributes:
        owner_id: Of its coordination store.
        cluster_id: Its setting, by which people know it.
        host: Where the process ran that wrote this.
        made_ms: When, in ms since 1970.
    """

    owner_id: str
    cluster_id: str = ""
    host: str = ""
    made_ms: int = 0


async def write_owner(brokers: Brokers, partition: BrokerPartition, owner: TopicOwner) -> None:
    """Append an owner record, in one try; further ones above the first decide nothing.

    Raises:
        BrokerRefusedError, BrokerUnreachableError, UnsupportedRequestError: Perhaps not done.
    """
    value = json.dumps(asdict(owner), separators=(",", ":")).encode()
    batch = bytes(build_plain_batch([(OWNER_KEY, value, owner.made_ms)]))
    await brokers.produce(partition, batch, timeout_ms=WRITE_TIMEOUT_MS)


async def read_owner(brokers: Brokers, partition: BrokerPartition) -> TopicOwner | None:
    """Return the owner at offset 0; None: something else lies there, or lay there.

    Raises:
        BrokerUnreachableError: Also while offset 0 is not readable yet.
        BrokerRefusedError, UnsupportedRequestError: As the brokers say.
    """
    try:
        fetched = await brokers.fetch(
            partition, 0, max_bytes=_READ_BYTES, max_wait_ms=_READ_WAIT_MS
        )
    except BrokerRefusedError as error:
        if error.code != _OFFSET_OUT_OF_RANGE:
            raise
        if (await brokers.list_offset(partition, EARLIEST_TIMESTAMP)).offset > 0:
            return None
        raise _not_readable(partition) from error
    if not fetched.records:
        raise _not_readable(partition)
    walk = walk_frames(
        fetched.records, start=0, limit=_NO_END, base_offset=0, leader_epoch=None, check_crc=True
    )
    if walk.frames:
        return _owner_in(fetched.records[: walk.frames[0].size_bytes])
    if _is_cut(fetched.records):
        raise _not_readable(partition)
    return None


def _not_readable(partition: BrokerPartition) -> BrokerUnreachableError:
    return BrokerUnreachableError(
        f"offset 0 of topic {partition.topic} partition {partition.partition} is not readable yet"
    )


def _is_cut(fetched: bytes) -> bool:
    """Return whether not all of the first batch came."""
    if len(fetched) < _HEAD.size:
        return True
    length: int = _HEAD.unpack_from(fetched)[1]
    return len(fetched) < _HEAD.size + length


def _owner_in(batch: bytes) -> TopicOwner | None:
    try:
        first = next(decode_records(batch), None)
        if first is None or first.key != OWNER_KEY or first.value is None:
            return None
        fields = json.loads(first.value)
    except (RecordSetError, ValueError):
        return None
    if not isinstance(fields, dict) or not isinstance(fields.get("owner_id"), str):
        return None
    made_ms = fields.get("made_ms")
    return TopicOwner(
        fields["owner_id"],
        str(fields.get("cluster_id", "")),
        str(fields.get("host", "")),
        made_ms if isinstance(made_ms, int) else 0,
    )
