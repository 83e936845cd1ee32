"""Record batches as a leader sent them, decoded once however often they are cut."""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import islice
from operator import attrgetter
from typing import Any

from sharemesh.codec.client_batches import ReadBatch, read_batches


class Payload:
    """Bytes of record batches, decoded on the application's side, when it first looks.

    The network's side only counts offsets, so a large batch costs its event loop nothing.
    """

    __slots__ = ("_batches", "_in_order", "data")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self._batches: list[ReadBatch] | None = None
        self._in_order = True

    def batches(self, first: int, last: int, *, check_crc: bool) -> Iterator[ReadBatch]:
        """Yield the batches that touch ``first..last``, both included."""
        found = self._decoded(check_crc=check_crc)
        begin = bisect_left(found, first, key=attrgetter("last_offset")) if self._in_order else 0
        for batch in islice(found, begin, None):
            if batch.base_offset <= last and first <= batch.last_offset:
                yield batch
            elif self._in_order:
                return

    def _decoded(self, *, check_crc: bool) -> list[ReadBatch]:
        if self._batches is None:
            self._batches = list(read_batches(self.data, check_crc=check_crc))
            # Base offsets are not under the checksum, so a damaged one may be anywhere.
            ends = [end for each in self._batches for end in (each.base_offset, each.last_offset)]
            self._in_order = all(map(int.__le__, ends, islice(ends, 1, None)))
        return self._batches


def records_between(batch: ReadBatch, first: int, last: int) -> Sequence[Any]:
    """Return the records of ``batch`` with offsets from ``first`` to ``last``, both included."""
    if first <= batch.base_offset and batch.last_offset <= last:
        return batch.records
    low, high = max(first - batch.base_offset, 0), last + 1 - batch.base_offset
    dense = batch.records[low:high]  # the place is the offset, unless records are missing
    if [each.offset for each in dense] == list(range(batch.base_offset + low, last + 1)):
        return dense
    return [each for each in batch.records if first <= each.offset <= last]
