"""Records in bulk: those of one partition as columns, decoded when they are looked at (CL-31)."""

from collections.abc import Sequence
from itertools import chain, repeat
from operator import attrgetter
from typing import Any, NamedTuple

from sharemesh.client.errors import CorruptRecordError, IllegalStateError
from sharemesh.client.records import (
    NO_GRANT,
    FencingToken,
    Headers,
    RecordGrant,
    TopicIdPartition,
    fencing_token,
)
from sharemesh.codec.arrow_tables import arrow_table
from sharemesh.codec.client_batches import FoundBatch
from sharemesh.codec.record_set import RecordSetError, raw_columns


class ColumnPart(NamedTuple):
    """A part of a batch: offsets ``first..last``, both included, delivered with one count.

    ``records`` are decoded already, or None: then they are found in those of the batch.
    """

    batch: FoundBatch
    first: int
    last: int
    delivery_count: int
    records: Sequence[Any] | None


class RecordColumns:
    """Acquired records of one partition, in order of offset; the columns are of equal length.

    Keys and values are bytes as they were produced: deserializers are not applied.

    Attributes:
        topic_id_partition: Where they come from.
        leader_epoch: Epoch of the leader that acquired them.
    """

    __slots__ = ("_grant", "_parts", "leader_epoch", "topic_id_partition")

    def __init__(
        self,
        source: TopicIdPartition,
        leader_epoch: int,
        parts: Sequence[ColumnPart],
        grant: RecordGrant = NO_GRANT,
    ) -> None:
        self.topic_id_partition = source
        self.leader_epoch = leader_epoch
        self._parts = parts
        self._grant = grant

    def __len__(self) -> int:
        return sum(_length(part) for part in self._parts)

    def __repr__(self) -> str:
        first, last = self._parts[0].first, self._parts[-1].last
        return f"RecordColumns({self.topic_id_partition}@{first}..{last}, {len(self)} records)"

    @property
    def topic(self) -> str:
        """Name of the topic."""
        return self.topic_id_partition.topic

    @property
    def partition(self) -> int:
        """Partition."""
        return self.topic_id_partition.partition

    @property
    def runs(self) -> Sequence[range]:
        """Offsets as ranges, in order; nothing is decoded for them."""
        found: list[range] = []
        for part in self._parts:
            if part.records is None:
                found.append(range(part.first, part.last + 1))
            else:
                found.extend(range(each.offset, each.offset + 1) for each in part.records)
        return found

    @property
    def offsets(self) -> list[int]:
        """Offsets; nothing is decoded for them."""
        return list(chain.from_iterable(self.runs))

    @property
    def delivery_counts(self) -> list[int]:
        """How often each was delivered, this time included (spec CL-30)."""
        return list(
            chain.from_iterable(repeat(part.delivery_count, _length(part)) for part in self._parts)
        )

    @property
    def fencing_tokens(self) -> list[FencingToken]:
        """What guards a store against this delivery of each, as ``ConsumerRecord.fencing_token``.

        Raises:
            UnsupportedVersionError: The leader gives none: its process is older (spec TOK-4).
        """
        counts = self.delivery_counts
        known = {each: fencing_token(self._grant, self.leader_epoch, each) for each in counts}
        return [known[each] for each in counts]

    @property
    def timestamps_ms(self) -> list[int]:
        """Milliseconds since the epoch.

        Raises:
            CorruptRecordError: A batch cannot be decoded (spec CL-32); as all columns below.
        """
        return self._column("timestamp")

    @property
    def keys(self) -> list[bytes | None]:
        """Keys."""
        return self._column("key")

    @property
    def values(self) -> list[bytes | None]:
        """Values."""
        return self._column("value")

    @property
    def headers(self) -> list[Headers]:
        """Pairs of name and bytes of each record, in the producer's order."""
        return [tuple(headers) for headers in self._column("headers")]

    def to_arrow(self) -> Any:  # noqa: ANN401 - a pyarrow.Table; few applications have it
        """Return a ``pyarrow.Table`` with offset, timestamp, key, value and delivery_count.

        Raises:
            CorruptRecordError: A batch cannot be decoded (spec CL-32).
            IllegalStateError: pyarrow is not installed.
        """
        self._decode("timestamp", "key", "value")
        columns = (self.offsets, self.timestamps_ms, self.keys, self.values, self.delivery_counts)
        try:
            return arrow_table(*columns)
        except ImportError:
            raise IllegalStateError("to_arrow needs pyarrow: pip install pyarrow") from None

    def _column(self, name: str) -> list[Any]:
        self._decode(name)
        found: list[Any] = []
        for part in self._parts:
            if part.records is not None:
                found.extend(map(attrgetter(name), part.records))
                continue
            base = part.batch.base_offset
            whole = part.batch.decoded[name]
            first, last = part.first - base, part.last + 1 - base
            found.extend(whole if (first, last) == (0, len(whole)) else whole[first:last])
        return found

    def _decode(self, *names: str) -> None:
        """Decode columns of all batches that have none of this name."""
        for part in self._parts:
            batch = part.batch
            missing = [name for name in names if name not in batch.decoded]
            if part.records is not None or not missing:
                continue
            try:
                columns = raw_columns(batch.data, *missing)
            except RecordSetError as error:
                raise self._failure(part, str(error)) from error
            if len(columns[0]) != batch.last_offset - batch.base_offset + 1:
                raise self._failure(part, "it has another number of records than its header says")
            batch.decoded.update(zip(missing, columns, strict=True))

    def _failure(self, part: ColumnPart, why: str) -> CorruptRecordError:
        return CorruptRecordError(self.topic, self.partition, part.first, part.last, why)


def _length(part: ColumnPart) -> int:
    return part.last - part.first + 1 if part.records is None else len(part.records)
