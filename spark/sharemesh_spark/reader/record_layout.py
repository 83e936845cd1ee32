"""Where records, keys and values lie in the record batches of a log part; NumPy, no copies.

The length of a record says where the next one begins. Many places are walked side by side, a step
of each at a time. A record batch of many records is cut first where a record seems to begin, so
that there are many short walks instead of a few long ones. A wrong guess does no harm: a walk must
end exactly where the next one began, else the record batches are walked again uncut.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from sharemesh.codec.batch_frame import COMPRESSION_MASK, HEADER_BYTES, Frame
from sharemesh_spark.reader.varints import Bytes, Columns, Ints, Words, zigzag

RECORDS_PER_WALK = 64
"""About this many records lie between two cuts."""

_SEARCHED_BYTES = 512
"""A cut is searched for within this many bytes; among longer records there may be none."""

_FOLLOWED = np.uint8(0x80)
_ONE, _THREE, _SEVEN, _EIGHT = np.uint64(1), np.uint64(3), np.uint64(7), np.uint64(8)
_THREE_BYTES, _FOUR_BYTES = np.uint64(24), np.uint64(32)
_SEVEN_BITS, _NEXT_SEVEN_BITS = np.uint64(0x7F), np.uint64(0x3F80)
_GOES_ON, _FIRST_GOES_ON = np.uint64(0x8000_8080), np.uint64(0x80)


class BrokenRecordsError(Exception):
    """The records of a batch do not fill it as its header says."""

    def __init__(self, offset: int, problem: str) -> None:
        super().__init__(f"offset {offset}: {problem}")


@dataclass(frozen=True, slots=True)
class RecordLayout(Columns):
    """One entry a record, in order of offset; an absent value has the length -1."""

    offset: Ints
    timestamp_ms: Ints
    key_at: Ints
    key_length: Ints
    value_at: Ints
    value_length: Ints


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


@dataclass(frozen=True, slots=True)
class _Walks:
    """Runs of records, one behind the other: where they begin and end, and how many they are."""

    begin: Ints
    end: Ints
    count: Ints


def record_starts(buffer: Bytes, begin: Ints, size: Ints, count: Ints) -> Ints:
    """Return where each record begins, in log order; -1 for all of frames that do not fit.

    Args:
        buffer: The bytes of the frames.
        begin: Where each frame begins.
        size: Bytes of each frame, its header included.
        count: Records of each frame.
    """
    whole = _Walks(begin + HEADER_BYTES, begin + size, count)
    walks = _cut(buffer, whole)
    starts, ends = _walked(walks, lambda at: at + _STEPS[buffer.pairs(at)])
    if not np.array_equal(ends, walks.end):
        starts, ends = _walked(whole, lambda at: _behind(buffer, at))
        starts[np.repeat(ends != whole.end, count)] = -1
    return starts


def _cut(buffer: Bytes, whole: _Walks) -> _Walks:
    """Cut long walks where a record seems to begin: its number in the frame says how many."""
    parts = whole.count // RECORDS_PER_WALK
    cuts = np.maximum(parts - 1, 0)
    frame = np.repeat(np.arange(len(parts)), cuts)
    part = np.arange(len(frame)) - np.repeat(np.cumsum(cuts) - cuts, cuts) + 1
    room = whole.end - whole.begin
    near = whole.begin[frame] + room[frame] * part // np.maximum(parts[frame], 1)
    inside = near + _SEARCHED_BYTES < whole.end[frame]
    frame, near = frame[inside], near[inside]
    if frame.size == 0:
        return whole
    found, number, cut = _records_near(buffer, near, frame, whole)
    frame = np.concatenate([np.arange(len(parts)), frame[found]])
    number = np.concatenate([np.zeros(len(parts), dtype=np.int64), number])
    begin = np.concatenate([whole.begin, cut])
    order = np.lexsort((begin, frame))
    frame, number, begin = frame[order], number[order], begin[order]
    last = np.concatenate([frame[1:] != frame[:-1], [True]])
    end = np.where(last, whole.end[frame], np.roll(begin, -1))
    count = np.where(last, whole.count[frame], np.roll(number, -1)) - number
    if (count < 0).any():
        return whole
    return _Walks(begin, end, count)


def _records_near(buffer: Bytes, near: Ints, frame: Ints, whole: _Walks) -> tuple[Ints, Ints, Ints]:
    """Return which searches found a record, its number in its frame, and where it begins.

    A length of two bytes and no attributes may be anything; that the next record is one too, and
    has the next number, is seldom chance.
    """
    octets = buffer.table(near, _SEARCHED_BYTES)
    likely = (octets[:, :-2] >= _FOLLOWED) & (octets[:, 1:-1] < _FOLLOWED) & (octets[:, 2:] == 0)
    search, behind = np.divmod(np.flatnonzero(likely), likely.shape[1])
    at = near[search] + behind
    after = at + _STEPS[buffer.pairs(at)]
    number, next_number = _number(buffer, at), _number(buffer, after)
    of = frame[search]
    good = (number > 0) & (next_number == number + 1) & (next_number < whole.count[of])
    good &= (after > at) & (after < whole.end[of])
    chosen = np.flatnonzero(good)
    found, first = np.unique(search[chosen], return_index=True)
    return found, number[chosen[first]], at[chosen[first]]


def _number(buffer: Bytes, at: Ints) -> Ints:
    """Return the number that a record with a length of two bytes has in its frame."""
    behind = buffer.varints(at + 3)[1]
    return zigzag(buffer.varints(behind)[0])


def _walked(walks: _Walks, step: Callable[[Ints], Ints]) -> tuple[Ints, Ints]:
    """Return where each record begins, and where each walk ends."""
    order = np.argsort(-walks.count, kind="stable")  # walks that are done drop off at the end
    count = walks.count[order]
    steps = int(count[0]) if len(count) else 0
    # How many walks have more than n records, for each n.
    alive = np.searchsorted(-count, -np.arange(steps), side="left")
    cursor = walks.begin[order]
    row = (np.cumsum(walks.count) - walks.count)[order]
    starts = np.empty(int(count.sum()), dtype=np.int64)
    for number, some in enumerate(alive.tolist()):
        at = cursor[:some]
        starts[row[:some] + number] = at
        cursor[:some] = step(at)
    ends = np.empty_like(cursor)
    ends[order] = cursor
    return starts, ends


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
