"""What stands in front of each request: kind, version, correlation id, the client's name."""

import struct
from typing import NamedTuple

from sharemesh.kafka.messages import MalformedMessageError

_FIXED = struct.Struct(">hhih")
HEAD_BYTES = 4
"""Of a frame: enough to know the kind of the request and its version."""

TAGS_MAX = 100
"""Most tagged fields of a header: none is known here, and each takes time."""


class RequestHeader(NamedTuple):
    """A header that was read; ``size`` is where the request itself begins."""

    key: int
    version: int
    correlation: int
    client_id: str
    size: int


def kind_of(frame: bytes | bytearray | memoryview) -> tuple[int, int]:
    """Return key and version of a request, from its first ``HEAD_BYTES``."""
    key, version = struct.unpack_from(">hh", frame)
    return key, version


def read_header(frame: memoryview, *, flexible: bool) -> RequestHeader:
    """Return the header of a frame without its size; tagged fields in it mean nothing here.

    Raises:
        MalformedMessageError: The frame ends too early, or the client's name is no UTF-8.
    """
    try:
        key, version, correlation, length = _FIXED.unpack_from(frame)
        position = _FIXED.size
        name = bytes(frame[position : position + max(length, 0)])
        if len(name) < length:
            raise MalformedMessageError("the header ends within the client's name")
        position += len(name)
        if flexible:
            position = _behind_tags(frame, position)
        return RequestHeader(key, version, correlation, name.decode(), position)
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise MalformedMessageError(f"the header cannot be read: {error}") from error


def _behind_tags(frame: memoryview, position: int) -> int:
    count, position = unsigned_varint(frame, position)
    if count > TAGS_MAX:
        raise MalformedMessageError(f"the header has {count} tagged fields")
    for _ in range(count):
        _, position = unsigned_varint(frame, position)
        size, position = unsigned_varint(frame, position)
        position += size
        if position > len(frame):
            raise MalformedMessageError("the header ends within a tagged field")
    return position


def unsigned_varint(frame: memoryview, position: int) -> tuple[int, int]:
    """Return a number of variable length and where it ends; raises IndexError if it does not."""
    value = 0
    for shift in range(0, 35, 7):
        byte = frame[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
    raise MalformedMessageError("a number in the header is longer than five bytes")
