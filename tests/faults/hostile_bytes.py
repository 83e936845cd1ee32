"""Requests as an enemy or a broken client sends them: random fields, huge counts, broken bytes."""

import random
import struct
from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from sharemesh.codec.record_set import build_batch

INTEGERS = (0, 1, -1, 2, 3, 4, 5, 9, -2, -4, 2**31 - 1, -(2**31))
LONGS = (*INTEGERS, 2**63 - 1, -(2**63), 2**40)
BATCH = bytes(build_batch([(b"k", b"v" * 20, ())] * 3, timestamp_ms=1))
NESTED_GROUPS = b"\x0b" * 10_000
"""Starts of groups inside each other, which a recursive parser would fall into."""

VALUES: dict[int, tuple[object, ...]] = {
    FieldDescriptor.CPPTYPE_INT32: INTEGERS,
    FieldDescriptor.CPPTYPE_ENUM: INTEGERS,
    FieldDescriptor.CPPTYPE_INT64: LONGS,
    FieldDescriptor.CPPTYPE_UINT32: (0, 1, 2**32 - 1),
    FieldDescriptor.CPPTYPE_UINT64: (0, 1, 2**64 - 1),
    FieldDescriptor.CPPTYPE_BOOL: (False, True),
    FieldDescriptor.CPPTYPE_DOUBLE: (0.0, -1.0, float("inf"), float("nan")),
    FieldDescriptor.CPPTYPE_FLOAT: (0.0, -1.0, float("inf"), float("nan")),
}
MANY = 50_000
"""Items of one repeated field; a client may send that many at little cost."""

EMPTY_MANY = 500_000
DEPTH_MAX = 5


class Enemy:
    """Makes requests; `ids` and `names` are those of real things, so that some get far."""

    def __init__(self, rng: random.Random, ids: list[bytes], names: list[str]) -> None:
        self._rng = rng
        self._ids = [*ids, b"", b"short", b"f" * 17, bytes(16), rng.randbytes(16)]
        self._texts = [
            *names,
            "",
            "g",
            "x" * 5_000,
            "a:b",
            "\0",
            "\u00fc" * 36,
            "../../etc",
            "%s%n",
        ]

    def request(self, kind: type[Message]) -> bytes:
        """Return the bytes of one request for a method that takes `kind`."""
        rng = self._rng
        choice = rng.random()
        if choice < 0.10:
            return rng.randbytes(rng.randrange(200))
        if choice < 0.11:
            return NESTED_GROUPS
        message = kind()
        self._fill(message, 0)
        data = message.SerializeToString()
        if choice < 0.13:
            data += self._many(kind)
        if choice < 0.35 and data:
            return self._broken(data)
        return data

    def _broken(self, data: bytes) -> bytes:
        """Flip, cut, double, or make text that is no UTF-8."""
        rng = self._rng
        changed = bytearray(data)
        kind = rng.randrange(4)
        if kind == 0:
            for _ in range(rng.randint(1, 8)):
                changed[rng.randrange(len(changed))] = rng.randrange(256)
        elif kind == 1:
            del changed[rng.randrange(len(changed)) :]
        elif kind == 2:
            changed *= 2
        else:
            changed += b"\x0a\x04\xff\xfe\xc3\x28"  # field 1, as text
        return bytes(changed)

    def _many(self, kind: type[Message]) -> bytes:
        """Return the bytes of one repeated field with a huge number of items.

        One item's bytes again and again: made as messages they would keep all callers waiting.
        """
        fields = [each for each in kind.DESCRIPTOR.fields if each.is_repeated]
        if not fields:
            return b""
        field = self._rng.choice(fields)
        message = kind()
        items = getattr(message, field.name)
        if field.message_type is None:
            items.append(self._value(field))
        elif field.message_type.GetOptions().map_entry:
            return b""
        elif self._rng.random() < 0.8:
            self._fill(items.add(), DEPTH_MAX - 1)
        else:
            items.add()  # two bytes each, a hundred once they are parsed
            return message.SerializeToString() * EMPTY_MANY
        return message.SerializeToString() * MANY

    def _fill(self, message: Message, depth: int) -> None:
        rng = self._rng
        for field in message.DESCRIPTOR.fields:
            if rng.random() < 0.25:
                continue
            if field.message_type is None:
                if field.is_repeated:
                    values = [self._value(field) for _ in range(rng.choice((0, 1, 1, 2, 20)))]
                    getattr(message, field.name).extend(values)
                else:
                    setattr(message, field.name, self._value(field))
            elif field.message_type.GetOptions().map_entry:
                getattr(message, field.name)[rng.choice(self._texts)] = str(rng.choice(LONGS))
            elif depth < DEPTH_MAX:
                if field.is_repeated:
                    for _ in range(rng.choice((0, 1, 1, 2, 3))):
                        self._fill(getattr(message, field.name).add(), depth + 1)
                else:
                    getattr(message, field.name).SetInParent()
                    self._fill(getattr(message, field.name), depth + 1)

    def _value(self, field: Any) -> object:
        if field.type == FieldDescriptor.TYPE_BYTES:
            return self._records() if self._rng.random() < 0.4 else self._rng.choice(self._ids)
        return self._rng.choice(VALUES.get(field.cpp_type, self._texts))

    def _records(self) -> bytes:
        """Return record batches whose headers lie, with or without a checksum that fits."""
        rng = self._rng
        data = bytearray(BATCH * rng.randint(1, 2))
        kind = rng.randrange(4)
        if kind == 0:
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        elif kind == 1:
            struct.pack_into(">i", data, 8, rng.choice(INTEGERS))  # the length
        elif kind == 2:
            struct.pack_into(">i", data, 57, rng.choice(INTEGERS))  # the record count
        return bytes(data)
