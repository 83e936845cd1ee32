"""BND-15: in the decoded form a damaged batch concerns its own records that are not whole."""

import struct

import pytest

from sharemesh.codec import decoded_records
from sharemesh.codec.batch_frame import CRC_START, HEADER_BYTES, place_frame
from sharemesh.codec.hashes import crc32c
from sharemesh.codec.record_set import build_batch
from sharemesh.domain.errors import ErrorCode, RefusedError
from tests.decoding import decode_records

RECORD_BYTES = len(build_batch([(None, b"v", ())], timestamp_ms=1)) - HEADER_BYTES


def batch(base_offset, *, damaged_at=None, byte=0x7F):
    """Return three records; ``damaged_at`` is a byte behind the header; the checksum fits."""
    made = build_batch([(None, b"v", ())] * 3, timestamp_ms=1)
    if damaged_at is not None:
        made[HEADER_BYTES + damaged_at] = byte
        struct.pack_into(">I", made, CRC_START - 4, crc32c(memoryview(made)[CRC_START:]))
    place_frame(made, base_offset, 1)
    return bytes(made)


def decoded(records, acquired):
    bad = []
    found = decoded_records.decode_records(records, acquired, bad.append)
    return [each.offset for each in found], [(each.first_offset, each.last_offset) for each in bad]


@pytest.mark.parametrize(
    ("damaged_at", "byte", "whole"),
    [
        (0, 0x7F, []),  # the length of the first record
        (RECORD_BYTES, 0x7F, [3]),  # of the second one
        (2 * RECORD_BYTES, 0x7F, [3, 4]),  # of the third one
        (RECORD_BYTES + 3, 0x14, [3]),  # its offset: beyond the batch
        (RECORD_BYTES + 3, 0x00, [3]),  # its offset: one that is there already
    ],
)
def test_whole_records_and_good_neighbours_are_decoded(damaged_at, byte, whole):
    records = batch(0) + batch(3, damaged_at=damaged_at, byte=byte) + batch(6)
    found, bad = decoded(records, [(0, 8, 1)])
    assert found == [0, 1, 2, *whole, 6, 7, 8]
    assert bad == [(3 + len(whole), 5)]


def test_only_acquired_offsets_are_told():
    records = batch(0, damaged_at=RECORD_BYTES) + batch(3)
    assert decoded(records, [(2, 3, 1), (5, 5, 2)]) == ([3, 5], [(2, 2)])
    assert decoded(records, [(3, 4, 1)]) == ([3, 4], [])


def test_without_anybody_to_tell_it_is_raised():
    with pytest.raises(RefusedError) as refused:
        decode_records(batch(0, damaged_at=0), [(0, 2, 1)])
    assert refused.value.error is ErrorCode.CORRUPT_MESSAGE
