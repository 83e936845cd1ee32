"""`spark.read.format("sharemesh-state-log")`: the share state log as rows, one record a row.

One Spark partition is one shard, and its rows come in order of offset: a fold needs no shuffle.
Options: ``path``, the data directory; ``shard``, to read only one.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from sharemesh.codec.state_record import UnreadableRecordError, decode_record
from sharemesh.domain.share_state.records import (
    EpochFloor,
    Generation,
    Snapshot,
    StateRecord,
    Tombstone,
    Update,
)
from sharemesh.domain.state_batch import StateBatch
from sharemesh_spark.data_directory import UnreadableLogError, read_shard, records, shards

FORMAT = "sharemesh-state-log"
ROWS_PER_BATCH = 8_192
BATCHES_TYPE = "array<struct<first:bigint,last:bigint,state:int,count:int,cause:int>>"
SCHEMA = (
    "shard int, offset bigint, timestamp_ms bigint, kind string, group_id string, "
    "topic_id binary, partition int, snapshot_epoch int, state_epoch int, leader_epoch int, "
    "leader_epoch_max int, start_offset bigint, delivery_complete_count int, "
    "create_timestamp_ms bigint, write_timestamp_ms bigint, cause int, member_id string, "
    f"trace_id binary, span_id binary, batches {BATCHES_TYPE}, changed {BATCHES_TYPE}, "
    "initial_start_offset bigint"
)
_BATCH_ARROW = pa.struct(
    [
        ("first", pa.int64()),
        ("last", pa.int64()),
        ("state", pa.int32()),
        ("count", pa.int32()),
        ("cause", pa.int32()),
    ]
)
ARROW_SCHEMA = pa.schema(
    [
        ("shard", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp_ms", pa.int64()),
        ("kind", pa.string()),
        ("group_id", pa.string()),
        ("topic_id", pa.binary()),
        ("partition", pa.int32()),
        ("snapshot_epoch", pa.int32()),
        ("state_epoch", pa.int32()),
        ("leader_epoch", pa.int32()),
        ("leader_epoch_max", pa.int32()),
        ("start_offset", pa.int64()),
        ("delivery_complete_count", pa.int32()),
        ("create_timestamp_ms", pa.int64()),
        ("write_timestamp_ms", pa.int64()),
        ("cause", pa.int32()),
        ("member_id", pa.string()),
        ("trace_id", pa.binary()),
        ("span_id", pa.binary()),
        ("batches", pa.list_(_BATCH_ARROW)),
        ("changed", pa.list_(_BATCH_ARROW)),
        ("initial_start_offset", pa.int64()),
    ]
)


@dataclass
class ShardPartition(InputPartition):
    """One shard to read."""

    shard: int


class StateLogReader(DataSourceReader):
    """Reads shards as Arrow batches."""

    def __init__(self, options: dict[str, str]) -> None:
        if "path" not in options:
            raise UnreadableLogError(f"{FORMAT}: set the option 'path' to the data directory")
        self._data = Path(options["path"])
        self._only = options.get("shard")

    def partitions(self) -> Sequence[InputPartition]:
        """Return one partition a shard."""
        wanted = shards(self._data) if self._only is None else [int(self._only)]
        return [ShardPartition(shard) for shard in wanted]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the records of a shard in order of offset."""
        assert isinstance(partition, ShardPartition)
        rows: list[dict[str, Any]] = []
        for record in shard_records(self._data, partition.shard):
            rows.append(row_of(partition.shard, *record))
            if len(rows) >= ROWS_PER_BATCH:
                yield pa.RecordBatch.from_pylist(rows, schema=ARROW_SCHEMA)
                rows = []
        if rows:
            yield pa.RecordBatch.from_pylist(rows, schema=ARROW_SCHEMA)


class StateLogSource(DataSource):
    """Registers the format; ``spark.dataSource.register(StateLogSource)``."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return FORMAT

    def schema(self) -> str:
        """Return the columns; batches are inclusive offset ranges."""
        return SCHEMA

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader for the given options."""
        return StateLogReader(dict(self.options))


def shard_records(data: Path, shard: int) -> Iterator[tuple[int, int, StateRecord]]:
    """Yield (offset, timestamp in ms, record) of a shard; unknown kinds are left out (SC-22).

    Raises:
        UnreadableLogError: Corruption, or a value that is no state record.
    """
    for raw in records(read_shard(data, shard)):
        try:
            record = decode_record(raw.key, raw.value)
        except UnreadableRecordError as error:
            raise UnreadableLogError(f"shard {shard}, offset {raw.offset}: {error}") from error
        if record is not None:
            yield raw.offset, raw.timestamp_ms, record


def row_of(shard: int, offset: int, timestamp_ms: int, record: StateRecord) -> dict[str, Any]:
    """Return one row; columns that a kind does not have stay null."""
    row: dict[str, Any] = {
        "shard": shard,
        "offset": offset,
        "timestamp_ms": timestamp_ms,
        "kind": type(record).__name__.lower(),
        "write_timestamp_ms": record.write_timestamp_ms,
    }
    match record:
        case Snapshot() | Update() | Tombstone():
            _put_key_and_origin(row, record)
        case EpochFloor():
            row |= {"state_epoch": record.state_epoch, "leader_epoch": record.leader_epoch}
        case Generation():
            row |= {"start_offset": record.end_offset}
    if isinstance(record, Snapshot | Update):
        row |= {
            "snapshot_epoch": record.snapshot_epoch,
            "leader_epoch": record.leader_epoch,
            "start_offset": record.start_offset,
            "delivery_complete_count": record.delivery_complete_count,
            "batches": _batches(record.batches),
            "changed": _batches(record.batches if isinstance(record, Update) else record.changed),
        }
    if isinstance(record, Snapshot):
        row |= {
            "leader_epoch_max": record.leader_epoch_max,
            "create_timestamp_ms": record.create_timestamp_ms,
            "initial_start_offset": record.initial_start_offset,
        }
    if isinstance(record, Tombstone):
        row |= {"leader_epoch_max": record.leader_epoch_max}
    return row


def _batches(batches: tuple[StateBatch, ...]) -> list[dict[str, int]]:
    return [
        {
            "first": batch.first_offset,
            "last": batch.last_offset,
            "state": int(batch.delivery_state),
            "count": batch.delivery_count,
            "cause": int(batch.cause),
        }
        for batch in batches
    ]


def _put_key_and_origin(row: dict[str, Any], record: Snapshot | Update | Tombstone) -> None:
    row |= {
        "group_id": record.key.group_id,
        "topic_id": record.key.topic_id,
        "partition": record.key.partition,
        "state_epoch": record.state_epoch,
        "cause": int(record.origin.cause),
        "member_id": record.origin.member_id,
        "trace_id": record.origin.trace_id,
        "span_id": record.origin.span_id,
    }
