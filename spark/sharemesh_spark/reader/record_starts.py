"""Where each record of record batches begins; the length of one says where the next begins.

Many places are walked side by side, a step of each at a time. A record batch of many records is
cut first where a record seems to begin, so that there are many short walks instead of a few long
ones. A wrong guess does no harm: a walk must end exactly where the next one began, else the record
batches are walked again uncut.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from sharemesh.codec.batch_frame import HEADER_BYTES
from sharemesh_spark.reader.varints import Bytes, Ints, zigzag

RECORDS_PER_WALK = 64
"""About so many records lie between two cuts."""

_SEARCHED_BYTES = 512
"""A cut is looked for in so many bytes; where longer records lie there may be none."""


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


_FOLLOWED = np.uint8(0x80)
_STEPS = _steps()
