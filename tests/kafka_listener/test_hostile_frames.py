"""Frames that lie, of every kind and version: nothing ends but their own connections (KLS-4)."""

import asyncio
import contextlib
import os
import struct
import uuid
from collections import Counter
from dataclasses import fields, is_dataclass
from random import Random
from typing import get_args, get_origin, get_type_hints

from kio.index import load_request_schema

from sharemesh.kafka.messages import error_code, milliseconds
from sharemesh.kafka_listener.served_requests import ServedRequest
from tests.kafka_listener.asked import METADATA, batch, orders, produce
from tests.kafka_listener.world import NO_ERROR, ListeningMesh, request_frame

FRAMES = int(os.environ.get("HOSTILE_FRAMES", "0")) or 1_500
SEED = int(os.environ.get("HOSTILE_SEED", "0")) or 20261123
ANSWER_S = 5
TEXTS = ("", "orders", "g", "m", "x" * 300, "a:b", "\0", "ü" * 36, "__share_group_state")
NUMBERS = {
    "int8": (0, 1, -1, 2, 3, 16, 32, 127, -128),
    "int16": (0, 1, -1, 2, 100, 2**15 - 1, -(2**15)),
    "int32": (0, 1, -1, 2, 7, 500, 2**31 - 1, -(2**31)),
    "int64": (0, 1, -1, -2, -4, 10, 2**63 - 1, -(2**63)),
}
LATER = {ServedRequest.API_VERSIONS, ServedRequest.SASL_HANDSHAKE, ServedRequest.SASL_AUTHENTICATE}
QUICK = {"max_wait", "timeout"}


class Liar:
    """Makes requests whose every field is anything, and breaks some of them."""

    def __init__(self, rng, topic_id):
        self.rng = rng
        self.ids = (topic_id, uuid.UUID(int=5), None)

    def frame(self):
        """Return a frame of a kind, or what once was one."""
        kind = self.rng.choice([each for each in ServedRequest if each not in LATER])
        version = kind.shape(self.rng.randint(kind.lowest, kind.highest))
        cls = load_request_schema(kind.key, version)
        whole = request_frame(kind.key, version, 7, self.entity(cls))
        return kind, self.broken(whole) if self.rng.random() < 0.5 else whole

    def broken(self, frame):
        """Flip, cut, double or tag the bytes behind the size; the size fits again."""
        body, rng = bytearray(frame[4:]), self.rng
        way = rng.randrange(5)
        if way == 0:
            for _ in range(rng.randint(1, 6)):
                body[rng.randrange(8, len(body))] = rng.randrange(256)
        elif way == 1:
            del body[rng.randrange(8, len(body)) :]
        elif way == 2:
            body += body[8:]
        elif way == 3:
            at = rng.randrange(8, len(body))
            body[at:at] = rng.choice((b"\xff\xff\xff\xff\x7f", b"\x7f\xff\xff\xff", b"\xff" * 9))
        else:
            body[-1:] = b"\1\x63\3abc"
        return struct.pack(">i", len(body)) + body

    def entity(self, cls):
        hints = get_type_hints(cls)
        return {
            each.name: milliseconds(self.rng.choice((0, 1, 50)))
            if each.name in QUICK
            else self.value(hints[each.name], each.metadata.get("kafka_type"))
            for each in fields(cls)
        }

    def value(self, hint, kind):
        rng = self.rng
        inner = [each for each in get_args(hint) if each is not type(None)]
        if type(None) in get_args(hint) and kind not in ("uuid", "records"):
            if rng.random() < 0.2:
                return None
            hint = inner[0]
        if get_origin(hint) is tuple:
            item = get_args(hint)[0]
            return tuple(self.value(item, kind) for _ in range(rng.choice((0, 1, 1, 2, 5))))
        if is_dataclass(hint):
            return self.entity(hint)
        made = {
            "bool": lambda: rng.random() < 0.5,
            "string": lambda: rng.choice(TEXTS),
            "bytes": lambda: rng.randbytes(rng.randrange(40)),
            "records": lambda: rng.choice((b"", batch(b"a", b"b"), rng.randbytes(80))),
            "uuid": lambda: rng.choice(self.ids),
            "timedelta_i32": lambda: milliseconds(rng.choice((0, 1, 50))),
            "error_code": lambda: error_code(0),
            "float64": lambda: rng.choice((0.0, -1.0, 1e300)),
        }
        return made[kind]() if kind in made else rng.choice(NUMBERS[kind])


async def test_no_frame_ends_more_than_its_connection_kls_4(caplog):
    print("seed", SEED)
    async with ListeningMesh(max_held_bytes=1 << 24) as mesh:
        topic_id = await orders(mesh, 2)
        liar = Liar(Random(SEED), topic_id)
        ends = Counter()
        for _ in range(FRAMES):
            kind, frame = liar.frame()
            async with mesh.connect() as client:
                client.writer.write(frame)
                try:
                    async with asyncio.timeout(ANSWER_S):
                        got = await client.reader.read(1 << 16)
                    ends["answered" if got else "closed"] += 1
                except ConnectionError:
                    ends["closed"] += 1
                except TimeoutError:
                    ends[f"silent {kind.label}"] += 1
        internal = [told for told in mesh.refused if "internal" in map(str, told)]
        assert not internal, (internal, caplog.text[-3_000:])
        silent = {name: count for name, count in ends.items() if name.startswith("silent")}
        assert sum(silent.values()) < FRAMES / 20, silent  # a length that lies is waited for
        assert ends["answered"] > FRAMES / 5, ends
        assert ends["closed"] > FRAMES / 20, ends
        async with mesh.connect() as good:
            told = await good.ask(METADATA, 13, topics=[{"name": "kept", "topic_id": None}])
            assert told.topics
            with contextlib.suppress(ConnectionError):
                again = await produce(good, topic_id, b"still here")
                assert again.error_code in (NO_ERROR, error_code(100))  # a liar may have deleted it
