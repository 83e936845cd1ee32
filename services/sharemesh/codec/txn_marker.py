"""Control batches that end a transaction, as Kafka writes them."""

import struct

from sharemesh.codec.batch_frame import CONTROL, CRC_START, HEADER_BYTES, TRANSACTIONAL
from sharemesh.codec.checksum import crc32c
from sharemesh.codec.record_set import RecordSetError, build_batch, decode_records

ABORT = 0
COMMIT = 1
_KEY = struct.Struct(">hh")  # version, type
_VALUE = struct.Struct(">hi")  # version, coordinator epoch
_ATTRIBUTES_AT = CRC_START


def encode_txn_marker(
    producer_id: int, producer_epoch: int, *, commit: bool, timestamp_ms: int
) -> bytearray:
    """Return the control batch with base offset 0; ``place_frame`` gives it its place."""
    batch = build_batch(
        [(_KEY.pack(0, COMMIT if commit else ABORT), _VALUE.pack(0, 0), ())],
        timestamp_ms=timestamp_ms,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        is_transactional=True,
    )
    struct.pack_into(">h", batch, _ATTRIBUTES_AT, CONTROL | TRANSACTIONAL)
    struct.pack_into(">I", batch, CRC_START - 4, crc32c(memoryview(batch)[CRC_START:]))
    return batch


def is_abort_marker(batch: bytes | bytearray | memoryview) -> bool:
    """Whether a whole control batch aborts its producer's transaction."""
    if len(batch) <= HEADER_BYTES:
        return False
    try:
        record = next(decode_records(batch), None)
    except RecordSetError:
        return False
    if record is None or record.key is None or len(record.key) < _KEY.size:
        return False
    return bool(_KEY.unpack_from(record.key)[1] == ABORT)
