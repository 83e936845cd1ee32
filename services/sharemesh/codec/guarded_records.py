"""Reading the records of a stranger's batch: the library makes a tuple of each header it finds.

A record of 16 MiB may have eight million headers of two bytes, which take half a gigabyte as tuples
and hold every thread for seconds. So large records are looked at before they are parsed.
"""

import struct
from collections.abc import Iterator, Sequence
from typing import Protocol

import cramjam
from aiokafka.errors import CorruptRecordException, KafkaError
from aiokafka.record.default_records import DefaultRecordBatch

from sharemesh.codec.batch_frame import HEADER, HEADER_BYTES
from sharemesh.codec.plain_batch import Buffer, Opened, TooLargeError, too_large

RECORD_HEADERS_MAX = 10_000
"""Headers of one record that is decoded (BND-34)."""

UNDECODABLE = (
    CorruptRecordException,
    KafkaError,
    cramjam.DecompressionError,
    ValueError,
    IndexError,
    OverflowError,
    struct.error,
)
"""What the readers of record batches raise for one that is damaged."""

_LOOKED_AT_BYTES = 64 * 1024
"""A smaller record has at most 32,000 headers, however it is made: some 5 ms."""

_VARINT_BYTES_MAX = 10
_LOG_APPEND_TIME = 0x08
"""Attribute: all records have the newest time of the header."""


class LibraryRecord(Protocol):
    """What aiokafka's readers tell of a record, with and without its C extension."""

    @property
    def offset(self) -> int:
        """In the log."""
        ...

    @property
    def timestamp(self) -> int | None:
        """In ms."""
        ...

    @property
    def key(self) -> bytes | None:
        """Null or bytes."""
        ...

    @property
    def value(self) -> bytes | None:
        """Null or bytes."""
        ...

    @property
    def headers(self) -> Sequence[tuple[str, bytes | None]]:
        """In order."""
        ...


def guarded_records(opened: Opened) -> Iterator[LibraryRecord]:
    """Yield the records of a batch, one after the other.

    Raises:
        TooLargeError: A record has more than ``RECORD_HEADERS_MAX`` headers, or the others were
            cut off.
        Exception: One of ``UNDECODABLE``: the records do not parse.
    """
    data, at, end = opened.data, HEADER_BYTES, len(opened.data)
    try:
        records = iter(DefaultRecordBatch(data))
        while True:
            if at < end:
                size, at = _varint(data, at)
                if size > _LOOKED_AT_BYTES and at + size <= end:
                    _check_headers(data, at)
                at += max(size, 0)
            record = next(records, None)
            if record is None:
                return
            yield record
    except UNDECODABLE as error:
        if opened.is_cut and not isinstance(error, TooLargeError):
            raise too_large(opened.records_bytes) from error
        raise


def record_times(opened: Opened) -> Iterator[tuple[int, int]]:
    """Yield (offset, timestamp in ms) of each record of a batch; nothing else of it is made.

    Raises:
        Exception: One of ``UNDECODABLE``: the records do not parse, or the others were cut off.
    """
    data, at, end = opened.data, HEADER_BYTES, len(opened.data)
    header = HEADER.unpack_from(data)
    base_offset, attributes, count = header[0], header[5], header[-1]
    first_ms, newest_ms = header[7:9]
    for _ in range(count):
        if at >= end and opened.is_cut:
            raise too_large(opened.records_bytes)
        size, at = _varint(data, at)
        begin = at
        delta_ms, at = _varint(data, at + 1)
        delta, at = _varint(data, at)
        if size < at - begin or (begin + size > end and not opened.is_cut):
            raise CorruptRecordException(f"a record of {size} bytes")
        yield (
            base_offset + delta,
            newest_ms if attributes & _LOG_APPEND_TIME else first_ms + delta_ms,
        )
        at = begin + size


def _check_headers(data: Buffer, at: int) -> None:
    """Refuse a record that would become a great many tuples.

    Raises:
        TooLargeError: It has too many headers.
    """
    at += 1  # attributes
    for _ in range(2):  # timestamp and offset
        _, at = _varint(data, at)
    for _ in range(2):  # key and value
        size, at = _varint(data, at)
        at += max(size, 0)
    count, _ = _varint(data, at)
    if count > RECORD_HEADERS_MAX:
        raise TooLargeError(
            f"a record has {count} headers, and at most {RECORD_HEADERS_MAX} are decoded"
        )


def _varint(data: Buffer, at: int) -> tuple[int, int]:
    """Return a zigzag number and where it ends.

    Raises:
        IndexError: It does not end.
    """
    byte = data[at]
    at += 1
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), at
    value, shift = byte & 0x7F, 7
    for _ in range(_VARINT_BYTES_MAX - 1):
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at
    raise IndexError("a number of a record does not end")
