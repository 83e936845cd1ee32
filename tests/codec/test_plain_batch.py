"""Compressed batches of strangers: opened within a bound, whatever they claim."""

import random
import struct
import tracemalloc
from contextlib import suppress
from itertools import islice

import pytest
from aiokafka.record.default_records import DefaultRecordBatchBuilder

from sharemesh.codec import decoded_records
from sharemesh.codec.batch_frame import CRC_START, HEADER_BYTES, place_frame
from sharemesh.codec.decoded_records import DecodedItems
from sharemesh.codec.guarded_records import (
    RECORD_HEADERS_MAX,
    UNDECODABLE,
    guarded_records,
    record_times,
)
from sharemesh.codec.plain_batch import Opened, TooLargeError, opened_batch, plain_batch
from sharemesh.codec.record_set import COMPRESSION, RecordSetError, build_batch
from sharemesh.codec.record_set import decode_records as decode_plain
from sharemesh.domain.errors import ErrorCode, RefusedError
from tests.decoding import decode_records

CODECS = [name for name in COMPRESSION if name != "none"]
MIB = 1 << 20


def batch(value: bytes, codec: str, count: int = 3) -> bytes:
    records = [(b"k%d" % number, value, [("h", b"x")]) for number in range(count)]
    return bytes(build_batch(records, timestamp_ms=5, compression=COMPRESSION[codec]))


@pytest.mark.parametrize("codec", COMPRESSION)
@pytest.mark.parametrize("size", [0, 10, 3_000, 700_000])
def test_every_codec_gives_the_same_records(codec, size):
    value = random.Random(size).randbytes(size // 2) + bytes(size - size // 2)
    opened = list(decode_plain(batch(value, codec)))
    assert [(r.offset, r.key, r.value, r.timestamp_ms) for r in opened] == [
        (number, b"k%d" % number, value, 5) for number in range(3)
    ]
    decoded = decode_records(batch(value, codec), [(1, 2, 4)])
    assert [(r.offset, r.key, r.value, r.delivery_count) for r in decoded] == [
        (1, b"k1", value, 4),
        (2, b"k2", value, 4),
    ]


@pytest.mark.parametrize("codec", CODECS)
def test_a_bomb_is_refused_and_costs_little_more_than_the_bound(codec):
    bomb = batch(bytes(100 * MIB), codec, count=1)
    tracemalloc.start()
    with pytest.raises(TooLargeError, match="take"):
        plain_batch(bomb, 4 * MIB)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4 * len(bomb) + 9 * MIB
    with pytest.raises(RefusedError) as refused:
        decode_records(bomb, [(0, 0, 1)])
    assert refused.value.error is ErrorCode.MESSAGE_TOO_LARGE
    with pytest.raises(RecordSetError):
        list(decode_plain(bomb))


def test_bnd_34_records_and_headers_of_an_answer_share_one_bound():
    records = bytearray()
    for number in range(4):
        one = bytearray(batch(b"v", "zstd", count=1))
        place_frame(one, number, 0)
        records += one
    items = DecodedItems(8)  # each has a header
    assert len(decode_records(bytes(records), [(0, 3, 1)], items=items)) == 4
    assert items.count == 8
    with pytest.raises(RefusedError, match="fetch fewer") as refused:
        decode_records(bytes(records), [(0, 3, 1)], items=DecodedItems(7))
    assert refused.value.error is ErrorCode.MESSAGE_TOO_LARGE
    # What is not acquired does not count.
    assert len(decode_records(bytes(records), [(1, 1, 1)], items=DecodedItems(2))) == 1


def test_bnd_34_who_decodes_hears_of_what_is_passed_over_and_stops_at_the_last_that_is_acquired():
    records = bytes(build_batch([(None, b"v", ())] * 5_000, timestamp_ms=5))
    bad = []
    found = list(decoded_records.decode_records(records, [(2_000, 2_001, 1)], bad.append))
    assert [each and each.offset for each in found] == [None] * 4 + [2_000, 2_001]
    damaged = records[:-1] + bytes([records[-1] ^ 1])
    assert len(decode_records(damaged, [(0, 1, 1)])) == 2


@pytest.mark.parametrize("codec", CODECS)
def test_broken_compression_raises_nothing_but_what_is_documented(codec):
    rng = random.Random(7)
    good = batch(rng.randbytes(500), codec)
    for _ in range(200):
        bad = bytearray(good)
        kind = rng.randrange(3)
        if kind == 0:
            bad[rng.randrange(HEADER_BYTES, len(bad))] ^= 1 << rng.randrange(8)
        elif kind == 1:
            bad[HEADER_BYTES:] = rng.randbytes(rng.randrange(60))
        else:
            struct.pack_into(">h", bad, CRC_START, rng.randrange(8))
        struct.pack_into(">i", bad, 8, len(bad) - 12)
        with suppress(RefusedError):
            decode_records(bytes(bad), [(0, 2, 1)])
        with suppress(RecordSetError):
            list(decode_plain(bytes(bad)))


def read_until_refused(opened, match):
    read = []

    def read_all():
        for record in guarded_records(opened):
            read.append((record.offset, record.value))

    with pytest.raises(TooLargeError, match=match):
        read_all()
    return read


@pytest.mark.parametrize("codec", CODECS)
def test_bnd_34_of_a_batch_that_is_too_large_whole_records_come_as_far_as_it_is_opened(codec):
    value = random.Random(3).randbytes(1_000) * 60
    made = batch(value, codec, count=100)
    cut = opened_batch(made, 4 * MIB)
    assert cut.is_cut
    assert 3 * MIB < cut.records_bytes <= 4 * MIB
    assert bytes(cut.data)[HEADER_BYTES:] == bytes(plain_batch(made))[HEADER_BYTES : len(cut.data)]
    whole = cut.records_bytes // 60_014
    assert read_until_refused(cut, "take more than") == [(n, value) for n in range(whole)]
    assert not opened_batch(made).is_cut


def test_bnd_34_headers_in_masses_are_refused_before_they_are_made():
    many = [("", b"")] * (RECORD_HEADERS_MAX + 1)
    records = [(None, b"before", ()), (None, bytes(70_000), many), (None, b"behind", ())]
    refused = opened_batch(bytes(build_batch(records, timestamp_ms=5)))
    assert read_until_refused(refused, "10001 headers") == [(0, b"before")]
    records[1] = (None, bytes(70_000), many[1:])
    made = bytes(build_batch(records, timestamp_ms=5, compression=COMPRESSION["zstd"]))
    found = list(guarded_records(opened_batch(made)))
    assert [len(each.headers) for each in found] == [0, RECORD_HEADERS_MAX, 0]


@pytest.mark.parametrize("codec", COMPRESSION)
def test_bnd_35_times_are_those_of_the_records_and_nothing_else_is_made_of_them(codec):
    builder = DefaultRecordBatchBuilder(2, COMPRESSION[codec], 0, -1, -1, -1, 1 << 30)
    for number in range(300):
        builder.append(number, 5_000 - 7 * number, b"k", bytes(number), [("h", b"x")])
    made = builder.build()
    place_frame(made, 40, 1)
    opened = opened_batch(bytes(made))
    assert list(record_times(opened)) == [(r.offset, r.timestamp) for r in guarded_records(opened)]
    assert list(record_times(opened))[:2] == [(40, 5_000), (41, 4_993)]
    struct.pack_into(">h", opened.data if codec != "none" else made, CRC_START, 0x08)
    plain = opened if codec != "none" else opened_batch(bytes(made))
    assert {time_ms for _, time_ms in record_times(plain)} == {5_000}


@pytest.mark.parametrize("codec", CODECS)
def test_bnd_35_times_of_damaged_records_raise_nothing_but_what_is_documented(codec):
    rng = random.Random(9)
    plain = bytearray(plain_batch(batch(rng.randbytes(300), codec)))
    for _ in range(300):
        bad = bytearray(plain)
        bad[rng.randrange(HEADER_BYTES - 4, len(bad))] = rng.randrange(256)
        with suppress(*UNDECODABLE):
            assert len(list(islice(record_times(Opened(bad)), 5))) <= 5
