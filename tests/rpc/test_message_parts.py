"""Messages inside a serialized one are counted as the parser would find them, or more."""

import random
import time

import pytest
from google.protobuf.message import DecodeError, Message

from sharemesh.methods import METHODS, PRODUCE
from sharemesh.rpc.message_parts import FIELDS_PER_PART, UNCOUNTED_BYTES, MessageParts
from sharemesh.v1 import record_log_pb2 as pb
from tests.faults.hostile_bytes import Enemy

SEED = 20262
PADDING = b"\xfa\xff\x03" + b"\x80\x80\x20" + bytes(1 << 19)
"""A field that no message knows: makes data long enough to be counted."""


def parts_of(message: Message) -> int:
    """Count what was parsed."""
    found = 0
    for field, value in message.ListFields():
        if field.message_type is not None:
            if field.message_type.GetOptions().map_entry:
                found += len(value)
            else:
                found += sum(
                    1 + parts_of(each) for each in (value if field.is_repeated else [value])
                )
    return found


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)
def test_no_request_holds_more_messages_than_are_counted(method) -> None:
    rng = random.Random(f"{SEED} {method.name}")
    enemy = Enemy(rng, [], ["t"])
    parts = MessageParts(method.request)
    for number in range(15):
        data = enemy.request(method.request) + PADDING
        try:
            held = parts_of(method.request.FromString(data))
        except DecodeError:
            parts.exceed(data, 1_000)  # no error, whatever it holds
            continue
        assert parts.exceed(data, held - 1) or not held, f"seed {SEED}, request {number}"


def test_exactly_the_bound_is_allowed() -> None:
    request = pb.ProduceRequest()
    for _ in range(10):
        record = request.partitions.add(records=bytes(UNCOUNTED_BYTES)).decoded_records.add()
        record.headers.add(key="k", value=b"v")
    parts = MessageParts(PRODUCE.request)
    data = request.SerializeToString()
    assert not parts.exceed(data, 30)
    assert parts.exceed(data, 29)


def test_records_are_passed_over_whatever_they_hold() -> None:
    looks_like_messages = b"\x0a\x00" * UNCOUNTED_BYTES
    request = pb.ProduceRequest(partitions=[pb.ProducePartition(records=looks_like_messages)])
    parts = MessageParts(PRODUCE.request)
    assert not parts.exceed(request.SerializeToString(), 1)


def test_many_fields_that_are_no_messages_end_the_count_too() -> None:
    empty_names = b"\x12\x00" * UNCOUNTED_BYTES
    assert MessageParts(pb.ProduceRequest).exceed(
        empty_names, UNCOUNTED_BYTES // FIELDS_PER_PART - 1
    )


def test_a_group_does_not_hide_what_is_inside_or_behind_it() -> None:
    hidden = b"\x7b" + b"\x0a\x00" * UNCOUNTED_BYTES + b"\x7c"
    assert MessageParts(pb.ProduceRequest).exceed(hidden, UNCOUNTED_BYTES - 1)


def test_small_messages_are_not_counted() -> None:
    small = b"\x0a\x00" * (UNCOUNTED_BYTES // 2)
    assert not MessageParts(pb.ProduceRequest).exceed(small, 1)


def test_a_number_that_does_not_end_is_not_read_on() -> None:
    """Bytes of 0xff took time by the square of their number: 2 MiB held a process for minutes."""
    parts = MessageParts(PRODUCE.request)
    for first in (b"", b"\x0a", b"\x08"):  # as a tag, as a size, as a value
        data = first + b"\xff" * 16 * UNCOUNTED_BYTES
        began_s = time.process_time()
        assert not parts.exceed(data, 10)
        assert time.process_time() - began_s < 0.1
    with pytest.raises(DecodeError):
        PRODUCE.request.FromString(b"\xff" * 11 + b"\x01")
