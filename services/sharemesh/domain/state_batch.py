"""Runs of offsets in one delivery state, as they are persisted, and how they combine (spec CMB)."""

from collections.abc import Iterable
from heapq import heappop, heappush
from typing import NamedTuple

from sharemesh.domain.delivery_state import Cause, DeliveryState

NO_START_OFFSET = -1
NO_COUNT = -1
"""A delivery-complete count that no write told."""

TERMINAL = frozenset({DeliveryState.ACKNOWLEDGED, DeliveryState.ARCHIVED})
"""States that end a record for a group (RS-4)."""


class StateBatch(NamedTuple):
    """Offsets ``first_offset..last_offset``, both included (spec SC-21); never ACQUIRED.

    ``cause`` says what brought them there, ``acquired_at_ms`` when the delivery that ended so had
    begun (wall time, 0: not known; EXP-9). They are notes for the audit trail, not state: they take
    no part in combining and equality. ``not_before_ms`` is wall time, 0 without a delay (RTY-7).
    """

    first_offset: int
    last_offset: int
    delivery_state: DeliveryState
    delivery_count: int
    cause: Cause = Cause.UNSPECIFIED
    not_before_ms: int = 0
    acquired_at_ms: int = 0

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, StateBatch)
            and self[:4] == other[:4]
            and self.not_before_ms == other.not_before_ms
        )

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash((*self[:4], self.not_before_ms))


def combine(
    stored: Iterable[StateBatch] | None,
    new: Iterable[StateBatch] | None,
    *,
    start_offset: int,
    keep_causes: bool = False,
) -> tuple[StateBatch, ...]:
    """Return sorted, disjoint, merged batches that cover what either list covers (spec CMB-1..12).

    On an offset that several batches cover, the higher delivery count wins, then the higher
    delivery state, then the later not-before; age does not matter (CMB-2, RTY-7). Examples: CMB-5
    equal ones, CMB-6 a newer one that loses, CMB-7 a split, CMB-8 one swallowed, CMB-9 a tail,
    CMB-10 a clip, CMB-11 mixed.
    Neither list needs to be sorted or free of overlap (CMB-4). The cost beyond one pass over each
    batch follows the part of ``stored`` that ``new`` touches.

    Args:
        stored: What is held already; None counts as empty.
        new: What is written now; None counts as empty.
        start_offset: Offsets below it are dropped; -1 drops none (CMB-1).
        keep_causes: Merge only what has the same cause and the same time of acquisition: for what
            is written to the log, where both are kept for each batch (EXP-6, EXP-9). A state is
            merged whatever the causes, and does not keep the times.
    """
    old = _disjoint(_clipped(stored or (), start_offset), keep_causes=keep_causes)
    fresh = _clipped(new or (), start_offset)
    if not keep_causes:
        fresh = [batch._replace(acquired_at_ms=0) if batch[6] else batch for batch in fresh]
    if not fresh:
        return tuple(old)
    first = min(batch.first_offset for batch in fresh)
    last = max(batch.last_offset for batch in fresh)
    # Batches that end right before or begin right after may merge, so they take part too.
    low = _index_of_end(old, first - 1)
    high = low
    while high < len(old) and old[high].first_offset <= last + 1:
        high += 1
    if low < high:
        middle = _sweep([*old[low:high], *fresh], keep_causes=keep_causes)
    else:
        middle = _disjoint(fresh, keep_causes=keep_causes)
    return (*old[:low], *middle, *old[high:])


def complete_count(batches: Iterable[StateBatch]) -> int:
    """Return how many offsets these disjoint batches say are acknowledged or archived."""
    return sum(
        batch.last_offset - batch.first_offset + 1
        for batch in batches
        if batch.delivery_state in TERMINAL
    )


def _clipped(batches: Iterable[StateBatch], start_offset: int) -> list[StateBatch]:
    """Drop and cut what lies below the start offset (CMB-1)."""
    if start_offset == NO_START_OFFSET:
        return list(batches)
    return [
        batch if batch.first_offset >= start_offset else _cut(batch, start_offset)
        for batch in batches
        if batch.last_offset >= start_offset
    ]


def _cut(batch: StateBatch, first_offset: int) -> StateBatch:
    return StateBatch(
        first_offset,
        batch.last_offset,
        batch.delivery_state,
        batch.delivery_count,
        batch.cause,
        batch.not_before_ms,
        batch.acquired_at_ms,
    )


def _disjoint(batches: list[StateBatch], *, keep_causes: bool) -> list[StateBatch]:
    """Return the batches as they are if they are combined already, else combined."""
    previous = None
    for batch in batches:
        if previous is not None and (
            batch.first_offset <= previous.last_offset
            or _mergeable(previous, batch, keep_causes=keep_causes)
        ):
            return _sweep(batches, keep_causes=keep_causes)
        previous = batch
    return batches


def _mergeable(left: StateBatch, right: StateBatch, *, keep_causes: bool) -> bool:
    return (
        left.last_offset + 1 == right.first_offset
        and left.delivery_count == right.delivery_count
        and left.delivery_state == right.delivery_state
        and left.not_before_ms == right.not_before_ms
        and not (keep_causes and _notes_differ(left, right))
    )


def _notes_differ(left: StateBatch, right: StateBatch) -> bool:
    return left.cause is not right.cause or left.acquired_at_ms != right.acquired_at_ms


def _index_of_end(batches: list[StateBatch], offset: int) -> int:
    """Return the index of the first batch that ends at or after ``offset``."""
    low, high = 0, len(batches)
    while low < high:
        middle = (low + high) // 2
        if batches[middle].last_offset < offset:
            low = middle + 1
        else:
            high = middle
    return low


def _sweep(batches: list[StateBatch], *, keep_causes: bool) -> list[StateBatch]:
    """Walk from the lowest to the highest offset; the best of those that cover it wins (CMB-2)."""
    pending = sorted(batches, key=_first_offset)
    covering: list[tuple[int, int, int, int, StateBatch]] = []
    result: list[StateBatch] = []
    index, position = 0, 0
    while index < len(pending) or covering:
        if not covering:
            position = pending[index].first_offset
        while index < len(pending) and pending[index].first_offset <= position:
            batch = pending[index]
            rank = (-batch.delivery_count, -batch.delivery_state, -batch.not_before_ms)
            heappush(covering, (*rank, index, batch))
            index += 1
        best = covering[0][4]
        if best.last_offset < position:
            heappop(covering)
            continue
        end = best.last_offset
        if index < len(pending):
            end = min(end, pending[index].first_offset - 1)
        _append(result, best, position, end, keep_causes=keep_causes)
        position = end + 1
    return result


def _first_offset(batch: StateBatch) -> int:
    return batch.first_offset


def _append(
    result: list[StateBatch], source: StateBatch, first: int, last: int, *, keep_causes: bool
) -> None:
    """Add ``first..last`` of ``source``, merged with what is right before it if equal (CMB-3)."""
    cause = source.cause
    if result:
        left = result[-1]
        if (
            left.last_offset + 1 == first
            and left.delivery_count == source.delivery_count
            and left.delivery_state == source.delivery_state
            and left.not_before_ms == source.not_before_ms
            and not (keep_causes and _notes_differ(left, source))
        ):
            first = left.first_offset
            cause = cause if cause is left.cause else Cause.UNSPECIFIED
            result.pop()
    if first == source.first_offset and last == source.last_offset and cause is source.cause:
        result.append(source)
    else:
        _, _, state, count, _, not_before_ms, acquired_at_ms = source
        result.append(StateBatch(first, last, state, count, cause, not_before_ms, acquired_at_ms))
