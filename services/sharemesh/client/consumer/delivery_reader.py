"""Turns one delivery into records, gaps and failures (spec CL-10, CL-13, CL-14)."""

from dataclasses import replace
from typing import Any

from sharemesh.client.consumer.deliveries import Delivery, records_between
from sharemesh.client.errors import CorruptRecordError, RecordDeserializationError
from sharemesh.client.records import AcquiredRange, ConsumerRecord, Deserializer
from sharemesh.codec.client_batches import ReadBatch

Failure = RecordDeserializationError | CorruptRecordError


class DeliveryReader:
    """Reads one delivery piece by piece.

    Attributes:
        delivery: What is read.
        gaps: Acquired offsets without a record for applications, to be acknowledged as GAP.
    """

    def __init__(
        self,
        delivery: Delivery,
        key_deserializer: Deserializer | None,
        value_deserializer: Deserializer | None,
        *,
        check_crcs: bool,
    ) -> None:
        self.delivery = delivery
        self._key = key_deserializer
        self._value = value_deserializer
        self._raw: list[Any] = []
        self._counts: list[int] = []
        self._corrupt: list[tuple[int, int, int, str]] = []  # position, first, last, why
        self._at = 0
        for run in delivery.acquired:
            batches = delivery.payload.batches(
                run.first_offset, run.last_offset, check_crc=check_crcs
            )
            for batch in batches:
                self._sort_in(run, batch)
        self.gaps = self._find_gaps()

    @property
    def is_read(self) -> bool:
        """Whether nothing is left."""
        return self._at >= len(self._raw) and not self._corrupt

    def _sort_in(self, run: AcquiredRange, batch: ReadBatch) -> None:
        """Keep what lies in the acquired run; records outside of it are not ours."""
        if batch.corrupt:
            first = max(run.first_offset, batch.base_offset)
            last = min(run.last_offset, batch.last_offset)
            self._add_corrupt(first, last, batch.corrupt)
            return
        records = records_between(batch, run.first_offset, run.last_offset)
        self._raw.extend(records)
        self._counts.extend([run.delivery_count] * len(records))

    def _add_corrupt(self, first: int, last: int, why: str) -> None:
        """Note a failure at this position; runs of one batch that touch are one failure."""
        position = len(self._raw)
        if self._corrupt and self._corrupt[-1] == (position, self._corrupt[-1][1], first - 1, why):
            first = self._corrupt.pop()[1]
        self._corrupt.append((position, first, last, why))

    def _find_gaps(self) -> list[int]:
        held = len(self._raw) + sum(last - first + 1 for _, first, last, _ in self._corrupt)
        if held == self.delivery.record_count:
            return []
        present = {each.offset for each in self._raw}
        for _, first, last, _ in self._corrupt:
            present.update(range(first, last + 1))
        return [offset for offset in self.delivery.offsets() if offset not in present]

    def rest(self) -> Delivery | None:
        """Return what is left as a delivery of its own, without gaps; None if nothing is."""
        runs = [
            AcquiredRange(raw.offset, raw.offset, count)
            for raw, count in zip(self._raw[self._at :], self._counts[self._at :], strict=True)
        ]
        for _, first, last, _ in self._corrupt:
            for run in self.delivery.acquired:
                low, high = max(first, run.first_offset), min(last, run.last_offset)
                if low <= high:
                    runs.append(AcquiredRange(low, high, run.delivery_count))
        if not runs:
            return None
        return replace(self.delivery, acquired=tuple(sorted(runs, key=_first)), waited_ms=None)

    def take(self, *, failures: bool) -> tuple[list[ConsumerRecord], Failure | None, range]:
        """Return the good records up to the next failure, or the failure if it comes next.

        The range holds the failed offsets; it is empty if there is no failure. Good records
        before a failure come first, alone. Without ``failures`` a failure is left for later.
        """
        if self._corrupt and self._corrupt[0][0] == self._at:
            if not failures:
                return [], None, range(0)
            _, first, last, why = self._corrupt.pop(0)
            source = self.delivery.source
            failure = CorruptRecordError(source.topic, source.partition, first, last, why)
            return [], failure, range(first, last + 1)
        end = self._corrupt[0][0] if self._corrupt else len(self._raw)
        return self._convert(end, failures=failures)

    def _convert(
        self, end: int, *, failures: bool
    ) -> tuple[list[ConsumerRecord], Failure | None, range]:
        topic, partition, topic_id = self.delivery.source
        epoch, grant = self.delivery.leader_epoch, self.delivery.grant
        new = tuple.__new__  # half the cost of the constructor
        if self._key is None and self._value is None:
            whole = [
                new(
                    ConsumerRecord,
                    (
                        topic, partition, raw.offset, raw.timestamp, raw.key, raw.value,
                        tuple(raw.headers), count, epoch, topic_id, grant,
                    ),
                )
                for raw, count in zip(
                    self._raw[self._at : end], self._counts[self._at : end], strict=True
                )
            ]  # fmt: skip
            self._at = max(end, self._at)
            return whole, None, range(0)
        good: list[ConsumerRecord] = []
        for at in range(self._at, end):
            raw = self._raw[at]
            part = "key"
            try:
                key = raw.key if self._key is None or raw.key is None else self._key(raw.key)
                part = "value"
                value = raw.value
                if self._value is not None and value is not None:
                    value = self._value(value)
            except Exception as error:
                if good or not failures:
                    break
                self._at = at + 1
                failure = RecordDeserializationError(
                    topic, partition, raw.offset, part, repr(error)
                )
                failure.__cause__ = error
                return [], failure, range(raw.offset, raw.offset + 1)
            good.append(
                ConsumerRecord(
                    topic, partition, raw.offset, raw.timestamp, key, value,
                    tuple(raw.headers), self._counts[at], epoch, topic_id, grant,
                )
            )  # fmt: skip
        self._at += len(good)
        return good, None, range(0)


def _first(run: AcquiredRange) -> int:
    return run.first_offset
