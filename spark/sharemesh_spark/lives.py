"""The lives of one share partition, separated by its state changes (spec REP-1, REP-3, REP-7)."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sharemesh_spark.reader.data_directory import Range
from sharemesh_spark.reader.varints import Columns, Ints, Mask

NONE = -1
"""Stands for "not known" in columns of offsets and times."""

_FOR_EVER = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Changes(Columns):
    """State changes of one share partition in the order of the log; ranges are inclusive.

    A row without a range (``first`` is -1) is an initialization or a deletion. ``acquired_ms`` is
    -1 where the log does not say when a delivery began.
    """

    log_offset: Ints
    at_ms: Ints
    state_epoch: Ints
    start_offset: Ints
    first: Ints
    last: Ints
    state: Ints
    count: Ints
    cause: Ints
    acquired_ms: Ints
    begins: Mask
    deletes: Mask


@dataclass(frozen=True, slots=True)
class NewestState:
    """What the fold of generation and log says of a share partition that lives."""

    state_epoch: int
    start_offset: int
    initial_start_offset: int
    at_ms: int
    finished: tuple[tuple[int, int, int, int], ...] = ()
    """First and last offset, delivery state and count of each batch that is final."""


@dataclass(frozen=True, slots=True)
class Life:
    """One life; times in ms since the epoch, -1 where they are not known.

    Attributes:
        number: 1 for the first that is known.
        rows: Which of the changes are its own.
        began_ms: When it was initialized.
        ended_ms: When it was deleted or initialized again.
        first_offset: Where it began in the partition; -1 if nothing is known of it.
        not_counted: How many offsets below ``first_offset`` may have been its own, at most.
        counts_from: The log offset from which on everything is known; -1: from its beginning.
        counts_from_ms: When that was.
        state: What it came to, if it lives.
    """

    number: int
    rows: slice
    began_ms: int
    ended_ms: int
    first_offset: int
    not_counted: int
    counts_from: int
    counts_from_ms: int
    state: NewestState | None = None


def lives_of(
    changes: Changes, state: NewestState | None, holes: Sequence[Range], *, lowest_offset: int = 0
) -> list[Life]:
    """Return the lives, oldest first.

    Args:
        changes: All that are known, in the order of the log.
        state: None if there is none (any more).
        holes: Of the shard.
        lowest_offset: Where the record log of the partition begins, as far as is known.
    """
    parts = _slices(changes)
    epochs = [int(changes.state_epoch[part].max()) for part in parts]
    if state is not None and (not parts or state.state_epoch > epochs[-1]):
        parts.append(slice(len(changes), len(changes)))  # all its changes were pruned
        epochs.append(state.state_epoch)
    found: list[Life] = []
    for number, part in enumerate(parts):
        is_last = number == len(parts) - 1
        own = state if is_last and state and state.state_epoch == epochs[number] else None
        end = _end_of(changes, part, state, holes, is_last=is_last, lives=own is not None)
        first, exact = _first_offset(changes, part, own)
        counts_from, since_ms = _counts_from(changes, part, own, holes, end_offset=end[0])
        known_begin = part.start < part.stop and bool(changes.begins[part.start])
        found.append(
            Life(
                number=number + 1,
                rows=part,
                began_ms=int(changes.at_ms[part.start]) if known_begin else NONE,
                ended_ms=end[1],
                first_offset=first,
                not_counted=0 if exact else max(0, first - lowest_offset),
                counts_from=counts_from,
                counts_from_ms=since_ms,
                state=own,
            )
        )
    return found


def _slices(changes: Changes) -> list[slice]:
    """Return which rows each life has (REP-1)."""
    count = len(changes)
    if not count:
        return []
    highest = np.maximum.accumulate(changes.state_epoch)
    other_record = changes.log_offset[1:] != changes.log_offset[:-1]
    new = np.ones(count, dtype=bool)
    new[1:] = (
        (changes.begins[1:] & other_record)
        | changes.deletes[:-1]
        | (changes.state_epoch[1:] > highest[:-1])
    )
    starts = np.flatnonzero(new).tolist()
    return [slice(low, high) for low, high in zip(starts, [*starts[1:], count], strict=True)]


def _end_of(
    changes: Changes,
    part: slice,
    state: NewestState | None,
    holes: Sequence[Range],
    *,
    is_last: bool,
    lives: bool,
) -> tuple[int, int]:
    """Return log offset and time of the end of a life; the offset is 2^63 - 1 if it lives on."""
    last = part.stop - 1
    if part.start < part.stop and changes.deletes[last]:
        return int(changes.log_offset[last]), int(changes.at_ms[last])
    if not is_last and part.stop < len(changes):
        return int(changes.log_offset[part.stop]), int(changes.at_ms[part.stop])
    if not is_last:
        assert state is not None  # whose life the next one is
        return _FOR_EVER, state.at_ms
    is_gone = not lives and any(high > changes.log_offset[last] for _, high in holes)
    return _FOR_EVER, int(changes.at_ms[last]) if is_gone else NONE


def _first_offset(changes: Changes, part: slice, state: NewestState | None) -> tuple[int, bool]:
    """Return where a life began in the partition, and whether that is known (REP-7)."""
    known_begin = part.start < part.stop and bool(changes.begins[part.start])
    if known_begin and changes.start_offset[part.start] >= 0:
        return int(changes.start_offset[part.start]), True
    if not known_begin and state is not None and state.initial_start_offset >= 0:
        return state.initial_start_offset, True
    starts = changes.start_offset[part]
    starts = starts[starts >= 0]
    if starts.size:
        return int(starts[0]), known_begin
    if state is not None and state.start_offset >= 0:
        return state.start_offset, False
    changed = changes.first[part]
    changed = changed[changed >= 0]
    return (int(changed.min()), False) if changed.size else (NONE, True)


def _counts_from(
    changes: Changes,
    part: slice,
    state: NewestState | None,
    holes: Sequence[Range],
    *,
    end_offset: int,
) -> tuple[int, int]:
    """Return from which log offset and time on a life is known whole; -1 for both if all of it."""
    known_begin = part.start < part.stop and bool(changes.begins[part.start])
    began = int(changes.log_offset[part.start]) if known_begin else 0
    touching = [high for low, high in holes if low < end_offset and high > began]
    if known_begin and not touching:
        return NONE, NONE
    since = max(touching, default=began)
    offsets, times = changes.log_offset[part], changes.at_ms[part]
    behind = np.flatnonzero(offsets >= since)
    if behind.size:
        return since, int(times[behind[0]])
    return since, state.at_ms if state is not None else int(times[-1])
