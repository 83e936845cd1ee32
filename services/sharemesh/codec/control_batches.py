"""Control batches that the log writes itself: ends of transactions, as Kafka's, and the log start.

The log start is a committed record of the log. Its marker takes no offset (LOG-16): it is a
RecordBatch v2 like all else, so that one walk reads everything, but its last offset delta is -1. It
spans no offset, moves no high watermark, and is never served. It holds one control record of a type
of our own.
"""

import struct

from sharemesh.codec.batch_frame import (
    CONTROL,
    CRC_START,
    HEADER,
    HEADER_BYTES,
    LENGTH_PREFIX_BYTES,
    MAGIC,
    TRANSACTIONAL,
)
from sharemesh.codec.hashes import crc32c
from sharemesh.codec.record_set import RecordSetError, build_batch, decode_records

ABORT = 0
COMMIT = 1
_KEY = struct.Struct(">hh")  # version, type
_VALUE = struct.Struct(">hi")  # version, coordinator epoch
_ATTRIBUTES_AT = CRC_START
LOG_START_TYPE = 0x5348  # control record types of Kafka are small numbers
_VERSION = 0

# One record: length, attributes, timestamp delta, offset delta, key length, key, value length,
# value, header count; the lengths are zigzag varints of constants.
_RECORD = struct.Struct(">bbbbb hh b hq b")

_KEY_BYTES = 4
_VALUE_BYTES = 10
_MARKER_BYTES = HEADER_BYTES + _RECORD.size


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


def encode_log_start(
    log_start_offset: int, *, at_offset: int, leader_epoch: int, timestamp_ms: int
) -> bytes:
    """Return the marker that moves the log start, to be appended where ``at_offset`` is next."""
    record = _RECORD.pack(
        (_RECORD.size - 1) << 1,
        0,
        0,
        0,
        _KEY_BYTES << 1,
        _VERSION,
        LOG_START_TYPE,
        _VALUE_BYTES << 1,
        _VERSION,
        log_start_offset,
        0,
    )
    header = HEADER.pack(
        at_offset,
        _MARKER_BYTES - LENGTH_PREFIX_BYTES,
        leader_epoch,
        MAGIC,
        0,
        CONTROL,
        -1,
        timestamp_ms,
        timestamp_ms,
        -1,
        -1,
        -1,
        1,
    )
    covered = header[CRC_START:] + record
    return header[: CRC_START - 4] + struct.pack(">I", crc32c(covered)) + covered


def decode_log_start(batch: bytes) -> int | None:
    """Return the log start that a marker sets, or None for a marker of another kind."""
    if len(batch) != _MARKER_BYTES:
        return None
    *_, kind, _, _, log_start_offset, _ = _RECORD.unpack_from(batch, HEADER_BYTES)
    return log_start_offset if kind == LOG_START_TYPE else None
