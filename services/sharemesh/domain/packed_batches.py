"""The state batches of a large state: packed in blocks, some 30 bytes each (WIN-16)."""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from operator import eq, ge, gt
from typing import NamedTuple, overload

from sharemesh.domain.delivery_state import Cause, DeliveryState
from sharemesh.domain.state_batch import NO_START_OFFSET, StateBatch, combine

PACKED_MIN = 2_000
"""States of fewer batches are tuples, unless they were packed and have half of it."""

BLOCK_MAX = 512
"""Batches of one block; one that would have more is cut."""

_BLOCK_MIN = 64  # a smaller one joins the one before it if there is room
_NEAR = 16  # new batches so near to one another are put in together
_CAUSE_SHIFT, _COUNT_SHIFT = 3, 8
_STATE_MASK, _CAUSE_MASK = 0x7, 0x1F
_STATES = {state.value: state for state in DeliveryState}
_CAUSES = {cause.value: cause for cause in Cause}


class BatchColumns(NamedTuple):
    """Batches as columns of 64 bits; never changed.

    ``kinds`` are delivery count, cause and delivery state in one number. ``not_befores`` is empty
    if there is none.
    """

    firsts: "array[int]"
    lasts: "array[int]"
    kinds: "array[int]"
    not_befores: "array[int]"

    def part(self, low: int, high: int) -> "BatchColumns":
        """Return the batches ``low`` (inclusive) to ``high``."""
        return BatchColumns(*(column[low:high] for column in self))

    def batches(self, low: int, high: int) -> list[StateBatch]:
        """Return batches as objects."""
        states, causes, new = _STATES, _CAUSES, tuple.__new__
        later: Iterable[int] = self.not_befores[low:high] or bytes(high - low)
        return [
            new(
                StateBatch,
                (
                    first,
                    last,
                    states.get(kind & _STATE_MASK, kind & _STATE_MASK),
                    kind >> _COUNT_SHIFT,
                    causes.get(kind >> _CAUSE_SHIFT & _CAUSE_MASK, Cause.UNSPECIFIED),
                    not_before_ms,
                    0,
                ),
            )
            for first, last, kind, not_before_ms in zip(
                self.firsts[low:high],
                self.lasts[low:high],
                self.kinds[low:high],
                later,
                strict=True,
            )
        ]


_NOTHING = BatchColumns(array("q"), array("q"), array("q"), array("q"))


def columns_of(batches: Sequence[StateBatch]) -> BatchColumns:
    """Return batches as columns."""
    later = array("q", [batch.not_before_ms for batch in batches])
    return BatchColumns(
        array("q", [batch.first_offset for batch in batches]),
        array("q", [batch.last_offset for batch in batches]),
        array(
            "q",
            [
                batch.delivery_count << _COUNT_SHIFT
                | batch.cause << _CAUSE_SHIFT
                | batch.delivery_state
                for batch in batches
            ],
        ),
        later if any(later) else _NOTHING.not_befores,
    )


class PackedBatches(Sequence[StateBatch]):
    """Sorted, disjoint and merged batches; never changed, and what is new shares the old blocks."""

    __slots__ = ("_blocks", "_count", "_lasts")

    def __init__(self, blocks: list[BatchColumns]) -> None:
        """Take blocks over; none of them is empty."""
        self._blocks = blocks
        self._lasts = array("q", [block.lasts[-1] for block in blocks])
        self._count = sum(len(block.firsts) for block in blocks)

    @classmethod
    def of(cls, columns: BatchColumns) -> "PackedBatches":
        """Return the batches of columns, which are sorted, disjoint and merged.

        Raises:
            ValueError: They are not in order.
        """
        firsts, lasts = columns.firsts, columns.lasts
        if any(map(ge, lasts, islice(firsts, 1, None))) or any(map(gt, firsts, lasts)):
            raise ValueError("state batches overlap, or are not in order")
        return cls(_blocks_of(columns))

    @classmethod
    def joined(cls, parts: Iterable["PackedBatches"]) -> "PackedBatches":
        """Return the batches of parts that follow one another."""
        return cls([block for part in parts for block in part._blocks])

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[StateBatch]:
        for block in self._blocks:
            yield from block.batches(0, len(block.firsts))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, PackedBatches | tuple):
            return NotImplemented
        return len(self) == len(other) and all(map(eq, self, other))

    __hash__ = None  # type: ignore[assignment]

    @overload
    def __getitem__(self, index: int) -> StateBatch: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[StateBatch, ...]: ...

    def __getitem__(self, index: int | slice) -> StateBatch | tuple[StateBatch, ...]:
        if isinstance(index, slice):
            return tuple(self)[index]
        at = index + self._count if index < 0 else index
        if not 0 <= at < self._count:
            raise IndexError(index)
        number = 0
        while at >= len(self._blocks[number].firsts):
            at -= len(self._blocks[number].firsts)
            number += 1
        return self._blocks[number].batches(at, at + 1)[0]

    def touching(self, first: int, last: int) -> list[StateBatch]:
        """Return the batches that hold an offset of ``first..last``."""
        found: list[StateBatch] = []
        at = bisect_left(self._lasts, first)
        while at < len(self._blocks) and self._blocks[at].firsts[0] <= last:
            block = self._blocks[at]
            low, high = bisect_left(block.lasts, first), bisect_right(block.firsts, last)
            found += block.batches(low, high)
            at += 1
        return found

    def with_not_befores(self, changed: Callable[[int], int]) -> "PackedBatches":
        """Return the batches with other not-befores; ``changed`` keeps 0."""
        return PackedBatches(
            [
                block._replace(not_befores=array("q", map(changed, block.not_befores)))
                if block.not_befores
                else block
                for block in self._blocks
            ]
        )

    def columns(self) -> BatchColumns:
        """Return all batches as columns."""
        return _joined(self._blocks)

    def parts(self, batches_max: int) -> "list[PackedBatches]":
        """Return the same batches in parts of at most so many."""
        columns = self.columns()
        return [
            PackedBatches(_blocks_of(columns.part(low, low + batches_max)))
            for low in range(0, max(1, self._count), batches_max)
        ]

    def part_from(self, offset: int, batches_max: int) -> "tuple[PackedBatches, int | None]":
        """Return at most so many batches, which end at ``offset`` or behind.

        Also, where the next such part begins; None: there are no more.
        """
        blocks: list[BatchColumns] = []
        at, room = bisect_left(self._lasts, offset), batches_max
        for block in self._blocks[at:]:
            if not room:
                return PackedBatches(blocks), blocks[-1].lasts[-1] + 1
            low = 0 if blocks else bisect_left(block.lasts, offset)
            blocks.append(block.part(low, low + room))
            room -= len(blocks[-1].lasts)
            if low + len(blocks[-1].lasts) < len(block.lasts):
                return PackedBatches(blocks), blocks[-1].lasts[-1] + 1
        return PackedBatches(blocks), None

    def combined(self, new: Iterable[StateBatch], start_offset: int) -> "PackedBatches":
        """Return what ``combine`` gives; the cost follows what ``new`` touches (WIN-17)."""
        fresh = combine(new, (), start_offset=start_offset)
        result = PackedBatches.__new__(PackedBatches)
        result._blocks, result._lasts = self._blocks[:], self._lasts[:]
        result._count = self._count
        if start_offset != NO_START_OFFSET:
            result._clip(start_offset)
        low = 0
        while low < len(fresh):
            high = low + 1
            while high < len(fresh) and result._is_near(fresh[high - 1], fresh[high]):
                high += 1
            result._put(fresh[low:high])
            low = high
        return result

    # ---- before anybody else has seen it

    def _clip(self, start_offset: int) -> None:
        """Drop and cut what lies below the start offset (CMB-1)."""
        gone = bisect_left(self._lasts, start_offset)
        for block in self._blocks[:gone]:
            self._count -= len(block.firsts)
        del self._blocks[:gone], self._lasts[:gone]
        if not self._blocks or self._blocks[0].firsts[0] >= start_offset:
            return
        block = self._blocks[0]
        low = bisect_left(block.lasts, start_offset)
        rest = block.part(low, len(block.lasts))
        rest.firsts[0] = max(rest.firsts[0], start_offset)
        self._blocks[0] = rest
        self._count -= low

    def _is_near(self, before: StateBatch, batch: StateBatch) -> bool:
        """Whether few batches lie between two new ones."""
        at = bisect_left(self._lasts, before.last_offset)
        if at == len(self._blocks):
            return True
        lasts = self._blocks[at].lasts
        if lasts[-1] < batch.first_offset:
            return False
        between = bisect_left(lasts, batch.first_offset) - bisect_left(lasts, before.last_offset)
        return between <= _NEAR

    def _put(self, fresh: Sequence[StateBatch]) -> None:
        """Combine neighbouring batches with those that they touch."""
        # Batches that end right before or begin right after may merge, so they take part too.
        first, last = fresh[0].first_offset - 1, fresh[-1].last_offset + 1
        blocks = self._blocks
        at = bisect_left(self._lasts, first)
        end = bisect_left(self._lasts, last)
        old: list[StateBatch] = []
        if at == len(blocks):
            at = max(0, at - 1)
        head = blocks[at].part(0, bisect_left(blocks[at].lasts, first)) if blocks else _NOTHING
        tail = _NOTHING
        for index in range(at, min(end + 1, len(blocks))):
            block = blocks[index]
            low, high = bisect_left(block.lasts, first), bisect_right(block.firsts, last)
            old += block.batches(low, high)
            if index == end:
                tail = block.part(high, len(block.firsts))
        middle = columns_of(combine(old, fresh, start_offset=NO_START_OFFSET))
        made = _joined([head, middle, tail])
        if at > 0 and len(made.firsts) < _BLOCK_MIN:
            at -= 1
            made = _joined([blocks[at], made])
        gone = blocks[at : end + 1]
        new = _blocks_of(made)
        self._count += len(made.firsts) - sum(len(block.firsts) for block in gone)
        blocks[at : end + 1] = new
        self._lasts[at : end + 1] = array("q", [block.lasts[-1] for block in new])


StateBatches = tuple[StateBatch, ...] | PackedBatches
"""Sorted, disjoint and merged batches of a state, packed if they are many."""


def packed(batches: Sequence[StateBatch]) -> StateBatches:
    """Return the batches of a state as they are kept."""
    if len(batches) < (PACKED_MIN // 2 if isinstance(batches, PackedBatches) else PACKED_MIN):
        return tuple(batches)
    if isinstance(batches, PackedBatches):
        return batches
    columns = columns_of(batches)
    try:
        return PackedBatches.of(columns)
    except ValueError:  # of a log that this version did not write: the next write sorts it
        return tuple(batches)


def combined(
    stored: Sequence[StateBatch], new: Iterable[StateBatch], *, start_offset: int
) -> StateBatches:
    """Return what ``combine`` gives, packed or not as it is kept."""
    if isinstance(stored, PackedBatches):
        return packed(stored.combined(new, start_offset))
    return packed(combine(stored, new, start_offset=start_offset))


def touching(batches: Sequence[StateBatch], first: int, last: int) -> Sequence[StateBatch]:
    """Return the batches of a state that hold an offset of ``first..last``."""
    if isinstance(batches, PackedBatches):
        return batches.touching(first, last)
    low = bisect_left(batches, first, key=_last_offset)
    high = bisect_right(batches, last, low, key=_first_offset)
    return batches[low:high]


def _first_offset(batch: StateBatch) -> int:
    return batch.first_offset


def _last_offset(batch: StateBatch) -> int:
    return batch.last_offset


def _joined(parts: Sequence[BatchColumns]) -> BatchColumns:
    """Return columns one after the other."""
    made = BatchColumns(array("q"), array("q"), array("q"), array("q"))
    has_delays = any(part.not_befores for part in parts)
    for part in parts:
        for target, column in zip(made[:3], part[:3], strict=True):
            target.extend(column)
        if has_delays:
            made.not_befores.extend(part.not_befores or array("q", bytes(8 * len(part.firsts))))
    return made


def _blocks_of(columns: BatchColumns) -> list[BatchColumns]:
    """Return columns in blocks; room is left if there must be several."""
    count = len(columns.firsts)
    if count <= BLOCK_MAX:
        return [columns] if count else []
    pieces = -(-count * 4 // (BLOCK_MAX * 3))
    size = -(-count // pieces)
    return [columns.part(low, min(low + size, count)) for low in range(0, count, size)]
