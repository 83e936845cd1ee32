"""Random requests full of extremes: an error each time, never a crash, and the leader goes on."""

import asyncio
import random
from contextlib import suppress

from google.protobuf.descriptor import FieldDescriptor

from sharemesh import methods
from sharemesh.codec.decoded_records import encode_records
from sharemesh.ports.network import CallFailedError
from sharemesh.v1.common_pb2 import DecodedRecord
from tests.share_leader.world import FOO, LEADER, TopicPartition, acquired, world

P0 = TopicPartition(FOO, 0)
SEED = 20260921
UNARY = (
    methods.SHARE_FETCH,
    methods.SHARE_ACKNOWLEDGE,
    methods.EXPLAIN,
    methods.PRODUCE,
    methods.INIT_PRODUCER_ID,
    methods.FETCH,
    methods.LIST_OFFSETS,
    methods.DELETE_RECORDS,
    methods.WRITE_TXN_MARKERS,
)
BATCH = encode_records([DecodedRecord(value=b"v")] * 3, default_timestamp_ms=1)
INTEGERS = (0, 1, -1, 2, 3, 4, 5, 9, 100, -2, -4, 2**31 - 1, -(2**31))
LONGS = (*INTEGERS, 2**63 - 1, -(2**63), 2**40)
TEXTS = ("", "g", "m1", "m2", "foo", "bar", "x" * 5_000, "a:b", "\0", "ü" * 36)
BYTES = (b"", FOO, b"short", b"f" * 17, BATCH, BATCH[:40], BATCH + BATCH, b"\0" * 61, b"\xff" * 200)


def value(rng, field):
    match field.cpp_type:
        case FieldDescriptor.CPPTYPE_INT32 | FieldDescriptor.CPPTYPE_ENUM:
            return rng.choice(INTEGERS)
        case FieldDescriptor.CPPTYPE_INT64:
            return rng.choice(LONGS)
        case FieldDescriptor.CPPTYPE_BOOL:
            return rng.random() < 0.5
        case FieldDescriptor.CPPTYPE_STRING:
            if field.type == FieldDescriptor.TYPE_BYTES:
                return mutated(rng, rng.choice(BYTES))
            return rng.choice(TEXTS)
    raise AssertionError(field.cpp_type)


def mutated(rng, data):
    if not data or len(data) == 16 or rng.random() < 0.5:
        return data
    changed = bytearray(data)
    changed[rng.randrange(len(changed))] = rng.randrange(256)
    return bytes(changed)


def fill(rng, message, depth=0):
    """Set fields at random; small numbers of repeated ones, some of them well-formed."""
    for field in message.DESCRIPTOR.fields:
        if rng.random() < 0.3:
            continue
        count = rng.choice((0, 1, 1, 1, 2, 5)) if field.is_repeated else 1
        for _ in range(count):
            if field.cpp_type == FieldDescriptor.CPPTYPE_MESSAGE:
                target = getattr(message, field.name)
                fill(rng, target.add() if field.is_repeated else target, depth + 1)
            elif field.is_repeated:
                getattr(message, field.name).append(value(rng, field))
            elif field.name == "max_wait_ms":
                message.max_wait_ms = rng.choice((0, -5, 1))
            else:
                setattr(message, field.name, value(rng, field))
    return message


async def served_still(w):
    _, last = await w.produce(P0, 3)
    member = w.client("good", group="g")
    await member.join(P0)
    for _ in range(200):
        ranges = acquired(await member.fetch(), P0)
        if ranges and ranges[-1][1] >= last:
            return
    raise AssertionError("the leader no longer serves")


async def test_random_requests_are_answered_and_the_leader_goes_on():
    print("seed", SEED)
    rng = random.Random(SEED)
    async with world(manual=False) as w:
        await w.configure("g", auto_offset_reset="earliest", partition_max_record_locks=4_000)
        await w.lead(P0)
        caller = w.network.caller()
        codes = set()
        for _ in range(3_000):
            method = rng.choice(UNARY)
            request = fill(rng, method.request())
            response = await asyncio.wait_for(caller.call(method, request, to=LEADER), 10)
            codes.add(getattr(response, "error_code", 0))
        assert len(codes) > 3
        await served_still(w)


async def test_random_streams_end_with_an_error_or_are_served():
    print("seed", SEED)
    rng = random.Random(SEED)
    async with world(manual=False) as w:
        await w.configure("g", auto_offset_reset="earliest", partition_max_record_locks=4_000)
        await w.lead(P0)
        for _ in range(150):
            caller = w.network.caller()
            for method in (methods.CONSUME, methods.HOLD_SESSION):
                stream = await caller.stream(method, to=LEADER)
                with suppress(CallFailedError):  # the stream may have ended before
                    for _ in range(rng.randrange(1, 6)):
                        await stream.send(fill(rng, method.request()))
                await stream.close()
                async with asyncio.timeout(10):
                    async for _ in stream:
                        pass
            await caller.close()
        assert len(w.service._streams) == 0
        await served_still(w)
