"""Stamps in record batches (STL-1, STL-3, STL-4)."""

import struct

import pytest

from sharemesh.codec.batch_frame import walk_frames
from sharemesh.codec.log_stamp import (
    HEADER_NAME,
    STAMP_OVERHEAD_BYTES,
    build_stamped_batch,
    decode_stamp,
    encode_stamp,
    log_identity,
    read_stamped_batch,
)
from sharemesh.codec.plain_batch import PLAIN_BATCH_BYTES_MAX
from sharemesh.codec.record_set import COMPRESSION, RecordSetError, build_batch, decode_records
from sharemesh.domain.ids import TopicId
from sharemesh.domain.stamped_log.stamp import Stamp, StampedBatch, StampKind

STAMP = Stamp(StampKind.UNIT, 2**64 - 1, 5, 3, 7, 2**63, 9, 4)
RECORDS = [(b"k%d" % n, b"v" * n, 1_000 + n) for n in range(3)]


def read(batch) -> StampedBatch:
    walk = walk_frames(
        batch, start=0, limit=1 << 40, base_offset=None, leader_epoch=None, check_crc=True
    )
    assert walk.problem is None
    return read_stamped_batch(walk.frames[0], memoryview(batch))


def test_stl_1_the_bytes_of_a_stamp_are_fixed():
    packed = encode_stamp(STAMP)
    assert packed == struct.pack(">BBQqiiQQq", 1, 1, 2**64 - 1, 5, 3, 7, 2**63, 9, 4)
    assert len(packed) == 50
    assert decode_stamp(packed) == STAMP


def test_stl_1_the_first_record_of_a_unit_carries_the_stamp():
    batch = build_stamped_batch(RECORDS, STAMP)
    assert read(batch) == StampedBatch(0, 3, 3, False, STAMP)
    found = list(decode_records(batch))
    assert [(r.key, r.value, r.timestamp_ms) for r in found] == RECORDS
    assert [bool(r.headers) for r in found] == [True, False, False]
    assert len(build_stamped_batch([(None, None, 0)], STAMP)) <= STAMP_OVERHEAD_BYTES + 10


def test_a_log_has_a_number_of_its_own():
    ids = [TopicId(bytes(16)), TopicId(bytes(range(16)))]
    numbers = [
        log_identity(cluster, topic, partition, incarnation)
        for cluster in ("a", "b")
        for topic in ids
        for partition in (0, 1)
        for incarnation in (0, 1)
    ]
    assert len(set(numbers)) == len(numbers)
    assert all(0 <= number < 2**64 for number in numbers)


@pytest.mark.parametrize("compression", COMPRESSION.values(), ids=COMPRESSION)
def test_stl_3_a_stamp_is_found_under_any_compression(compression):
    headers = [(HEADER_NAME, encode_stamp(STAMP))]
    batch = build_batch([(b"k", b"v", headers)] * 3, timestamp_ms=1, compression=compression)
    assert read(batch).stamp == STAMP


def test_stl_3_batches_of_others_have_no_stamp():
    assert read(build_batch([(b"k", b"v", [])], timestamp_ms=1)).stamp is None
    assert read(build_batch([(b"k", b"v", [("x", b"y")])], timestamp_ms=1)).stamp is None
    for of_others in (None, b"", b"x", encode_stamp(STAMP)[:-1], encode_stamp(STAMP) + b"x"):
        headers = [(HEADER_NAME, of_others)]
        assert read(build_batch([(b"k", b"v", headers)], timestamp_ms=1)).stamp is None
    foreign = build_batch(
        [(b"k", b"v", [])], timestamp_ms=1, producer_id=1, producer_epoch=0, is_transactional=True
    )
    assert read(foreign) == StampedBatch(0, 1, 1, True, None)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"\x00" + encode_stamp(STAMP)[1:], "unknown format 0"),
        (b"\x02" + encode_stamp(STAMP)[1:], "format 2, newer than 1"),
        (b"\x01\x09" + encode_stamp(STAMP)[2:], "unknown kind 9"),
    ],
)
def test_stl_4_a_stamp_that_cannot_be_read_is_never_no_stamp(data, words):
    batch = build_batch([(b"k", b"v", [(HEADER_NAME, data)])], timestamp_ms=1)
    with pytest.raises(RecordSetError, match=words):
        read(batch)


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_stl_4_a_compression_that_nobody_knows_is_never_void(codec):
    batch = build_batch([(b"k", b"v", [])], timestamp_ms=1)
    frame = walk_frames(
        batch, start=0, limit=1 << 40, base_offset=None, leader_epoch=None, check_crc=False
    ).frames[0]
    batch[22] |= codec
    with pytest.raises(RecordSetError, match="first record cannot be read"):
        read_stamped_batch(frame, batch)


@pytest.mark.parametrize("compression", [1, 3, 4])
def test_stl_3_a_batch_that_unpacks_to_more_than_any_unit_is_of_others(compression):
    value = bytes(PLAIN_BATCH_BYTES_MAX + 1)
    batch = build_batch([(b"k", value, [])], timestamp_ms=1, compression=compression)
    assert read(batch) == StampedBatch(0, 1, 1, False, None)
