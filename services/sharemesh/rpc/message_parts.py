"""Counts the messages inside a serialized one, so that what would swell is not parsed.

Two bytes on the wire can be an empty message that takes a hundred in memory: 20 MiB of them would
become 1 GB before any handler could say that they are too many (measured with protobuf 6).
"""

from typing import Any

from google.protobuf.message import Message

UNCOUNTED_BYTES = 64 * 1024
"""Up to here a message cannot swell to more than some 4 MiB, and is parsed without a check."""

FIELDS_PER_PART = 5
"""Fields of any kind that may stand for each message allowed; the count ends there too."""

Shape = dict[int, "Shape"]
"""The fields of a message that hold messages, by number, with their own shapes."""

_VARINT, _EIGHT_BYTES, _SIZED, _FOUR_BYTES = 0, 1, 2, 5
_SHIFT_MAX = 63
_GROUPS = (3, 4)  # begin and end of an unknown group: what is inside counts as if it were not


class MessageParts:
    """Looks through the serialized messages of one type."""

    def __init__(self, kind: type[Message]) -> None:
        self._shape = _shape(kind.DESCRIPTOR, {})

    def exceed(self, data: bytes, parts_max: int) -> bool:
        """Return whether ``data`` holds more than ``parts_max`` messages, at any depth.

        The same if it has more than ``FIELDS_PER_PART`` times as many fields. Data that is no
        message of the type is counted up to where it breaks: the parser refuses it.
        """
        if len(data) <= UNCOUNTED_BYTES:
            return False
        try:
            return _exceed(data, self._shape, parts_max)
        except IndexError:  # it ends within a number, or a number does not end
            return False


def _shape(descriptor: Any, known: dict[str, Shape]) -> Shape:  # noqa: ANN401 - protobuf has two
    shape = known.get(descriptor.full_name)
    if shape is None:
        shape = known[descriptor.full_name] = {}
        for field in descriptor.fields:
            if field.message_type is not None:
                shape[field.number] = _shape(field.message_type, known)
    return shape


def _exceed(data: bytes, shape: Shape, parts_max: int) -> bool:
    parts, fields_left = 0, parts_max * FIELDS_PER_PART
    at, end = 0, len(data)
    outer: list[tuple[int, Shape]] = []
    while True:
        while at >= end:
            if not outer:
                return False
            end, shape = outer.pop()
        tag, size = data[at], data[at + 1]
        if tag & 0x87 == _SIZED and size < 0x80:  # a short one of a low number: by far the most
            at += 2
        else:
            tag, at = _number(data, at)
            size, at = _size(data, at, tag & 7, end)
        inner = shape.get(tag >> 3) if tag & 7 == _SIZED else None
        if inner is None:
            at += size
        elif size == 0:
            parts += 1
        elif at + size <= end:
            parts += 1
            outer.append((end, shape))
            end, shape = at + size, inner
        else:
            return False  # it ends outside of what it is in
        fields_left -= 1
        if parts > parts_max or fields_left < 0:
            return True


def _size(data: bytes, at: int, kind: int, end: int) -> tuple[int, int]:
    """Return how many bytes the value of a field has and where they begin; all for no kind."""
    if kind == _SIZED:
        return _number(data, at)
    if kind == _VARINT:
        return 0, _number(data, at)[1]
    if kind == _EIGHT_BYTES:
        return 8, at
    if kind == _FOUR_BYTES:
        return 4, at
    return (0, at) if kind in _GROUPS else (end, at)


def _number(data: bytes, at: int) -> tuple[int, int]:
    """Return the varint at ``at`` and where the next byte is; IndexError if there is none.

    One of more than ten bytes is none either: to read on would take time without bound.
    """
    byte = data[at]
    if byte < 0x80:
        return byte, at + 1
    value, shift = byte & 0x7F, 7
    while True:
        at += 1
        byte = data[at]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at + 1
        shift += 7
        if shift > _SHIFT_MAX:
            raise IndexError("a number of more than ten bytes")
