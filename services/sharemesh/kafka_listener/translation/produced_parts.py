"""How many parts a Produce has, counted before it is read (spec KLS-28)."""

import struct

from sharemesh.kafka.messages import MalformedMessageError
from sharemesh.kafka_listener.request_header import unsigned_varint

FIRST_FLEXIBLE = 9
FIRST_BY_ID = 13
TOPIC_ID_BYTES = 16

_INT16, _INT32 = struct.Struct(">h"), struct.Struct(">i")
_ACKS_AND_TIMEOUT_BYTES = 6
_INDEX_BYTES = 4


def has_more_parts(version: int, body: memoryview, most: int) -> bool:
    """Return whether a request behind its header has more than ``most`` topics and partitions.

    It looks at no more of them than that. What is cut off, or is no Produce, has not more.
    """
    counted = _Counted(version, body, most)
    try:
        counted.walk()
    except _EnoughError:
        return True
    except (IndexError, struct.error, MalformedMessageError):
        return False
    return False


class _EnoughError(Exception):
    """There are more parts than were asked about."""


class _Counted:
    """A place in a request, and what lies before it."""

    def __init__(self, version: int, body: memoryview, most: int) -> None:
        self._by_id = version >= FIRST_BY_ID
        self._is_flexible = version >= FIRST_FLEXIBLE
        self._body = body
        self._left = most
        self._at = 0

    def walk(self) -> None:
        """Pass all parts."""
        self._pass_text()
        self._at += _ACKS_AND_TIMEOUT_BYTES
        for _ in range(self._length()):
            self._count()
            if self._by_id:
                self._at += TOPIC_ID_BYTES
            else:
                self._pass_text()
            for _ in range(self._length()):
                self._count()
                self._at += _INDEX_BYTES
                self._pass(self._length())
                self._pass_tags()
            self._pass_tags()

    def _count(self) -> None:
        self._left -= 1
        if self._left < 0:
            raise _EnoughError

    def _length(self) -> int:
        """Return a length; -1: there is nothing."""
        if self._is_flexible:
            size, self._at = unsigned_varint(self._body, self._at)
            return size - 1
        (size,) = _INT32.unpack_from(self._body, self._at)
        self._at += _INT32.size
        return int(size)

    def _pass_text(self) -> None:
        if self._is_flexible:
            self._pass(self._length())
            return
        (size,) = _INT16.unpack_from(self._body, self._at)
        self._pass(_INT16.size + max(0, size))

    def _pass(self, size: int) -> None:
        self._at += max(0, size)

    def _pass_tags(self) -> None:
        if not self._is_flexible:
            return
        count, self._at = unsigned_varint(self._body, self._at)
        for _ in range(count):
            self._count()
            _, self._at = unsigned_varint(self._body, self._at)
            size, self._at = unsigned_varint(self._body, self._at)
            self._at += size
