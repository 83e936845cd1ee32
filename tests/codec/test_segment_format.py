"""Bytes of segment headers, committed ends, markers and the chain: written once, read for ever."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sharemesh.codec.batch_frame import find_valid_frame, place_frame, walk_frames
from sharemesh.codec.control_batches import decode_log_start, encode_log_start
from sharemesh.codec.log_chain import (
    ChainCorruptError,
    LogBytesError,
    ReadablePart,
    part_frames,
    part_records,
    readable_parts,
    resolve_chain,
)
from sharemesh.codec.record_set import build_batch
from sharemesh.codec.segment import (
    SLOT_BYTES,
    CommittedEnd,
    SegmentFormatError,
    SegmentHeader,
    SegmentName,
    decode_committed_end,
    decode_segment_header,
    encode_committed_end,
    encode_segment_header,
    end_epochs,
    end_name,
    segment_names,
)

offsets = st.integers(0, 2**62)
epochs = st.integers(0, 2**31 - 1)


@given(epochs, offsets, offsets, offsets)
def test_a_segment_header_is_read_back(epoch, base, cut, log_start):
    header = SegmentHeader(epoch + 1, base, SegmentName(epoch, base // 2), cut, log_start)
    data = encode_segment_header(header)
    assert len(data) == 64
    assert decode_segment_header(data, header.name) == header


@given(st.integers(0, 63), st.integers(0, 7))
def test_any_flipped_bit_of_a_segment_header_is_found(position, bit):
    header = SegmentHeader(3, 100, SegmentName(2, 50), 700, 10)
    data = bytearray(encode_segment_header(header))
    data[position] ^= 1 << bit
    with pytest.raises(SegmentFormatError):
        decode_segment_header(bytes(data), header.name)


def test_a_header_may_only_cut_lower_epochs_or_follow_its_own():
    for predecessor in (SegmentName(4, 10), SegmentName(3, 100), SegmentName(2, 101)):
        data = encode_segment_header(SegmentHeader(3, 100, predecessor, 64, 0))
        with pytest.raises(SegmentFormatError, match="names"):
            decode_segment_header(data, SegmentName(3, 100))
    with pytest.raises(SegmentFormatError, match="the file is"):
        decode_segment_header(data, SegmentName(3, 99))


def test_names_sort_by_epoch_and_others_are_ignored():
    names = [SegmentName(2, 5), SegmentName(1, 10), SegmentName(10, 0)]
    listing = [name.file_name for name in names] + ["fences", "x.log", end_name(7), "1-2.log.new"]
    assert segment_names(listing) == [SegmentName(1, 10), SegmentName(2, 5), SegmentName(10, 0)]
    assert end_epochs(listing) == [7]


@given(st.lists(offsets, min_size=1, max_size=5), st.integers(0, 63))
def test_the_newest_whole_slot_counts(ends, torn):
    file = bytearray(2 * SLOT_BYTES)
    for sequence, end in enumerate(ends):
        position, slot = encode_committed_end(CommittedEnd(1, end, 0, 64, 0, sequence))
        file[position : position + SLOT_BYTES] = slot
    assert decode_committed_end(bytes(file)).end_offset == ends[-1]
    position, slot = encode_committed_end(CommittedEnd(1, 7, 0, 64, 0, len(ends)))
    file[position : position + torn] = slot[:torn]  # a power cut in the middle of the next one
    found = decode_committed_end(bytes(file))
    assert found is None or found.end_offset in (ends[-1], 7)
    assert decode_committed_end(b"") is None
    assert decode_committed_end(bytes(128)) is None


@given(offsets, offsets, epochs)
def test_a_log_start_marker_is_a_record_batch_of_no_offsets(log_start, at, epoch):
    marker = encode_log_start(log_start, at_offset=at, leader_epoch=epoch, timestamp_ms=5)
    walk = walk_frames(
        marker, start=0, limit=len(marker), base_offset=at, leader_epoch=epoch, check_crc=True
    )
    assert walk.problem is None
    assert walk.end_offset == at
    assert walk.frames[0].is_marker
    assert decode_log_start(marker) == log_start


def segment_bytes(epoch: int, base: int, *counts: int) -> bytes:
    data = b""
    for count in counts:
        made = build_batch([(b"k", b"v", ())] * count, timestamp_ms=1)
        place_frame(made, base, epoch)
        data += bytes(made)
        base += count
    return data


@given(st.binary(max_size=300), st.integers(0, 100))
def test_bytes_of_any_kind_are_walked_without_an_error(data, base):
    walk = walk_frames(
        data, start=0, limit=len(data), base_offset=base, leader_epoch=1, check_crc=True
    )
    assert walk.frames == []
    assert find_valid_frame(data, from_position=0, leader_epoch=1) is None


@given(st.data())
def test_any_flipped_bit_of_a_part_is_reported_and_what_precedes_it_is_read(data):
    """LOG-2."""
    good = segment_bytes(1, 0, 2, 3, 1)
    at = data.draw(st.integers(0, len(good) - 1))
    bad = bytearray(good)
    bad[at] ^= 1 << data.draw(st.integers(0, 7))
    part = ReadablePart(SegmentName(1, 0), 0, 6, 64, 64 + len(good))
    found: list = []
    with pytest.raises(LogBytesError) as error:
        found.extend(part_frames(part, bytes(bad)))
    assert all(frame.position - 64 + frame.size_bytes <= at for frame in found)
    assert error.value.offset == (found[-1].end_offset if found else 0)


@given(st.integers(0, 400))
def test_a_part_that_is_cut_short_is_reported(size):
    good = segment_bytes(1, 0, 2, 3, 1)
    part = ReadablePart(SegmentName(1, 0), 0, 6, 64, 64 + len(good))
    if size >= len(good):
        assert sum(len(records) for records in part_records(part, good)) == 6
        return
    with pytest.raises(LogBytesError):
        list(part_records(part, good[:size]))


def test_the_chain_goes_back_from_the_highest_epoch_and_leaves_the_rest_outside():
    first = SegmentHeader(1, 0, None, 0, 0)
    rolled = SegmentHeader(1, 10, first.name, 500, 0)
    stale = SegmentHeader(2, 15, rolled.name, 200, 0)
    newest = SegmentHeader(3, 12, rolled.name, 150, 4)
    headers = {header.name: header for header in (first, rolled, stale, newest)}
    chain = resolve_chain(headers)
    assert [(link.name, link.end_offset, link.end_position) for link in chain.links] == [
        (SegmentName(1, 0), 10, 500),
        (SegmentName(1, 10), 12, 150),
        (SegmentName(3, 12), None, None),
    ]
    assert chain.off_chain == (stale.name,)
    assert chain.missing is None
    assert chain.log_start_offset == 4
    parts = readable_parts(chain, CommittedEnd(3, 20, 12, 300, 4))
    assert [(part.base_offset, part.end_offset, part.end_position) for part in parts] == [
        (0, 10, 500),
        (10, 12, 150),
        (12, 20, 300),
    ]
    # A late publication of the old owner: beyond the cut, its successor holds the same bytes.
    parts = readable_parts(chain, CommittedEnd(1, 14, 10, 190, 0))
    assert [(part.base_offset, part.end_offset, part.end_position) for part in parts] == [
        (0, 10, 500),
        (10, 12, 150),
        (12, 14, None),
    ]


def test_a_bad_header_on_the_chain_is_corruption_and_outside_it_is_nothing():
    first = SegmentHeader(1, 0, None, 0, 0)
    newest = SegmentHeader(3, 12, first.name, 150, 4)
    broken = SegmentFormatError("checksum")
    outside = SegmentName(2, 5)
    assert resolve_chain({first.name: first, newest.name: newest, outside: broken}).off_chain == (
        outside,
    )
    with pytest.raises(ChainCorruptError):
        resolve_chain({first.name: broken, newest.name: newest})
    with pytest.raises(ChainCorruptError):
        resolve_chain({first.name: first, SegmentName(4, 20): broken})


def test_a_valid_batch_behind_broken_bytes_is_found():
    good = segment_bytes(7, 0, 2, 3)
    first = len(segment_bytes(7, 0, 2))
    broken = bytearray(good)
    broken[30] ^= 1
    assert find_valid_frame(broken, from_position=1, leader_epoch=7) == first
    assert find_valid_frame(broken, from_position=first + 1, leader_epoch=7) is None
    assert find_valid_frame(broken[:-1], from_position=1, leader_epoch=7) is None
    assert find_valid_frame(broken, from_position=1, leader_epoch=8) is None
