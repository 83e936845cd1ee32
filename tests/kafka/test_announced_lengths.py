"""Lists that a request announces and does not have: kio would reserve memory for them."""

import struct

import pytest
from kio.index import load_request_schema

from sharemesh.kafka.announced_lengths import ENTRIES_MAX, check_lengths
from sharemesh.kafka.messages import MalformedMessageError
from sharemesh.kafka.served_messages import read_request

FETCH, LIST_OFFSETS, METADATA, FIND_COORDINATOR, SHARE_ACKNOWLEDGE = 1, 2, 3, 10, 79
TOPIC_PARTITIONS = 75
HUGE = b"\xff\xff\xff\xff\x7f"
REPLICA = b"\xff\xff\xff\xff"


@pytest.mark.parametrize(
    ("key", "version", "body"),
    [
        (FIND_COORDINATOR, 6, b"\0" + HUGE),
        (FIND_COORDINATOR, 6, b"\0\0\0"),
        (FIND_COORDINATOR, 6, b"\0" + b"\xff" * 6),
        (FIND_COORDINATOR, 6, b"\0\2"),
        (LIST_OFFSETS, 1, REPLICA + struct.pack(">i", 2**31 - 1)),
        (LIST_OFFSETS, 1, REPLICA + struct.pack(">i", -1)),
        (LIST_OFFSETS, 1, REPLICA + b"\0\0"),
        (LIST_OFFSETS, 1, REPLICA + struct.pack(">ih1si", 1, 1, b"a", 2**31 - 1)),
        (METADATA, 1, struct.pack(">i", -2)),
        (SHARE_ACKNOWLEDGE, 1, b"\2g\2m" + bytes(4) + b"\2" + bytes(16) + b"\2" + bytes(4) + HUGE),
        (FIND_COORDINATOR, 6, b"\0" + b"\xa1\x8d\x06" + b"\1" * (ENTRIES_MAX + 1) + b"\0"),
        (FETCH, 12, bytes(25) + b"\1\1\1" + b"\1\0\7" + b"\2a"),
        (TOPIC_PARTITIONS, 0, b"\1" + bytes(4)),
    ],
)
def test_lists_that_are_not_there_are_no_request_kls_4(key, version, body):
    with pytest.raises(MalformedMessageError):
        check_lengths(load_request_schema(key, version), memoryview(body))
    with pytest.raises(MalformedMessageError):
        read_request(key, version, memoryview(body))


@pytest.mark.parametrize(
    ("key", "version", "body"),
    [
        (METADATA, 1, struct.pack(">i", -1)),
        (METADATA, 13, b"\0\1\0\0"),
        (LIST_OFFSETS, 1, REPLICA + struct.pack(">ih1siiq", 1, 1, b"a", 1, 0, -1)),
        (FIND_COORDINATOR, 6, b"\0" + b"\2" + b"\2g" + b"\0"),
        (FETCH, 12, bytes(25) + b"\1\1\1" + b"\1\0\2" + b"\2a"),
        (TOPIC_PARTITIONS, 0, b"\1" + bytes(4) + b"\xff\0"),
        (TOPIC_PARTITIONS, 0, b"\1" + bytes(4) + b"\1\2a" + bytes(4) + b"\0\0"),
    ],
)
def test_what_is_there_is_read(key, version, body):
    check_lengths(load_request_schema(key, version), memoryview(body))
    assert read_request(key, version, memoryview(body)) is not None


UNKNOWN = b"\x63\3abc"  # tag 99, three bytes


@pytest.mark.parametrize(
    ("key", "version", "body", "same"),
    [
        (METADATA, 13, b"\0\1\0\1" + UNKNOWN, b"\0\1\0\0"),
        (METADATA, 13, b"\0\1\0\2" + UNKNOWN + b"\x80\1\0", b"\0\1\0\0"),
        (  # within a topic, and behind all of them
            METADATA,
            13,
            b"\2" + bytes(16) + b"\2a\1" + UNKNOWN + b"\1\0\1" + UNKNOWN,
            b"\2" + bytes(16) + b"\2a\0" + b"\1\0\0",
        ),
        (  # beside one that is known: the cluster's id
            FETCH,
            12,
            bytes(25) + b"\1\1\1" + b"\2\0\2\2a" + UNKNOWN,
            bytes(25) + b"\1\1\1" + b"\1\0\2\2a",
        ),
    ],
)
def test_tagged_fields_that_are_not_known_mean_nothing_kls_4(key, version, body, same):
    cls = load_request_schema(key, version)
    assert bytes(check_lengths(cls, memoryview(body))) == same
    assert read_request(key, version, memoryview(body)) == read_request(
        key, version, memoryview(same)
    )


def test_tagged_fields_are_counted_before_they_are_looked_at_kls_4():
    many = ENTRIES_MAX + 1
    body = b"\0\1\0" + b"\xa1\x8d\x06" + b"\x63\0" * many
    with pytest.raises(MalformedMessageError, match="tagged fields"):
        read_request(METADATA, 13, memoryview(body))


@pytest.mark.parametrize("count", [3, 300])
def test_a_tagged_field_that_comes_again_and_again_is_no_request_kls_4(count):
    length = bytes((count & 0x7F | 0x80, count >> 7)) if count > 0x7F else bytes((count,))
    body = bytes(25) + b"\1\1\1" + length + b"\0\1\0" * count
    with pytest.raises(MalformedMessageError, match="twice"):
        read_request(FETCH, 12, memoryview(body))


@pytest.mark.parametrize(
    "tags", [b"\1\x63\4abc", b"\2" + UNKNOWN, b"\1\x63", b"\1\x63" + b"\xff" * 6]
)
def test_a_tagged_field_that_is_not_whole_is_no_request_kls_4(tags):
    with pytest.raises(MalformedMessageError):
        read_request(METADATA, 13, memoryview(b"\0\1\0" + tags))
