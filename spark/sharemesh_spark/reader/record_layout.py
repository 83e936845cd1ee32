"""Where records, keys and values lie in the record batches of a log part; NumPy, no copies."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from sharemesh.codec.batch_frame import COMPRESSION_MASK, Frame
from sharemesh_spark.reader.record_starts import record_starts
from sharemesh_spark.reader.varints import Bytes, Ints, Words, zigzag

_ONE, _THREE, _SEVEN, _EIGHT = np.uint64(1), np.uint64(3), np.uint64(7), np.uint64(8)
_THREE_BYTES, _FOUR_BYTES = np.uint64(24), np.uint64(32)
_SEVEN_BITS, _NEXT_SEVEN_BITS = np.uint64(0x7F), np.uint64(0x3F80)
_GOES_ON, _FIRST_GOES_ON = np.uint64(0x8000_8080), np.uint64(0x80)


class BrokenRecordsError(Exception):
    """The records of a batch do not fill it as its header says."""

    def __init__(self, offset: int, problem: str) -> None:
        super().__init__(f"offset {offset}: {problem}")


@dataclass(frozen=True, slots=True)
class RecordLayout:
    """One entry a record, in order of offset; an absent value has the length -1."""

    offset: Ints
    timestamp_ms: Ints
    key_at: Ints
    key_length: Ints
    value_at: Ints
    value_length: Ints

    def __len__(self) -> int:
        return len(self.offset)

    def selected(self, chosen: Ints) -> "RecordLayout":
        """Return the records with these indexes."""
        return RecordLayout(
            self.offset[chosen],
            self.timestamp_ms[chosen],
            self.key_at[chosen],
            self.key_length[chosen],
            self.value_at[chosen],
            self.value_length[chosen],
        )


def record_places(
    buffer: Bytes, frames: Sequence[Frame], *, start_position: int, records_about: int
) -> Iterator[RecordLayout]:
    """Yield where the records of whole, checked frames lie, some at a time.

    Args:
        buffer: The bytes from ``start_position`` of the file on.
        frames: What ``part_frames`` yielded.
        start_position: Subtracted from the position of each frame.
        records_about: Records of one yield, up to half as many again.

    Raises:
        BrokenRecordsError: Compressed records, or a batch that its records do not fill.
    """
    table = np.array(
        [
            (f.position, f.size_bytes, f.base_offset, f.first_timestamp_ms, f.record_count,
             f.attributes)
            for f in frames
        ],
        dtype=np.int64,
    ).reshape(-1, 6)  # fmt: skip
    position, size, base_offset, first_ms, count, attributes = table.T
    for number in np.flatnonzero(attributes & COMPRESSION_MASK)[:1]:
        raise BrokenRecordsError(
            int(base_offset[number]), "compressed records, which no shard log has"
        )
    starts = record_starts(buffer, position - start_position, size, count)
    for wrong in np.flatnonzero(starts < 0)[:1]:
        broken = int(np.searchsorted(np.cumsum(count), wrong, side="right"))
        raise BrokenRecordsError(
            int(base_offset[broken]), "the records do not fill their record batch"
        )
    frame_of = np.repeat(np.arange(len(count)), count)
    windows = max(1, round(len(starts) / records_about))
    for some, frame in zip(
        np.array_split(starts, windows), np.array_split(frame_of, windows), strict=True
    ):
        yield _places(buffer, some, base_offset[frame], first_ms[frame])


def _places(buffer: Bytes, starts: Ints, base_offset: Ints, first_ms: Ints) -> RecordLayout:
    words = buffer.words(starts)
    # Mostly a length of two bytes, the attributes, how much later the record is in one byte, and
    # in one or two bytes each which one it is and how long its key is.
    delta_ms, rest = (words >> _THREE_BYTES) & _SEVEN_BITS, words >> _FOUR_BYTES
    offset_delta, offset_bytes, offset_long = _short(rest)
    key_length, key_bytes, key_long = _short(rest >> (offset_bytes << _THREE))
    key_at = starts + 4 + (offset_bytes + key_bytes).view(np.int64)
    other = np.flatnonzero((words & _GOES_ON ^ _FIRST_GOES_ON) | offset_long | key_long)
    if other.size:
        behind = buffer.varints(starts[other])[1] + 1
        delta_ms[other], behind = buffer.varints(behind)
        offset_delta[other], behind = buffer.varints(behind)
        key_length[other], key_at[other] = buffer.varints(behind)
    key_size = np.maximum(zigzag(key_length), 0)
    value_length, value_at = buffer.varints(key_at + key_size)
    return RecordLayout(
        offset=base_offset + zigzag(offset_delta),
        timestamp_ms=first_ms + zigzag(delta_ms),
        key_at=key_at,
        key_length=key_size,
        value_at=value_at,
        value_length=zigzag(value_length),
    )


def _short(words: Words) -> tuple[Words, Words, Words]:
    """Return varints of one or two bytes, how many, and where not 0 there are more."""
    more = words >> _SEVEN & _ONE
    values = (words & _SEVEN_BITS) | ((words >> _ONE & _NEXT_SEVEN_BITS) * more)
    return values, more + _ONE, (words >> _EIGHT >> _SEVEN) & more
