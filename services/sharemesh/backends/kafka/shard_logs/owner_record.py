"""Whose the own topics are: the first record in partition 0 of the state topic says it (KTP-20)."""

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


async def write_owner(
    brokers: Brokers, partition: BrokerPartition, owner: str, wall_ms: int
) -> None:
    """Append an owner record, in one try; further ones above the first decide nothing.

    Args:
        brokers: The cluster.
        partition: Nothing lies in it yet, as far as is known.
        owner: The owner id.
        wall_ms: The time, in ms since 1970.

    Raises:
        BrokerRefusedError, BrokerUnreachableError, UnsupportedRequestError: Perhaps not done.
    """
    batch = bytes(build_plain_batch([(OWNER_KEY, owner.encode(), wall_ms)]))
    await brokers.produce(partition, batch, timeout_ms=WRITE_TIMEOUT_MS)


async def read_owner(brokers: Brokers, partition: BrokerPartition) -> str | None:
    """Return the owner id at offset 0; None: something else lies there, or lay there.

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
    return _owner_in(fetched.records)


def _not_readable(partition: BrokerPartition) -> BrokerUnreachableError:
    return BrokerUnreachableError(
        f"offset 0 of topic {partition.topic} partition {partition.partition} is not readable yet"
    )


def _owner_in(fetched: bytes) -> str | None:
    walk = walk_frames(
        fetched, start=0, limit=_NO_END, base_offset=0, leader_epoch=None, check_crc=True
    )
    if not walk.frames:
        return None
    try:
        first = next(decode_records(fetched[: walk.frames[0].size_bytes]), None)
    except RecordSetError:
        return None
    if first is None or first.key != OWNER_KEY or first.value is None:
        return None
    return first.value.decode(errors="replace")
