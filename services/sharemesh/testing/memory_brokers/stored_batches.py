"""What a broker makes of a record batch before it stores it, and what a cleaner leaves of one."""

import struct
import zlib
from collections.abc import Callable, Collection
from typing import NamedTuple

import cramjam

from sharemesh.codec.batch_frame import (
    COMPRESSION_MASK,
    CONTROL,
    CRC_START,
    HEADER_BYTES,
    LENGTH_PREFIX_BYTES,
    Frame,
    frame_of,
    place_frame,
    walk_frames,
)
from sharemesh.codec.control_batches import is_abort_marker
from sharemesh.codec.hashes import crc32c
from sharemesh.codec.plain_batch import plain_batch
from sharemesh.codec.record_set import COMPRESSION, Record, decode_records
from sharemesh.testing.memory_brokers.broker_codes import BrokerCode, refusal

LOG_APPEND_TIME = 0x08
_CODECS = {**COMPRESSION, "uncompressed": 0}
_LENGTH = struct.Struct(">i")
_CRC = struct.Struct(">I")
_ATTRIBUTES = struct.Struct(">h")
_MAX_TIMESTAMP = struct.Struct(">q")
_MAX_TIMESTAMP_AT = CRC_START + 14  # behind attributes, last offset delta, first timestamp
_GZIP_BITS = 31


class StoredBatch(NamedTuple):
    """One batch as it lies in a log; replicas share it, since it never changes."""

    frame: Frame
    data: bytes
    is_abort: bool = False

    @property
    def base_offset(self) -> int:
        """Its first offset."""
        return self.frame.base_offset

    @property
    def is_control(self) -> bool:
        """Whether it ends a transaction."""
        return bool(self.frame.attributes & CONTROL)

    @property
    def end_offset(self) -> int:
        """The offset behind its last one."""
        return self.frame.end_offset


def stored(data: bytes | bytearray, base_offset: int, leader_epoch: int) -> StoredBatch:
    """Return a batch at its place."""
    placed = bytearray(data)
    place_frame(placed, base_offset, leader_epoch)
    frame = frame_of(placed, base_offset)
    is_control = bool(frame.attributes & 0x20)
    return StoredBatch(frame, bytes(placed), is_control and is_abort_marker(placed))


def check_produced(data: bytes, bytes_max: int) -> Frame:
    """Return the frame of what a request holds: exactly one sound batch.

    Raises:
        BrokerRefusedError: CORRUPT_MESSAGE, INVALID_RECORD or MESSAGE_TOO_LARGE.
    """
    walk = walk_frames(
        data, start=0, limit=len(data), base_offset=None, leader_epoch=None, check_crc=True
    )
    if walk.problem is not None or not walk.frames or walk.position != len(data):
        raise refusal(BrokerCode.CORRUPT_MESSAGE, walk.problem or "no whole record batch")
    if len(walk.frames) > 1:
        raise refusal(BrokerCode.INVALID_RECORD, "a request must hold exactly one record batch")
    if len(data) > bytes_max:
        raise refusal(
            BrokerCode.MESSAGE_TOO_LARGE, f"{len(data)} bytes, max.message.bytes is {bytes_max}"
        )
    frame = walk.frames[0]
    if frame.end_offset - frame.base_offset != frame.record_count or frame.is_marker:
        raise refusal(BrokerCode.INVALID_RECORD, "count and last offset delta do not agree")
    return frame


def as_configured(data: bytes, *, compression: str, append_time_ms: int | None) -> bytes:
    """Return a batch as a topic's settings want it: compression, and the time of its arrival."""
    batch = data if compression == "producer" else _compressed(data, _CODECS[compression])
    if append_time_ms is None:
        return batch
    changed = bytearray(batch)
    (attributes,) = _ATTRIBUTES.unpack_from(changed, CRC_START)
    _ATTRIBUTES.pack_into(changed, CRC_START, attributes | LOG_APPEND_TIME)
    _MAX_TIMESTAMP.pack_into(changed, _MAX_TIMESTAMP_AT, append_time_ms)
    return _with_crc(changed)


def without_records(batch: StoredBatch, gone: Collection[int]) -> StoredBatch:
    """Return what a cleaner leaves of a batch: its offsets stay, at the worst without records.

    Whoever takes it over wants to know the last sequence number of its producer, which follows
    from the first one and the last offset; so neither of them changes with the records.
    """
    records = list(decode_records(batch.data))
    left = [record for record in records if record.offset not in gone]
    if len(left) == len(records):
        return batch
    frame = batch.frame
    rebuilt = bytearray(batch.data[:HEADER_BYTES])
    for record in left:
        rebuilt += _packed(record, record.offset - frame.base_offset, frame.first_timestamp_ms)
    _LENGTH.pack_into(rebuilt, HEADER_BYTES - _LENGTH.size, len(left))
    _ATTRIBUTES.pack_into(rebuilt, CRC_START, frame.attributes & ~COMPRESSION_MASK)
    if left and not frame.attributes & LOG_APPEND_TIME:
        newest_ms = max(record.timestamp_ms for record in left)
        _MAX_TIMESTAMP.pack_into(rebuilt, _MAX_TIMESTAMP_AT, newest_ms)
    codec = frame.attributes & COMPRESSION_MASK if left else 0
    data = _compressed(_with_length(rebuilt), codec)
    return stored(_with_crc(bytearray(data)), frame.base_offset, frame.leader_epoch)


def first_at_or_after(
    batch: StoredBatch, timestamp_ms: int, start_offset: int
) -> tuple[int, int] | None:
    """Return (offset, timestamp) of the first such record of a batch, from an offset on."""
    frame = batch.frame
    if frame.max_timestamp_ms < timestamp_ms:
        return None
    if frame.attributes & LOG_APPEND_TIME:
        return max(frame.base_offset, start_offset), frame.max_timestamp_ms
    for record in decode_records(batch.data):
        if record.timestamp_ms >= timestamp_ms and record.offset >= start_offset:
            return record.offset, record.timestamp_ms
    return None


def _packed(record: Record, offset_delta: int, first_timestamp_ms: int) -> bytes:
    """Return one record as it lies in a batch that is not compressed."""
    body = bytearray(1)  # attributes
    body += _varint(record.timestamp_ms - first_timestamp_ms) + _varint(offset_delta)
    body += _field(record.key) + _field(record.value) + _varint(len(record.headers))
    for name, value in record.headers:
        body += _field(name.encode()) + _field(value)
    return _varint(len(body)) + bytes(body)


def _field(value: bytes | None) -> bytes:
    return _varint(-1) if value is None else _varint(len(value)) + value


def _varint(number: int) -> bytes:
    zigzag = (number << 1) ^ (number >> 63)
    packed = bytearray()
    while zigzag > 0x7F:
        packed.append(zigzag & 0x7F | 0x80)
        zigzag >>= 7
    packed.append(zigzag)
    return bytes(packed)


def _compressed(data: bytes, codec: int) -> bytes:
    (attributes,) = _ATTRIBUTES.unpack_from(data, CRC_START)
    if attributes & COMPRESSION_MASK == codec:
        return data
    plain = bytearray(plain_batch(data))
    changed = plain[:HEADER_BYTES] + _COMPRESS[codec](bytes(plain[HEADER_BYTES:]))
    _LENGTH.pack_into(changed, 8, len(changed) - LENGTH_PREFIX_BYTES)
    _ATTRIBUTES.pack_into(changed, CRC_START, attributes & ~COMPRESSION_MASK | codec)
    return _with_crc(changed)


def _with_length(batch: bytearray) -> bytes:
    _LENGTH.pack_into(batch, 8, len(batch) - LENGTH_PREFIX_BYTES)
    return bytes(batch)


def _with_crc(batch: bytearray) -> bytes:
    _CRC.pack_into(batch, CRC_START - _CRC.size, crc32c(memoryview(batch)[CRC_START:]))
    return bytes(batch)


def _gzip(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=_GZIP_BITS)
    return packer.compress(data) + packer.flush()


_COMPRESS: dict[int, Callable[[bytes], bytes]] = {
    0: lambda data: data,
    1: _gzip,
    2: lambda data: bytes(cramjam.snappy.compress_raw(data)),
    3: lambda data: bytes(cramjam.lz4.compress(data)),
    4: lambda data: bytes(cramjam.zstd.compress(data)),
}
