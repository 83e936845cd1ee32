"""Turns one delivery into columns, gaps and failures; decodes only what it must (CL-31)."""

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain, islice
from operator import attrgetter
from typing import NamedTuple

from sharemesh.client.consumer.deliveries import Delivery
from sharemesh.client.errors import CorruptRecordError
from sharemesh.client.record_columns import ColumnPart, RecordColumns
from sharemesh.client.records import AcquiredRange
from sharemesh.codec.client_batches import FoundBatch
from sharemesh.codec.record_set import RecordSetError, raw_records


class _Damage(NamedTuple):
    """Offsets ``first..last``, both included, whose batch cannot be read."""

    first: int
    last: int
    why: str


class ColumnReader:
    """Reads one delivery; what ends in a failure is read up to it first.

    Attributes:
        delivery: What is read.
        gaps: Acquired offsets without a record for applications, to be acknowledged as GAP.
    """

    def __init__(self, delivery: Delivery, *, check_crcs: bool) -> None:
        self.delivery = delivery
        self._parts: list[ColumnPart | _Damage] = []
        covered: list[tuple[int, int]] = []
        for batch in delivery.payload.found(check_crc=check_crcs):
            for run in _runs_of(delivery, batch.base_offset, batch.last_offset):
                covered.extend(self._take_in(batch, run))
        self.gaps = _uncovered(delivery, covered)

    @property
    def is_read(self) -> bool:
        """Whether nothing is left."""
        return not self._parts

    def _take_in(self, batch: FoundBatch, run: AcquiredRange) -> list[tuple[int, int]]:
        """Keep a part of a batch; return the offsets that it accounts for."""
        first, last, count = run.first_offset, run.last_offset, run.delivery_count
        if batch.is_control:
            return []
        why, records = batch.corrupt, None
        if not why and not batch.is_dense:
            try:
                found = raw_records(batch.data)
            except RecordSetError as error:
                why = str(error)
            else:
                records = [each for each in found if first <= each.offset <= last]
                if not records:
                    return []
        if why:
            before = self._parts[-1] if self._parts else None
            if isinstance(before, _Damage) and (before.last, before.why) == (first - 1, why):
                self._parts[-1] = before._replace(last=last)  # runs of one batch are one failure
            else:
                self._parts.append(_Damage(first, last, why))
            return [(first, last)]
        self._parts.append(ColumnPart(batch, first, last, count, records))
        if records is None:
            return [(first, last)]
        return [(each.offset, each.offset) for each in records]

    def take(self, *, failures: bool) -> tuple[RecordColumns | None, CorruptRecordError | None]:
        """Return the good part up to the next failure, or the failure if it comes next.

        Without ``failures`` a failure is left for later.
        """
        parts: list[ColumnPart] = []
        while self._parts:
            part = self._parts[0]
            if isinstance(part, _Damage):
                if parts or not failures:
                    break
                del self._parts[0]
                source = self.delivery.source
                return None, CorruptRecordError(source.topic, source.partition, *part)
            parts.append(part)
            del self._parts[0]
        if not parts:
            return None, None
        held = self.delivery
        return RecordColumns(held.source, held.leader_epoch, parts, held.grant), None

    def rest(self) -> Delivery | None:
        """Return what is left as a delivery of its own, without gaps; None if nothing is."""
        runs: list[AcquiredRange] = []
        for part in self._parts:
            if isinstance(part, _Damage):
                runs.extend(_runs_of(self.delivery, part.first, part.last))
            elif part.records is None:
                runs.append(AcquiredRange(part.first, part.last, part.delivery_count))
            else:
                count = part.delivery_count
                runs.extend(AcquiredRange(e.offset, e.offset, count) for e in part.records)
        if not runs:
            return None
        return replace(self.delivery, acquired=tuple(runs), waited_ms=None)


def _runs_of(delivery: Delivery, first: int, last: int) -> Iterator[AcquiredRange]:
    """Yield what is acquired of ``first..last``, both included; runs come in order of offset."""
    runs = delivery.acquired
    begin = bisect_left(runs, first, key=attrgetter("last_offset"))
    for run in islice(runs, begin, None):
        if run.first_offset > last:
            return
        yield AcquiredRange(
            max(first, run.first_offset), min(last, run.last_offset), run.delivery_count
        )


def _uncovered(delivery: Delivery, covered: list[tuple[int, int]]) -> list[int]:
    """Return the acquired offsets that no batch accounts for."""
    if sum(last - first + 1 for first, last in covered) == delivery.record_count:
        return []
    present = set(chain.from_iterable(range(first, last + 1) for first, last in covered))
    return [offset for offset in delivery.offsets() if offset not in present]
