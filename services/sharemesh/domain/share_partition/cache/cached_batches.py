"""All cached batches in order of their offsets, in blocks, so that a step costs what it touches."""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence

from sharemesh.domain.share_partition.cache.cached_batch import CachedBatch
from sharemesh.domain.share_partition.cache.record_status import RecordStatus

BLOCK_ENTRIES_MAX = 512
"""Entries of a block; one that would have more is cut into two."""

Entry = CachedBatch | RecordStatus
Span = tuple[int, int, Entry]


class LineBlock:
    """A stretch of the line: where its entries begin and end, and what each of them is."""

    __slots__ = ("entries", "firsts", "lasts")

    def __init__(self, firsts: Sequence[int], lasts: Sequence[int], entries: list[Entry]) -> None:
        self.firsts = array("q", firsts)
        self.lasts = array("q", lasts)
        self.entries = entries


class CachedBatches:
    """The cached batches, ascending; they do not overlap (spec IFB-1, IFB-5).

    A batch of one run without owner, lock and transition may be packed: then only its offsets and
    its shared status are kept (WIN-8), some 30 bytes, and whoever asks for it gets an object made
    for the occasion. Before such a one is changed, it is ``unpack``ed.
    """

    __slots__ = ("_blocks", "_count", "_starts")

    def __init__(self) -> None:
        self._blocks: list[LineBlock] = []  # none of them is empty
        self._starts: list[int] = []  # first offsets of the blocks
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def __bool__(self) -> bool:
        return self._count > 0

    def __iter__(self) -> Iterator[CachedBatch]:
        for first, last, entry in self.spans():
            yield _batch(first, last, entry)

    # ---- finding

    @property
    def first_offset(self) -> int:
        """Where the first batch begins; there must be one."""
        return self._starts[0]

    @property
    def last_offset(self) -> int:
        """Where the last batch ends; there must be one."""
        return self._blocks[-1].lasts[-1]

    def first_batch(self) -> CachedBatch | None:
        """Return the first batch, or None without any."""
        if not self._blocks:
            return None
        block = self._blocks[0]
        entry = block.entries[0]
        if isinstance(entry, CachedBatch):
            return entry
        return _batch(block.firsts[0], block.lasts[0], entry)

    def at_or_below(self, offset: int) -> CachedBatch | None:
        """Return the last batch that begins at or below ``offset``."""
        at = bisect_right(self._starts, offset)
        if not at:
            return None
        block = self._blocks[at - 1]
        index = bisect_right(block.firsts, offset) - 1
        entry = block.entries[index]
        if isinstance(entry, CachedBatch):
            return entry
        return _batch(block.firsts[index], block.lasts[index], entry)

    def first_after(self, offset: int) -> int | None:
        """Return where the next batch begins behind one that begins at ``offset``."""
        at = bisect_right(self._starts, offset)
        block = self._blocks[at - 1]
        index = bisect_right(block.firsts, offset)
        if index < len(block.firsts):
            return block.firsts[index]
        return self._starts[at] if at < len(self._starts) else None

    def starting_in(self, first: int, last: int) -> list[CachedBatch]:
        """Return the batches that begin in ``first..last``."""
        if not self._blocks or first > self._blocks[-1].firsts[-1]:
            return []
        return [_batch(*span) for span in self._spans(first, last, reaching=False)]

    def overlapping(self, first: int, last: int) -> list[CachedBatch]:
        """Return the batches that hold an offset of ``first..last``."""
        return [_batch(*span) for span in self._spans(first, last, reaching=True)]

    def unfinished(self, first: int, last: int) -> list[CachedBatch]:
        """Return the same batches without those that are packed and done."""
        return [
            _batch(begin, end, entry)
            for begin, end, entry in self._spans(first, last, reaching=True)
            if not entry.done
        ]

    def spans(self, offset: int | None = None) -> Iterator[Span]:
        """Yield the batches that end at or after ``offset``, as they are kept."""
        at, index = (0, 0) if offset is None else self._place_of_end(offset)
        for block in self._blocks[at:]:
            if index:
                yield from zip(
                    block.firsts[index:], block.lasts[index:], block.entries[index:], strict=True
                )
                index = 0
            else:
                yield from zip(block.firsts, block.lasts, block.entries, strict=True)

    def kept_whole(self) -> Iterator[CachedBatch]:
        """Yield the batches that are not packed."""
        for block in self._blocks:
            for entry in block.entries:
                if isinstance(entry, CachedBatch):
                    yield entry

    def is_whole(self, first_offset: int) -> bool:
        """Return whether a batch that is not packed begins here."""
        batch = self.at_or_below(first_offset)
        return batch is not None and batch.first_offset == first_offset and not batch.is_packed

    def holds(self, batch: CachedBatch) -> bool:
        """Return whether this very batch is in the line."""
        return self.at_or_below(batch.first_offset) is batch

    def status_at(self, offset: int) -> RecordStatus | None:
        """Return the status of an offset, or None if it is not cached."""
        at = bisect_right(self._starts, offset) - 1
        if at < 0:
            return None
        block = self._blocks[at]
        index = bisect_right(block.firsts, offset) - 1
        if block.lasts[index] < offset:
            return None
        entry = block.entries[index]
        if isinstance(entry, CachedBatch):
            return entry.status_at(offset)
        return entry

    def done_through(self, offset: int, stop: int | None) -> int:
        """Return the last offset up to which all is done from ``offset`` on, or the one before.

        What is not cached is passed. Batches that begin at ``stop`` or behind do not count.
        """
        through = offset - 1
        at, index = self._place_of_end(offset)
        for block in self._blocks[at:]:
            firsts, lasts, entries = block.firsts, block.lasts, block.entries
            for each in range(index, len(entries)):
                first = firsts[each]
                if stop is not None and first >= stop:
                    return through
                entry = entries[each]
                if entry.done:
                    through = lasts[each]
                    continue
                if isinstance(entry, CachedBatch):
                    end = entry.done_end(max(first, through + 1))
                    if end >= first:
                        through = end
                    if end == lasts[each]:
                        continue
                return through
            index = 0
        return through

    def offsets_between(self, first: int, last: int) -> int:
        """Return how many offsets of ``first..last`` are cached."""
        if first > last:
            return 0
        return sum(
            min(end, last) - max(begin, first) + 1
            for begin, end, _ in self._spans(first, last, reaching=True)
        )

    # ---- changing

    def insert(self, first: int, last: int, entry: Entry) -> None:
        """Add a batch; it must not overlap another."""
        self._count += 1
        at = bisect_right(self._starts, first) - 1
        if at < 0:
            if not self._blocks:
                self._blocks.append(LineBlock((first,), (last,), [entry]))
                self._starts.append(first)
                return
            at = 0
            self._starts[0] = first
        block = self._blocks[at]
        firsts = block.firsts
        if first > firsts[-1]:
            firsts.append(first)
            block.lasts.append(last)
            block.entries.append(entry)
        else:
            index = bisect_right(firsts, first)
            firsts.insert(index, first)
            block.lasts.insert(index, last)
            block.entries.insert(index, entry)
        if len(firsts) > BLOCK_ENTRIES_MAX:
            self._cut(at)

    def unpack(self, batch: CachedBatch) -> None:
        """Keep a batch that was made for the occasion: it is about to be changed."""
        batch.is_packed = False
        block, index = self._found(batch.first_offset)
        block.entries[index] = batch

    def pack(self, batch: CachedBatch) -> int:
        """Keep only the runs of a batch, joined to their like; return how many more or fewer.

        All of its runs must be settled, and the batch must be in the line.
        """
        at = bisect_right(self._starts, batch.first_offset) - 1
        block = self._blocks[at]
        low = bisect_left(block.firsts, batch.first_offset)
        high = low + 1
        runs = batch.runs()
        old = batch.run_count
        if low > 0 and _joins(block, low - 1, *runs[0]):
            low -= 1
            old += 1
            runs[0] = (block.firsts[low], runs[0][1], runs[0][2])
        if high < len(block.firsts) and _joined_by(block, high, *runs[-1]):
            runs[-1] = (runs[-1][0], block.lasts[high], runs[-1][2])
            high += 1
            old += 1
        block.firsts[low:high] = array("q", [run[0] for run in runs])
        block.lasts[low:high] = array("q", [run[1] for run in runs])
        block.entries[low:high] = [run[2] for run in runs]
        self._count += len(runs) - (high - low)
        if len(block.firsts) > BLOCK_ENTRIES_MAX:
            self._cut(at)
        return len(runs) - old

    def drop_below(self, offset: int) -> int:
        """Remove the batches that begin below ``offset``, all done; return how many runs."""
        whole = bisect_left(self._starts, offset) - 1  # all before that block
        if whole < 0:
            return 0
        gone: list[Entry] = []
        for block in self._blocks[:whole]:
            gone += block.entries
        block = self._blocks[whole]
        index = bisect_left(block.firsts, offset)
        gone += block.entries[:index]
        if index == len(block.firsts):
            whole += 1
        else:
            del block.firsts[:index], block.lasts[:index], block.entries[:index]
            self._starts[whole] = block.firsts[0]
        del self._blocks[:whole], self._starts[:whole]
        self._count -= len(gone)
        runs = 0
        for entry in gone:
            runs += 1 if entry.done else _run_count(entry)
        return runs

    def clear(self) -> None:
        """Remove all batches."""
        self._blocks, self._starts, self._count = [], [], 0

    # ---- inside

    def is_well_formed(self) -> bool:
        """Return whether blocks and their first offsets agree, and each is in order."""
        count = sum(len(block.firsts) for block in self._blocks)
        return (
            count == self._count
            and self._starts == [block.firsts[0] for block in self._blocks]
            and all(
                len(block.firsts) == len(block.lasts) == len(block.entries) <= BLOCK_ENTRIES_MAX
                for block in self._blocks
            )
        )

    def _spans(self, first: int, last: int, *, reaching: bool) -> list[Span]:
        """Return the batches that begin in ``first..last``, or (reaching) end there or behind."""
        at = bisect_right(self._starts, first) - 1
        index = 0
        if at < 0:
            at = 0
        elif reaching:
            index = bisect_right(self._blocks[at].firsts, first) - 1
            index += self._blocks[at].lasts[index] < first
        else:
            index = bisect_left(self._blocks[at].firsts, first)
        result: list[Span] = []
        while at < len(self._blocks):
            block = self._blocks[at]
            end = bisect_right(block.firsts, last, index)
            if end - index == 1:
                result.append((block.firsts[index], block.lasts[index], block.entries[index]))
            elif index < end:
                result += zip(
                    block.firsts[index:end],
                    block.lasts[index:end],
                    block.entries[index:end],
                    strict=True,
                )
            if end < len(block.firsts):
                break
            at, index = at + 1, 0
        return result

    def _place_of_end(self, offset: int) -> tuple[int, int]:
        """Return block and index of the first batch that ends at or after ``offset``."""
        at = bisect_right(self._starts, offset) - 1
        if at < 0:
            return 0, 0
        block = self._blocks[at]
        index = bisect_left(block.lasts, offset)
        return (at, index) if index < len(block.lasts) else (at + 1, 0)

    def _found(self, first_offset: int) -> tuple[LineBlock, int]:
        block = self._blocks[bisect_right(self._starts, first_offset) - 1]
        return block, bisect_left(block.firsts, first_offset)

    def _cut(self, at: int) -> None:
        """Cut a block that is too long into pieces; one that grows at the end stays full."""
        block = self._blocks[at]
        size = BLOCK_ENTRIES_MAX // 2
        if at == len(self._blocks) - 1 and len(block.firsts) == BLOCK_ENTRIES_MAX + 1:
            size = BLOCK_ENTRIES_MAX
        pieces = [
            LineBlock(
                block.firsts[low : low + size],
                block.lasts[low : low + size],
                block.entries[low : low + size],
            )
            for low in range(0, len(block.firsts), size)
        ]
        self._blocks[at : at + 1] = pieces
        self._starts[at : at + 1] = [piece.firsts[0] for piece in pieces]


def _batch(first: int, last: int, entry: Entry) -> CachedBatch:
    if isinstance(entry, CachedBatch):
        return entry
    batch = CachedBatch(first, last, entry)
    batch.is_packed = True
    return batch


def _run_count(entry: Entry) -> int:
    return entry.run_count if isinstance(entry, CachedBatch) else 1


def _joins(block: LineBlock, index: int, first: int, _: int, status: RecordStatus) -> bool:
    """Whether a packed, finished batch ends right before a run that is like it."""
    return block.entries[index] is status and status.done and block.lasts[index] + 1 == first


def _joined_by(block: LineBlock, index: int, _: int, last: int, status: RecordStatus) -> bool:
    """Whether a packed, finished batch begins right behind a run that is like it."""
    return block.entries[index] is status and status.done and block.firsts[index] == last + 1
