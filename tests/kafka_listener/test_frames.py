"""Frames and headers, byte by byte: what is taken, and what ends a connection at once."""

import struct

import pytest

from sharemesh.kafka.messages import MalformedMessageError
from sharemesh.kafka_listener.frames import FrameReader, RefusedFrameError
from sharemesh.kafka_listener.held_bytes import HeldBytes
from sharemesh.kafka_listener.limits import PRODUCE_BYTES_MAX, REQUEST_BYTES_MAX
from sharemesh.kafka_listener.request_header import read_header
from tests.kafka_listener.world import request_frame

METADATA = request_frame(3, 1, 5, {"topics": None})


def head(size, key, version):
    return struct.pack(">ihh", size, key, version)


def reader_of(data):
    reader = FrameReader()
    reader.feed(data)
    return reader


@pytest.mark.parametrize("step", [1, 3, 1_000])
def test_frames_come_out_whole_however_they_came(step):
    stream = METADATA * 3
    reader, frames = FrameReader(), []
    for at in range(0, len(stream), step):
        reader.feed(stream[at : at + step])
        while (frame := reader.take()) is not None:
            frames.append(frame)
    assert frames == [METADATA[4:]] * 3
    assert not reader.has_begun


@pytest.mark.parametrize("size", [-(2**31), -1, 0, 3])
def test_a_length_that_no_request_has_is_refused(size):
    """KLS-4."""
    with pytest.raises(RefusedFrameError, match="announced") as refused:
        reader_of(struct.pack(">i", size)).take()
    assert refused.value.reason == "malformed"


@pytest.mark.parametrize(
    ("key", "version", "size", "reason"),
    [
        (8, 2, 100, "unknown_request"),
        (-1, 0, 100, "unknown_request"),
        (78, 0, 100, "unknown_version"),
        (3, 14, 100, "unknown_version"),
        (3, 1, REQUEST_BYTES_MAX + 1, "too_large"),
        (0, 13, PRODUCE_BYTES_MAX + 1, "too_large"),
        (0, 13, 2**31 - 1, "too_large"),
        (18, 9, 5_000, "too_large"),
    ],
)
def test_a_request_is_refused_from_its_first_eight_bytes(key, version, size, reason):
    """KLS-4."""
    with pytest.raises(RefusedFrameError) as refused:
        reader_of(head(size, key, version)).take()
    assert refused.value.reason == reason


@pytest.mark.parametrize(
    ("key", "version", "size"), [(3, 1, REQUEST_BYTES_MAX), (0, 3, PRODUCE_BYTES_MAX), (18, 9, 90)]
)
def test_the_longest_request_of_a_kind_is_waited_for(key, version, size):
    reader = reader_of(head(size, key, version))
    assert reader.take() is None
    assert (reader.announced_bytes, reader.has_begun) == (size, True)


def test_the_header_says_who_asks_and_where_the_request_begins():
    frame = memoryview(request_frame(3, 13, 9, {"topics": None, "allow": 1}, "me")[4:])
    header = read_header(frame, flexible=True)
    assert (header.key, header.version, header.correlation, header.client_id) == (3, 13, 9, "me")
    assert header.size == 10 + 2 + 1


def test_tagged_fields_of_a_header_mean_nothing():
    plain = struct.pack(">hhih", 3, 13, 9, -1)
    frame = memoryview(plain + b"\x02" + b"\x00\x03abc" + b"\x80\x01\x01d" + b"rest")
    header = read_header(frame, flexible=True)
    assert bytes(frame[header.size :]) == b"rest"


@pytest.mark.parametrize(
    "frame",
    [
        b"",
        b"\0\3\0\15\0\0",
        struct.pack(">hhih", 3, 13, 9, 5) + b"abc",
        struct.pack(">hhih", 3, 13, 9, 1) + b"\xff",
        struct.pack(">hhih", 3, 13, 9, -1),
        struct.pack(">hhih", 3, 13, 9, -1) + b"\x01\x00\x7fabc",
        struct.pack(">hhih", 3, 13, 9, -1) + b"\xff\xff\xff\xff\xff\xff",
        struct.pack(">hhih", 3, 13, 9, -1) + b"\x65" + b"\0\0" * 0x65,
    ],
)
def test_a_header_that_is_cut_off_or_none_is_refused(frame):
    with pytest.raises(MalformedMessageError):
        read_header(memoryview(frame), flexible=True)


def test_room_is_given_in_the_order_of_asking():
    """KLS-5."""
    held, called = HeldBytes(100, 100), []
    assert held.take("a", "User:a", 60, lambda: called.append("a"))
    assert not held.take("b", "User:b", 60, lambda: called.append("b"))
    assert not held.take("c", "User:c", 10, lambda: called.append("c"))
    assert not held.add("User:d", 60)
    held.give_back("User:a", 60)
    assert (called, held.held) == (["b", "c"], 70)


def test_who_waits_for_room_no_more_lets_the_next_one_in():
    """KLS-5."""
    held, called = HeldBytes(100, 100), []
    assert held.take("a", "User:a", 60, lambda: None)
    assert not held.take("b", "User:b", 60, lambda: called.append("b"))
    assert not held.take("c", "User:c", 10, lambda: called.append("c"))
    held.forget("b")
    assert (called, held.held) == (["c"], 70)


def test_more_than_there_is_is_had_alone():
    held = HeldBytes(100, 50)
    assert held.take("a", "User:a", 1_000, lambda: None)
    assert not held.add("User:a", 1)
    assert not held.add("User:b", 1)
    held.give_back("User:a", 1_000)
    assert held.add("User:a", 1)


def test_one_principal_leaves_room_to_the_others():
    """KLS-5: who waits for room of its own is passed over, and is called when it has some."""
    held, called = HeldBytes(100, 50), []
    assert held.take("a", "User:eve", 40, lambda: None)
    assert not held.take("b", "User:eve", 20, lambda: called.append("b"))
    assert not held.add("User:eve", 20)
    assert held.take("c", "User:jane", 50, lambda: None)
    assert not held.take("d", "User:joe", 40, lambda: called.append("d"))
    assert not held.take("e", "User:jane", 1, lambda: called.append("e"))
    held.give_back("User:jane", 50)
    assert (called, held.held) == (["d", "e"], 81)
    held.give_back("User:joe", 40)
    assert called == ["d", "e"], "its own room is taken still"
    held.give_back("User:eve", 40)
    assert (called, held.held) == (["d", "e", "b"], 21)
