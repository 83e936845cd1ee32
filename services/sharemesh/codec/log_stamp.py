"""Stamps in record batches: header ``sm`` of the first record of each batch (STL-1)."""

import hashlib
import struct
from collections.abc import Sequence

from aiokafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder

from sharemesh.codec.batch_frame import CONTROL, MAGIC, TRANSACTIONAL, Frame
from sharemesh.codec.guarded_records import UNDECODABLE
from sharemesh.codec.plain_batch import TooLargeError, plain_batch
from sharemesh.codec.record_set import RecordSetError
from sharemesh.domain.ids import TopicId
from sharemesh.domain.stamped_log.stamp import Stamp, StampedBatch, StampKind

HEADER_NAME = "sm"
STAMP_FORMAT = 1
STAMP_OVERHEAD_BYTES = 61 + 60  # at most: header of the batch, stamp with its name and lengths

_STAMP = struct.Struct(">BBQqiiQQq")
_BUILDER_BYTES_MAX = 2**31 - 1
_NO_HEADERS: list[tuple[str, bytes | None]] = []


def log_identity(cluster_id: str, topic_id: TopicId, partition: int, incarnation: int) -> int:
    """Return the number that stands for one log in its stamps.

    Args:
        cluster_id: The mesh, and the Kafka cluster that keeps its log.
        topic_id: The topic.
        partition: The partition.
        incarnation: Raised when a loss of records was accepted: what was stamped before is void.
    """
    name = f"{cluster_id}/{topic_id.hex()}/{partition}/{incarnation}"
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big")


def encode_stamp(stamp: Stamp) -> bytes:
    """Return the value of the header."""
    return _STAMP.pack(STAMP_FORMAT, *stamp)


def decode_stamp(data: bytes | None) -> Stamp | None:
    """Return what ``encode_stamp`` wrote; None for a header of others, which has another length.

    Raises:
        RecordSetError: It has another format or kind: nobody can say whether it counts.
    """
    if data is None or len(data) != _STAMP.size:
        return None  # stamps of every format have this length (STL-1)
    form, kind, *rest = _STAMP.unpack(data)
    if form > STAMP_FORMAT:
        raise RecordSetError(
            f"its stamp has format {form}, newer than {STAMP_FORMAT}, the newest that this "
            "version reads"
        )
    if form != STAMP_FORMAT:
        raise RecordSetError(f"its stamp has the unknown format {form}")
    try:
        return Stamp(StampKind(kind), *rest)
    except ValueError as error:
        raise RecordSetError(f"its stamp has the unknown kind {kind}") from error


def build_stamped_batch(
    records: Sequence[tuple[bytes | None, bytes | None, int]], stamp: Stamp
) -> bytes:
    """Return one uncompressed record batch that carries ``stamp``.

    Args:
        records: (key, value, timestamp in ms) of each, at least one.
        stamp: Its count is theirs.
    """
    builder = DefaultRecordBatchBuilder(MAGIC, 0, 0, -1, -1, -1, _BUILDER_BYTES_MAX)
    append = builder.append
    headers: list[tuple[str, bytes | None]] = [(HEADER_NAME, encode_stamp(stamp))]
    for index, (key, value, timestamp_ms) in enumerate(records):
        append(index, timestamp_ms, key, value, headers)
        headers = _NO_HEADERS
    return bytes(builder.build())


def read_stamped_batch(frame: Frame, batch: bytes | memoryview) -> StampedBatch:
    """Return what one whole batch says of itself; its stamp is looked for without compression.

    Raises:
        RecordSetError: Its first record cannot be read: nobody can say whether it counts (STL-3).
    """
    is_foreign = bool(frame.attributes & (CONTROL | TRANSACTIONAL))
    stamp = None
    if not is_foreign and frame.record_count > 0:
        stamp = _first_stamp(batch)
    return StampedBatch(frame.base_offset, frame.end_offset, frame.record_count, is_foreign, stamp)


def _first_stamp(batch: bytes | memoryview) -> Stamp | None:
    try:
        plain = plain_batch(batch)
    except TooLargeError:
        # No unit of ours: each is sent uncompressed, and neither the bound on what waits to be
        # written (16 MiB) nor that on one decision (1 MB) lets it become as large as that.
        return None
    except UNDECODABLE as error:
        raise RecordSetError(f"its first record cannot be read: {error}") from error
    try:
        first = next(iter(DefaultRecordBatch(plain)))
        found = [value for name, value in first.headers if name == HEADER_NAME]
    except UNDECODABLE as error:
        raise RecordSetError(f"its first record cannot be read: {error}") from error
    return decode_stamp(found[0]) if found else None
