"""Taking the compression off a record batch without letting it grow without bound.

A batch of a megabyte may hold gigabytes of zeros. Code that opens untrusted batches (the decoded
form, a search by timestamp) takes the compression off here first.
"""

import struct
import zlib
from collections.abc import Callable
from typing import NamedTuple

import cramjam

from sharemesh.codec.batch_frame import (
    COMPRESSION_MASK,
    CRC_START,
    HEADER_BYTES,
    LENGTH_PREFIX_BYTES,
)

PLAIN_BATCH_BYTES_MAX = 16 * 1024 * 1024
"""Of the records of one batch (BND-34): what one Produce may hold. A thread unpacks them in some
30 ms, and an answer with one record of them is written in less than 50."""

_ATTRIBUTES = struct.Struct(">h")
_LENGTH = struct.Struct(">i")
_LENGTH_AT = 8
_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER_BYTES = 16
_FIRST_GUESS = 8  # times the compressed size
_GUESS_BYTES_MIN = 64 * 1024

Buffer = bytes | bytearray | memoryview
Unpacked = tuple[bytearray, bool]
"""Room for a header with records behind it, and whether they are but the first ones, since all take
more than the bound."""


class TooLargeError(ValueError):
    """The records of a batch take more bytes than anyone is willing to hold."""


class Opened(NamedTuple):
    """A batch without compression, its checksum not made new.

    ``is_cut``: its records take more than the bound, and ``data`` holds those that came first.
    """

    data: Buffer
    is_cut: bool = False

    @property
    def records_bytes(self) -> int:
        """What its records take."""
        return len(self.data) - HEADER_BYTES


def too_large(bytes_max: int) -> TooLargeError:
    """Return the error of a batch whose records take more than ``bytes_max``."""
    return TooLargeError(
        f"the records of a batch take more than {bytes_max} bytes without compression"
    )


def is_compressed(batch: Buffer) -> bool:
    """Return whether opening a batch means work."""
    (attributes,) = _ATTRIBUTES.unpack_from(batch, CRC_START)
    return attributes & COMPRESSION_MASK in _DECOMPRESS


def opened_batch(batch: Buffer, bytes_max: int = PLAIN_BATCH_BYTES_MAX) -> Opened:
    """Return a whole batch without compression, as far as its records take ``bytes_max``.

    Raises:
        ValueError: They cannot be decompressed.
    """
    (attributes,) = _ATTRIBUTES.unpack_from(batch, CRC_START)
    decompress = _DECOMPRESS.get(attributes & COMPRESSION_MASK)
    if decompress is None:
        return Opened(batch)  # not compressed, or in a way that its reader will refuse
    try:
        plain, is_cut = decompress(bytes(memoryview(batch)[HEADER_BYTES:]), bytes_max)
    except (cramjam.DecompressionError, zlib.error, struct.error) as error:
        raise ValueError(f"the batch cannot be decompressed: {error}") from error
    plain[:HEADER_BYTES] = memoryview(batch)[:HEADER_BYTES]
    _LENGTH.pack_into(plain, _LENGTH_AT, len(plain) - LENGTH_PREFIX_BYTES)
    _ATTRIBUTES.pack_into(plain, CRC_START, attributes & ~COMPRESSION_MASK)
    return Opened(plain, is_cut)


def plain_batch(batch: Buffer, bytes_max: int = PLAIN_BATCH_BYTES_MAX) -> Buffer:
    """Return a whole batch without compression; its checksum is not made new.

    Raises:
        TooLargeError: Its records take more than ``bytes_max``.
        ValueError: They cannot be decompressed.
    """
    opened = opened_batch(batch, bytes_max)
    if opened.is_cut:
        raise too_large(bytes_max)
    return opened.data


def _with_room(*pieces: bytes) -> bytearray:
    return bytearray().join((bytes(HEADER_BYTES), *pieces))


def _gzip(data: bytes, bytes_max: int) -> Unpacked:
    unpacking = zlib.decompressobj(wbits=31)
    records = unpacking.decompress(data, bytes_max)
    is_cut = len(records) == bytes_max and bool(unpacking.decompress(unpacking.unconsumed_tail, 1))
    return _with_room(records), is_cut


def _snappy(data: bytes, bytes_max: int) -> Unpacked:
    if not data.startswith(_XERIAL_MAGIC):
        piece = _snappy_block(data, bytes_max)
        return _with_room(piece or b""), piece is None
    pieces: list[bytes] = []
    at, left = _XERIAL_HEADER_BYTES, bytes_max
    while at < len(data):
        (size,) = _LENGTH.unpack_from(data, at)
        at += _LENGTH.size
        if size < 0:
            raise ValueError(f"a snappy block of {size} bytes")
        piece = _snappy_block(data[at : at + size], left)
        if piece is None:
            return _with_room(*pieces), True
        pieces.append(piece)
        left -= len(piece)
        at += size
    return _with_room(*pieces), False


def _snappy_block(data: bytes, bytes_max: int) -> bytes | None:
    """Return a block, None for one that is too large: it is unpacked as a whole, or not at all."""
    if cramjam.snappy.decompress_raw_len(data) > bytes_max:
        return None
    return bytes(cramjam.snappy.decompress_raw(data))


def _guessing(into: Callable[[bytes, memoryview], int]) -> Callable[[bytes, int], Unpacked]:
    """Return a decompressor that writes into buffers of a growing size, up to the bound.

    One that is too small is filled before that is told.
    """

    def decompress(data: bytes, bytes_max: int) -> Unpacked:
        size = max(_GUESS_BYTES_MIN, _FIRST_GUESS * len(data))
        while True:
            buffer = bytearray(HEADER_BYTES + min(size, bytes_max))
            try:
                with memoryview(buffer) as view, view[HEADER_BYTES:] as room:
                    end = HEADER_BYTES + into(data, room)
            except cramjam.DecompressionError as error:
                if "whole buffer" not in str(error):
                    raise
                if size >= bytes_max:
                    return buffer, True
            else:
                del buffer[end:]
                return buffer, False
            size *= _FIRST_GUESS

    return decompress


_DECOMPRESS: dict[int, Callable[[bytes, int], Unpacked]] = {
    1: _gzip,
    2: _snappy,
    3: _guessing(cramjam.lz4.decompress_into),
    4: _guessing(cramjam.zstd.decompress_into),
}
