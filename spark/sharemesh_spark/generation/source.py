"""`spark.read.format("sharemesh-state-log")`: the share state log as rows, one record a row.

A Spark partition is a few shards, as a task costs more than a small shard; the rows of a shard come
one behind the other in order of offset, so a fold needs no shuffle.
Options:

- ``path``: the data directory (required);
- ``shard``: read only this shard;
- ``from_offset``, ``to_offset``: only offsets of ``[from_offset, to_offset)``; segments outside
  are not read;
- ``ranges``: the same for each shard: JSON, shard to ``[from, to]``; other shards are left out;
- ``fold``: ``true`` for the folded states instead (the rows of a generation);
- ``prove``: ``all`` to fold every share partition by the domain's rules too, not a sample.

Columns that are not needed need not be made: give ``.schema("offset bigint, kind string")``.
"""

import gc
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from sharemesh.codec.state_record import UnreadableRecordError, decode_record
from sharemesh.domain.share_state.records import SnapshotPart, StateRecord
from sharemesh.domain.share_state.snapshot_parts import SnapshotParts
from sharemesh_spark.generation.generation_files import SPARK_SCHEMA as GENERATION_SCHEMA
from sharemesh_spark.generation.shard_fold import generation_of_shard
from sharemesh_spark.reader.data_directory import (
    Room,
    UnreadableLogError,
    read_shard,
    records,
    shard_bytes,
    shards,
)
from sharemesh_spark.reader.protobuf_columns import BATCH_FIELDS, Batches
from sharemesh_spark.reader.protobuf_templates import ValueTemplates
from sharemesh_spark.reader.shard_windows import windows
from sharemesh_spark.reader.state_columns import (
    KIND_EPOCH_FLOOR,
    KIND_NAMES,
    KIND_SNAPSHOT,
    KIND_UPDATE,
    StateColumns,
)
from sharemesh_spark.reader.varints import Ints

FORMAT = "sharemesh-state-log"
BATCHES_TYPE = (
    "array<struct<first:bigint,last:bigint,state:int,count:int,cause:int,acquired_at_ms:bigint>>"
)
SCHEMA = (
    "shard int, offset bigint, timestamp_ms bigint, kind string, group_id string, "
    "topic_id binary, partition int, snapshot_epoch int, state_epoch int, leader_epoch int, "
    "leader_epoch_max int, start_offset bigint, delivery_complete_count int, "
    "create_timestamp_ms bigint, write_timestamp_ms bigint, cause int, member_id string, "
    f"trace_id binary, span_id binary, batches {BATCHES_TYPE}, changed {BATCHES_TYPE}, "
    "initial_start_offset bigint"
)
_BATCH_FIELDS = [
    pa.field("first", pa.int64()),
    pa.field("last", pa.int64()),
    pa.field("state", pa.int32()),
    pa.field("count", pa.int32()),
    pa.field("cause", pa.int32()),
    pa.field("acquired_at_ms", pa.int64()),
]
_LONG = frozenset({"start_offset", "create_timestamp_ms", "write_timestamp_ms"})


TASK_BYTES_MAX = 256 * 1024 * 1024
"""Shards with more bytes of log together are read by more than one task."""

FOLD_BYTES_MAX = 96 * 1024 * 1024
"""The same of tasks that fold, which takes longer: each writes a file of the generation."""

TASK_BYTES_MIN = 4 * 1024 * 1024
"""With fewer, a task takes longer to start than to read; the cores of the driver count too."""


@dataclass
class SomeShards(InputPartition):
    """Shards that one task reads."""

    shards: tuple[int, ...]


class StateLogReader(DataSourceReader):
    """Reads shards as Arrow batches."""

    def __init__(self, options: dict[str, str], columns: Sequence[str]) -> None:
        if "path" not in options:
            raise UnreadableLogError(f"{FORMAT}: set the option 'path' to the data directory")
        self._data = Path(options["path"])
        self._only = options.get("shard")
        self._from = int(options.get("from_offset", 0))
        self._to = int(options.get("to_offset", 2**63 - 1))
        ranges = json.loads(options["ranges"]) if "ranges" in options else None
        self._ranges: dict[int, list[int]] | None = (
            None if ranges is None else {int(shard): each for shard, each in ranges.items()}
        )
        self._folds = _folds(options)
        self._one_in = 1 if options.get("prove") == "all" else None
        self._columns = list(columns)

    def partitions(self) -> Sequence[InputPartition]:
        """Return what each task reads: shards of about as many bytes for each."""
        wanted = shards(self._data) if self._only is None else [int(self._only)]
        if self._ranges is not None:
            wanted = sorted(self._ranges)
        sizes = {shard: shard_bytes(self._data, shard) for shard in wanted}
        most = FOLD_BYTES_MAX if self._folds else TASK_BYTES_MAX
        return [SomeShards(some) for some in shared_out(sizes, os.cpu_count() or 1, most)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the records of each shard in order of offset, or its folded states."""
        assert isinstance(partition, SomeShards)
        spare_modules()
        room, shapes = Room(), ValueTemplates()
        for shard in partition.shards:
            if self._folds:
                table = generation_of_shard(self._data, shard, one_in=self._one_in, room=room)
                yield from table.select(self._columns).to_batches()
            else:
                yield from self._rows(shard, room, shapes)

    def _rows(self, shard: int, room: Room, shapes: ValueTemplates) -> Iterator[pa.RecordBatch]:
        low, high = self._from, self._to
        if self._ranges is not None:
            low, high = self._ranges[shard]
        image = read_shard(self._data, shard, room)
        for window in windows(image, low, shapes):
            if int(window.places.offset[0]) >= high:
                return
            batch = arrow_rows(shard, window, self._columns)
            if int(window.places.offset[-1]) >= high:
                batch = batch.slice(0, int(np.searchsorted(window.places.offset, high)))
            yield batch


def shared_out(sizes: Mapping[int, int], cores: int, bytes_max: int) -> list[tuple[int, ...]]:
    """Share shards out among tasks so that each has about as many bytes; none is left out.

    Args:
        sizes: Bytes of each shard.
        cores: There are as many tasks as this, or a multiple, unless the log is small.
        bytes_max: What a task should have at most, unless a shard alone has more.
    """
    total = sum(sizes.values())
    rounds = -(-total // (bytes_max * cores))
    count = max(1, min(len(sizes), cores * rounds, max(1, total // TASK_BYTES_MIN)))
    tasks: list[list[int]] = [[] for _ in range(count)]
    bytes_of = [0] * count
    for shard in sorted(sizes, key=lambda shard: -sizes[shard]):
        task = bytes_of.index(min(bytes_of))
        tasks[task].append(shard)
        bytes_of[task] += sizes[shard]
    return [tuple(sorted(task)) for task in tasks if task]


class StateLogSource(DataSource):
    """Registers the format; ``spark.dataSource.register(StateLogSource)``."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return FORMAT

    def schema(self) -> str:
        """Return the columns; batches are inclusive offset ranges."""
        return GENERATION_SCHEMA if _folds(self.options) else SCHEMA

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader for the given options and columns."""
        return StateLogReader(dict(self.options), schema.names)


@cache
def spare_modules() -> None:
    """Keep what a worker has imported out of all further searches for reference cycles.

    Spark's workers search after each task: 50 ms each time for the objects of all modules, which
    live as long as the worker, and half of what a small shard takes (measured).
    """
    gc.freeze()


def _folds(options: Mapping[str, str]) -> bool:
    return str(options.get("fold", "false")).lower() == "true"


def shard_records(data: Path, shard: int) -> Iterator[tuple[int, int, StateRecord]]:
    """Yield (offset, timestamp in ms, record) of a shard, read record by record by the codec.

    Unknown kinds are left out (SC-22). A snapshot in parts comes whole, with its last part.

    Raises:
        UnreadableLogError: Corruption, or a value that is no state record.
    """
    parts = SnapshotParts()
    for raw in records(read_shard(data, shard)):
        try:
            record = decode_record(raw.key, raw.value)
        except UnreadableRecordError as error:
            raise UnreadableLogError(f"shard {shard}, offset {raw.offset}: {error}") from error
        if isinstance(record, SnapshotPart):
            whole = parts.take(record, raw.offset)
            record = None if whole is None else whole[0]
        if record is not None:
            yield raw.offset, raw.timestamp_ms, record


def arrow_rows(shard: int, window: StateColumns, names: Sequence[str]) -> pa.RecordBatch:
    """Return the asked-for columns; those that a kind of record does not have stay null."""
    made = [_COLUMNS[name](shard, window) for name in names]
    return pa.RecordBatch.from_arrays(made, names=list(names))


def _masked(
    values: Ints, window: StateColumns, kinds: Sequence[int], kind: pa.DataType
) -> pa.Array:
    absent = ~np.isin(window.kind, kinds)
    return pa.array(values, mask=absent if absent.any() else None).cast(kind)


_ALL = range(len(KIND_NAMES))
_KEYED = (1, 2, 3)
_STATES = (KIND_SNAPSHOT, KIND_UPDATE)


def _number(name: str, kinds: Sequence[int]) -> Callable[[int, StateColumns], pa.Array]:
    kind = pa.int64() if name in _LONG else pa.int32()
    return lambda _, window: _masked(window.numbers[name], window, kinds, kind)


def _text(name: str, kind: pa.DataType) -> Callable[[int, StateColumns], pa.Array]:
    def made(_: int, window: StateColumns) -> pa.Array:
        return window.text(name).cast(pa.binary()).cast(kind)

    return made


def _batches(batches: Batches) -> pa.Array:
    numbers = (batches.delivery_state, batches.delivery_count, batches.cause)
    inner = pa.StructArray.from_arrays(
        [
            pa.array(batches.first_offset),
            pa.array(batches.last_offset),
            *(pa.array(each.astype(np.int32)) for each in numbers),
            pa.array(batches.acquired_at_ms),
        ],
        fields=_BATCH_FIELDS,
    )
    return pa.ListArray.from_arrays(pa.array(batches.splits.astype(np.int32)), inner)


def _changed(_: int, window: StateColumns) -> pa.Array:
    """Return what each record changed: all of an update, the note of a snapshot."""
    note, own = window.changed, window.batches
    if not len(note.first_offset) and not np.any(window.kind == KIND_SNAPSHOT):
        return _batches(own)
    rows = np.arange(len(window))
    of_note = np.repeat(rows, np.diff(note.splits))
    of_own = np.repeat(rows, np.diff(own.splits))
    keep = window.kind[of_own] == KIND_UPDATE
    group = np.concatenate([of_own[keep], of_note])
    order = np.argsort(group, kind="stable")
    splits = np.concatenate([[0], np.cumsum(np.bincount(group, minlength=len(window)))])
    columns = [
        np.concatenate([getattr(own, name)[keep], getattr(note, name)])[order]
        for name, _ in BATCH_FIELDS
    ]
    return _batches(Batches(splits, *columns))


def _epochs(name: str, kinds: Sequence[int]) -> Callable[[int, StateColumns], pa.Array]:
    """Return the column of an epoch: a floor says it under a name of its own."""

    def made(_: int, window: StateColumns) -> pa.Array:
        floor = window.kind == KIND_EPOCH_FLOOR
        values = np.where(floor, window.numbers[f"{name}_floor"], window.numbers[name])
        return _masked(values, window, (*kinds, KIND_EPOCH_FLOOR), pa.int32())

    return made


def _kinds(_: int, window: StateColumns) -> pa.Array:
    indices = pa.array(window.kind.astype(np.int8))
    names = pa.DictionaryArray.from_arrays(indices, pa.array(KIND_NAMES))
    return names.cast(pa.string())


_COLUMNS: dict[str, Callable[[int, StateColumns], pa.Array]] = {
    "shard": lambda shard, window: pa.array(np.full(len(window), shard, dtype=np.int32)),
    "offset": lambda _, window: pa.array(window.places.offset),
    "timestamp_ms": lambda _, window: pa.array(window.places.timestamp_ms),
    "kind": _kinds,
    "group_id": _text("group_id", pa.string()),
    "topic_id": _text("topic_id", pa.binary()),
    "partition": _number("partition", _KEYED),
    "snapshot_epoch": _number("snapshot_epoch", _STATES),
    "state_epoch": _epochs("state_epoch", _KEYED),
    "leader_epoch": _epochs("leader_epoch", _STATES),
    "leader_epoch_max": _number("leader_epoch_max", (1, 3)),
    "start_offset": _number("start_offset", _STATES),
    "delivery_complete_count": _number("delivery_complete_count", _STATES),
    "create_timestamp_ms": _number("create_timestamp_ms", (KIND_SNAPSHOT,)),
    "write_timestamp_ms": _number("write_timestamp_ms", _ALL),
    "cause": _number("cause", _KEYED),
    "member_id": _text("member_id", pa.string()),
    "trace_id": _text("trace_id", pa.binary()),
    "span_id": _text("span_id", pa.binary()),
    "batches": lambda _, window: _batches(window.batches),
    "changed": _changed,
    "initial_start_offset": lambda _, window: _masked(
        window.numbers["initial_start_offset"], window, (KIND_SNAPSHOT,), pa.int64()
    ),
}
