"""Where records, keys and values lie in the record batches of a log part; NumPy, no copies."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from sharemesh.codec.batch_frame import COMPRESSION_MASK, HEADER_BYTES, Frame
from sharemesh_spark.varints import Bytes, Ints, zigzag

_THREE_BYTES, _FOUR, _FIVE = np.uint64(24), np.uint64(32), np.uint64(40)
_SEVEN_BITS = np.uint64(0x7F)
_GOES_ON, _FIRST_GOES_ON = np.uint64(0x8080_8000_8080), np.uint64(0x80)


class BrokenRecordsError(Exception):
    """The records of a batch do not fill it as its header says."""

    def __init__(self, offset: int, problem: str) -> None:
        super().__init__(f"offset {offset}: {problem}")


@dataclass(frozen=True, slots=True)
class RecordPlaces:
    """One entry a record, in order of offset; an absent value has the length -1."""

    offset: Ints
    timestamp_ms: Ints
    key_at: Ints
    key_length: Ints
    value_at: Ints
    value_length: Ints

    def __len__(self) -> int:
        return len(self.offset)

    def selected(self, chosen: Ints) -> "RecordPlaces":
        """Return the records with these indexes."""
        return RecordPlaces(
            self.offset[chosen],
            self.timestamp_ms[chosen],
            self.key_at[chosen],
            self.key_length[chosen],
            self.value_at[chosen],
            self.value_length[chosen],
        )


def record_places(
    buffer: Bytes, frames: Sequence[Frame], *, start_position: int, records_max: int
) -> Iterator[RecordPlaces]:
    """Yield where the records of whole, checked frames lie, ``records_max`` at a time.

    Args:
        buffer: The bytes from ``start_position`` of the file on.
        frames: What ``part_frames`` yielded.
        start_position: Subtracted from the position of each frame.
        records_max: Records of one yield, 1 or more; the last one may have fewer.

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
    starts, frame_of = _starts(buffer, position - start_position, size, count, base_offset)
    for first in range(0, len(starts), records_max):
        some = slice(first, first + records_max)
        frame = frame_of[some]
        yield _places(buffer, starts[some], base_offset[frame], first_ms[frame])


def _places(buffer: Bytes, starts: Ints, base_offset: Ints, first_ms: Ints) -> RecordPlaces:
    words = buffer.words(starts)
    # Mostly a length of two bytes, the attributes, then three numbers of one byte each: how much
    # later the record is, which one it is, and how long its key is.
    delta_ms, offset_delta = (words >> _THREE_BYTES) & _SEVEN_BITS, (words >> _FOUR) & _SEVEN_BITS
    key_length, key_at = (words >> _FIVE) & _SEVEN_BITS, starts + 6
    other = np.flatnonzero(words & _GOES_ON != _FIRST_GOES_ON)
    if other.size:
        behind = buffer.varints(starts[other])[1] + 1
        delta_ms[other], behind = buffer.varints(behind)
        offset_delta[other], behind = buffer.varints(behind)
        key_length[other], key_at[other] = buffer.varints(behind)
    key_size = np.maximum(zigzag(key_length), 0)
    value_length, value_at = buffer.varints(key_at + key_size)
    return RecordPlaces(
        offset=base_offset + zigzag(offset_delta),
        timestamp_ms=first_ms + zigzag(delta_ms),
        key_at=key_at,
        key_length=key_size,
        value_at=value_at,
        value_length=zigzag(value_length),
    )


def _starts(
    buffer: Bytes, begin: Ints, size: Ints, count: Ints, base_offset: Ints
) -> tuple[Ints, Ints]:
    """Return where each record begins and which frame it is in, in log order.

    The length of one record says where the next begins, so all frames are walked side by side,
    the n-th record of each at a time: first as if all lengths had one or two bytes.
    """
    order = np.argsort(-count, kind="stable")  # frames that are done drop off at the end
    walk = (begin + HEADER_BYTES)[order], count[order], (np.cumsum(count) - count)[order]
    wanted = (begin + size)[order]
    starts, ends = _walked(walk, lambda at: at + _STEPS[buffer.pairs(at)])
    if not np.array_equal(ends, wanted):
        starts, ends = _walked(walk, lambda at: _behind(buffer, at))
    for wrong in np.flatnonzero(ends != wanted)[:1]:
        raise BrokenRecordsError(
            int(base_offset[order[wrong]]), "the records do not fill their record batch"
        )
    return starts, np.repeat(np.arange(len(count)), count)


def _walked(walk: tuple[Ints, Ints, Ints], step: Callable[[Ints], Ints]) -> tuple[Ints, Ints]:
    """Return where each record begins, and where each frame's records end."""
    cursor, remaining, row = (each.copy() for each in walk)
    starts = np.zeros(int(remaining.sum()), dtype=np.int64)
    alive = int(np.count_nonzero(remaining))
    for number in range(int(remaining[0]) if len(remaining) else 0):
        while alive and remaining[alive - 1] <= number:
            alive -= 1
        at = cursor[:alive]
        starts[row[:alive]] = at
        cursor[:alive] = step(at)
        row[:alive] += 1
    return starts, cursor


def _behind(buffer: Bytes, at: Ints) -> Ints:
    lengths, bodies = buffer.varints(at)
    return bodies + zigzag(lengths)


def _steps() -> Ints:
    """Return from one record's beginning to the next one's, by its first two bytes.

    0 for lengths that are negative or have more than two bytes.
    """
    pair = np.arange(1 << 16)
    first, second = pair & 0xFF, pair >> 8
    raw = np.where(first < 0x80, first, first & 0x7F | (second & 0x7F) << 7)
    known = (raw & 1 == 0) & ((first < 0x80) | (second < 0x80))
    steps: Ints = np.where(known, (raw >> 1) + np.where(first < 0x80, 1, 2), 0)
    return steps


_STEPS = _steps()
