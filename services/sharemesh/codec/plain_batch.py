"""Taking the compression off a record batch without letting it grow without bound.

A batch of a megabyte may hold gigabytes of zeros. Code that opens untrusted batches (the decoded
form, a search by timestamp) takes the compression off here first.
"""

import struct
import zlib
from collections.abc import Callable

import cramjam

from sharemesh.codec.batch_frame import (
    COMPRESSION_MASK,
    CRC_START,
    HEADER_BYTES,
    LENGTH_PREFIX_BYTES,
)

PLAIN_BATCH_BYTES_MAX = 32 * 1024 * 1024

_ATTRIBUTES = struct.Struct(">h")
_LENGTH = struct.Struct(">i")
_LENGTH_AT = 8
_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER_BYTES = 16
_FIRST_GUESS = 8  # times the compressed size
_GUESS_BYTES_MIN = 64 * 1024

Buffer = bytes | bytearray | memoryview


class TooLargeError(ValueError):
    """The records of a batch take more bytes than anyone is willing to hold."""


def plain_batch(batch: Buffer, bytes_max: int = PLAIN_BATCH_BYTES_MAX) -> Buffer:
    """Return a whole batch without compression; its checksum is not made new.

    Raises:
        TooLargeError: Its records take more than ``bytes_max``.
        ValueError: They cannot be decompressed.
    """
    (attributes,) = _ATTRIBUTES.unpack_from(batch, CRC_START)
    decompress = _DECOMPRESS.get(attributes & COMPRESSION_MASK)
    if decompress is None:
        return batch  # not compressed, or in a way that its reader will refuse
    try:
        records = decompress(bytes(memoryview(batch)[HEADER_BYTES:]), bytes_max)
    except (cramjam.DecompressionError, zlib.error, struct.error) as error:
        raise ValueError(f"the batch cannot be decompressed: {error}") from error
    if len(records) > bytes_max:
        raise TooLargeError(
            f"the records of a batch take more than {bytes_max} bytes without compression"
        )
    plain = bytearray(memoryview(batch)[:HEADER_BYTES])
    plain += records
    _LENGTH.pack_into(plain, _LENGTH_AT, len(plain) - LENGTH_PREFIX_BYTES)
    _ATTRIBUTES.pack_into(plain, CRC_START, attributes & ~COMPRESSION_MASK)
    return plain


def _gzip(data: bytes, bytes_max: int) -> bytes:
    return zlib.decompressobj(wbits=31).decompress(data, bytes_max + 1)


def _snappy(data: bytes, bytes_max: int) -> bytes:
    if not data.startswith(_XERIAL_MAGIC):
        return _snappy_block(data, bytes_max)
    pieces: list[bytes] = []
    at, total = _XERIAL_HEADER_BYTES, 0
    while at < len(data):
        (size,) = _LENGTH.unpack_from(data, at)
        at += _LENGTH.size
        if size < 0:
            raise ValueError(f"a snappy block of {size} bytes")
        pieces.append(_snappy_block(data[at : at + size], bytes_max - total))
        total += len(pieces[-1])
        at += size
    return b"".join(pieces)


def _snappy_block(data: bytes, bytes_max: int) -> bytes:
    size = cramjam.snappy.decompress_raw_len(data)
    if size > bytes_max:
        raise TooLargeError(f"the records of a batch take {size} bytes and more")
    return bytes(cramjam.snappy.decompress_raw(data))


def _guessing(into: Callable[[bytes, bytearray], int]) -> Callable[[bytes, int], bytes]:
    """Return a decompressor that writes into buffers of a growing size, up to the bound."""

    def decompress(data: bytes, bytes_max: int) -> bytes:
        size = max(_GUESS_BYTES_MIN, _FIRST_GUESS * len(data))
        while True:
            buffer = bytearray(min(size, bytes_max))
            try:
                return bytes(memoryview(buffer)[: into(data, buffer)])
            except cramjam.DecompressionError as error:
                if "whole buffer" not in str(error):
                    raise
                if size >= bytes_max:
                    raise TooLargeError(
                        f"the records of a batch take more than {bytes_max} bytes without "
                        "compression"
                    ) from error
            size *= _FIRST_GUESS

    return decompress


_DECOMPRESS: dict[int, Callable[[bytes, int], bytes]] = {
    1: _gzip,
    2: _snappy,
    3: _guessing(cramjam.lz4.decompress_into),
    4: _guessing(cramjam.zstd.decompress_into),
}
