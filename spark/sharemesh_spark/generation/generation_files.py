"""Generations on disk in columns: written, read back, and marked as committed (LOG-19).

The format of the files is that of ``sharemesh.codec.generation``.
"""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from sharemesh.codec.generation import (
    BATCH_COLUMNS,
    COLUMNS,
    COMMITTED,
    FOLDER,
    MANIFEST,
    GenerationFormatError,
    Manifest,
    arrow_schema,
    decode_manifest,
    encode_manifest,
)
from sharemesh.domain.ids import GroupId, SharePartitionKey, TopicId, format_key, parse_key
from sharemesh.domain.share_state.fold import (
    BATCH_FIELDS,
    DELAYED_BATCH_FIELDS,
    Floors,
    packed_hash,
)
from sharemesh.domain.share_state.fold import NUMBERS as HASHED_NUMBERS
from sharemesh_spark.fold.combine_numpy import Runs
from sharemesh_spark.fold.vector_fold import FoldRows
from sharemesh_spark.reader.data_directory import UnreadableLogError
from sharemesh_spark.reader.state_columns import KIND_SNAPSHOT

_BATCHES = f"array<struct<{','.join(f'{name}:{kind}' for name, kind in BATCH_COLUMNS)}>>"
SPARK_SCHEMA = ", ".join(
    f"{name} {_BATCHES if kind == 'batches' else kind}" for name, kind in COLUMNS
)


@dataclass(frozen=True, slots=True)
class BaseShard:
    """One shard of a generation to fold on from; ``rows.key`` counts ``names`` (key texts)."""

    generation_id: str
    end_offset: int
    names: tuple[bytes, ...]
    rows: FoldRows
    floors: Floors


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Write the manifest and make everything in the folder durable."""
    (folder / MANIFEST).write_text(encode_manifest(manifest))
    for path in (*folder.iterdir(), folder):
        sync(path)


def read_manifest(data: Path, generation_id: str) -> Manifest:
    """Return the manifest of a generation.

    Raises:
        UnreadableLogError: There is none, or it is of another format.
    """
    path = data / FOLDER / generation_id / MANIFEST
    try:
        return decode_manifest(path.read_bytes())
    except (OSError, GenerationFormatError) as error:
        raise UnreadableLogError(
            f"generation {generation_id} cannot be read ({path}: {error}); restore it from a backup"
        ) from error


def mark_committed(data: Path, generation_id: str) -> None:
    """Leave the hint that readers start from."""
    path = data / FOLDER / generation_id / COMMITTED
    path.touch()
    sync(path)
    sync(path.parent)


def hinted_generation(data: Path) -> str:
    """Return the newest generation that carries the hint, "" if none does."""
    found = [path.parent.name for path in (data / FOLDER).glob(f"*/{COMMITTED}")]
    return max(found, default="")


def read_base(data: Path, generation_id: str, shard: int) -> BaseShard:
    """Return one shard of a generation.

    Raises:
        UnreadableLogError: Files are missing, or do not hold the shard.
    """
    manifest = read_manifest(data, generation_id)
    folder = data / FOLDER / generation_id
    try:
        files = manifest.of_shard(shard).files
        tables = [pq.read_table(folder / name, schema=arrow_schema()) for name in files]
        content = shard_content(pa.concat_tables(tables), shard)
    except (OSError, ValueError, pa.ArrowException) as error:
        raise UnreadableLogError(
            f"generation {generation_id} cannot be read for shard {shard} ({error})"
        ) from error
    end_offset = content.about["end_offset"]
    return BaseShard(generation_id, end_offset, content.names, content.rows, content.floors)


@dataclass(frozen=True, slots=True)
class ShardContent:
    """What a generation holds of one shard, in columns.

    Attributes:
        names: Key texts, one a state.
        rows: The states; ``rows.key`` counts ``names``.
        proofs: Hashes of the domain's fold, one a state, None outside the sample.
        floors: Of the shard.
        about: The row of the floors.
    """

    names: tuple[bytes, ...]
    rows: FoldRows
    proofs: list[bytes | None]
    floors: Floors
    about: dict[str, Any]

    def hash(self) -> bytes:
        """Return the content hash."""
        return packed_hash(self._packed(range(len(self.names))), self.floors)

    def hash_of(self, row: int) -> bytes:
        """Return the hash of one state alone, as proofs are made."""
        return packed_hash(self._packed(range(row, row + 1)), Floors())

    def _packed(self, chosen: range) -> Iterator[tuple[str, Sequence[int], bytes, bool]]:
        runs, numbers = self.rows.runs, self.rows.numbers
        splits = np.searchsorted(runs.group, np.arange(chosen.start, chosen.stop + 1))
        low, high = int(splits[0]), int(splits[-1])
        packed = _table_of(runs, low, high, _PACKED).tobytes()
        delayed = np.zeros(len(chosen), dtype=bool)
        delayed[runs.group[low:high][runs.not_before[low:high] > 0] - chosen.start] = True
        at = ((splits - low) * _PACKED.itemsize).tolist()
        some = slice(chosen.start, chosen.stop)
        columns = zip(*(numbers[name][some].tolist() for name in HASHED_NUMBERS), strict=True)
        for place, (name, values) in enumerate(zip(self.names[some], columns, strict=True)):
            if delayed[place]:
                table = _table_of(runs, int(splits[place]), int(splits[place + 1]), _PACKED_DELAYED)
                yield name.decode(), values, table.tobytes(), True
            else:
                yield name.decode(), values, packed[at[place] : at[place + 1]], False


def _packed_type(fields: Sequence[str]) -> "np.dtype[np.void]":
    sizes = {"q": 8, "i": 4}
    return np.dtype([(f"f{place}", f">i{sizes[field]}") for place, field in enumerate(fields)])


_PACKED = _packed_type(BATCH_FIELDS)
_PACKED_DELAYED = _packed_type(DELAYED_BATCH_FIELDS)


def _table_of(runs: Runs, low: int, high: int, packed: "np.dtype[np.void]") -> np.ndarray[Any, Any]:
    """Return the batches ``low`` to ``high``, exclusive, as they are hashed."""
    table = np.empty(high - low, dtype=packed)
    fields = (runs.first, runs.last, runs.state, runs.count, runs.not_before)
    for field, column in zip(packed.names or (), fields, strict=False):
        table[field] = column[low:high]
    return table


def shard_content(table: pa.Table, shard: int) -> ShardContent:
    """Return one shard of the rows of a generation.

    Raises:
        ValueError: The shard has not exactly one row of floors.
    """
    own = table.filter(pa.compute.field("shard") == shard)
    [about] = own.filter(pa.compute.field("kind") == "floors").to_pylist()
    states = own.filter(pa.compute.field("kind") == "state").combine_chunks()
    names = tuple(
        format_key(SharePartitionKey(GroupId(group), TopicId(topic), partition)).encode()
        for group, topic, partition in zip(
            *(states.column(name).to_pylist() for name in ("group_id", "topic_id", "partition")),
            strict=True,
        )
    )
    floors = Floors(about["state_epoch"], about["leader_epoch"])
    proofs = states.column("proof").to_pylist()
    return ShardContent(names, _rows(states), proofs, floors, about)


def _rows(states: pa.Table) -> FoldRows:
    count = states.num_rows
    numbers = {name: states.column(name).to_numpy().astype(np.int64) for name in HASHED_NUMBERS}
    numbers["kind"] = np.full(count, KIND_SNAPSHOT, dtype=np.int64)
    lists = states.column("batches").combine_chunks()
    if isinstance(lists, pa.ChunkedArray):
        lists = pa.concat_arrays(lists.chunks) if lists.num_chunks else pa.array([], lists.type)
    inner = lists.flatten()
    group = np.repeat(np.arange(count), lists.value_lengths().to_numpy(zero_copy_only=False))
    found = [inner.field(name) for name, _ in BATCH_COLUMNS]
    found[-1] = found[-1].fill_null(0)  # generations of older versions have no not-before (RTY-9)
    columns = [each.to_numpy(zero_copy_only=False).astype(np.int64) for each in found]
    return FoldRows(np.arange(count), numbers, Runs(group, *columns))


def state_batch_of(
    shard: int, names: list[bytes], rows: FoldRows, proofs: list[Any]
) -> pa.RecordBatch:
    """Return states as rows of a generation; ``names`` and ``proofs`` are one a row."""
    keys = [parse_key(name.decode()) for name in names]
    count = len(rows)
    runs = rows.runs
    splits = np.searchsorted(runs.group, np.arange(count + 1)).astype(np.int32)
    inner = pa.StructArray.from_arrays(
        [
            pa.array(runs.first),
            pa.array(runs.last),
            pa.array(runs.state.astype(np.int32)),
            pa.array(runs.count.astype(np.int32)),
            pa.array(runs.not_before),
        ],
        fields=list(arrow_schema().field("batches").type.value_type),
    )
    columns: dict[str, Any] = {
        "shard": pa.array([shard] * count, pa.int32()),
        "kind": pa.array(["state"] * count),
        "group_id": pa.array([key.group_id for key in keys], pa.string()),
        "topic_id": pa.array([key.topic_id for key in keys], pa.binary()),
        "partition": pa.array([key.partition for key in keys], pa.int32()),
        "batches": pa.ListArray.from_arrays(pa.array(splits), inner),
        "proof": pa.array(proofs, pa.binary()),
    }
    arrays = []
    for field in arrow_schema():
        if field.name in columns:
            arrays.append(columns[field.name])
        elif field.name in rows.numbers:
            arrays.append(pa.array(rows.numbers[field.name]).cast(field.type))
        else:
            arrays.append(pa.nulls(count, field.type))
    return pa.RecordBatch.from_arrays(arrays, schema=arrow_schema())


def sync(path: Path) -> None:
    """Return once a file's bytes, or a directory's names, would survive a power cut."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
