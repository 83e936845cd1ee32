"""Which requests want no answer: they are done although their client has gone (spec KLS-7)."""

import struct

from sharemesh.kafka.messages import MalformedMessageError
from sharemesh.kafka.served_messages import has_flexible_header
from sharemesh.kafka_listener.request_header import kind_of, read_header, unsigned_varint
from sharemesh.kafka_listener.served_requests import ServedRequest

HEAD_SEEN_BYTES = 2_048
"""How much of a frame is looked at: more than a client's name and a transactional id take."""

_COMPACT_FROM = 9
_NO_ACKNOWLEDGEMENTS = 0


def wants_no_answer(head: bytes) -> bool:
    """Return whether a frame that begins so is a Produce with acks=0."""
    key, version = kind_of(head)
    if key != ServedRequest.PRODUCE.key:
        return False
    try:
        body = memoryview(head)
        body = body[read_header(body, flexible=has_flexible_header(key, version)).size :]
        if version >= _COMPACT_FROM:
            length, position = unsigned_varint(body, 0)
            position += max(length - 1, 0)
        else:
            (length,) = struct.unpack_from(">h", body)
            position = 2 + max(length, 0)
        (acks,) = struct.unpack_from(">h", body, position)
    except (struct.error, IndexError, MalformedMessageError):
        return False
    return bool(acks == _NO_ACKNOWLEDGEMENTS)
