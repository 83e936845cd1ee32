"""The files of a generation of the share state log: their names, manifest and Parquet (LOG-19).

::

    generations/<id>.new/            being written; no generation
    generations/<id>/manifest.json   counts, end offsets, hashes, previous generation, files
    generations/<id>/part-*.parquet  one row a share partition, one row of floors a shard
    generations/<id>/COMMITTED       a hint for readers; the log's pointer record decides

Spark writes them, share coordinators load them. PyArrow is imported by the functions that need it:
a coordinator that loads no generation does without its memory.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, fields
from functools import cache
from itertools import repeat
from typing import TYPE_CHECKING, Any, Literal

from sharemesh.domain.delivery_state import Cause, DeliveryState
from sharemesh.domain.ids import GroupId, SharePartitionKey, TopicId
from sharemesh.domain.packed_batches import packed
from sharemesh.domain.share_state.fold import NUMBERS, Floors, ShareState
from sharemesh.domain.state_batch import StateBatch

if TYPE_CHECKING:
    import pyarrow as pa

FORMAT_VERSION = 1
FOLDER = "generations"
MANIFEST = "manifest.json"
COMMITTED = "COMMITTED"

BATCH_COLUMNS = (
    ("first", "bigint"),
    ("last", "bigint"),
    ("state", "int"),
    ("count", "int"),
    ("not_before", "bigint"),
)
COLUMNS = (
    ("shard", "int"),
    ("kind", "string"),  # state, or floors: one row a shard
    ("group_id", "string"),
    ("topic_id", "binary"),
    ("partition", "int"),
    ("snapshot_epoch", "int"),
    ("state_epoch", "int"),
    ("leader_epoch", "int"),
    ("leader_epoch_max", "int"),
    ("start_offset", "bigint"),
    ("delivery_complete_count", "int"),
    ("create_timestamp_ms", "bigint"),
    ("write_timestamp_ms", "bigint"),
    ("batches", "batches"),  # a list of BATCH_COLUMNS
    ("initial_start_offset", "bigint"),
    ("proof", "binary"),  # the hash of the domain's fold, of share partitions in the sample
    # Of the shard, on the row of the floors:
    ("end_offset", "bigint"),  # exclusive
    ("records", "bigint"),
    ("log_bytes", "bigint"),
    ("previous_generation_id", "string"),
    ("task_ms", "bigint"),
    ("task_peak_bytes", "bigint"),
)
"""Names and types, these as Spark's SQL has them; but for ``batches``."""

States = dict[SharePartitionKey, ShareState]

_OLD_COLUMNS = ("first", "last", "state", "count")
_NOT_BEFORE = "not_before"  # generations of older versions have none (RTY-9)
_UNSPECIFIED = Cause.UNSPECIFIED
_STATES_BY_NUMBER = {int(state): state for state in DeliveryState}
_KEY = ("group_id", "topic_id", "partition")


class GenerationFormatError(ValueError):
    """A manifest has another form, or another format version."""


@dataclass(frozen=True, slots=True)
class ShardManifest:
    """One shard of a generation; ``end_offset`` is exclusive, the hash hexadecimal."""

    shard: int
    end_offset: int
    records: int
    share_partitions: int
    log_bytes: int
    content_hash: str
    previous_generation_id: str = ""
    proven: int = 0
    files: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Manifest:
    """What stands beside the Parquet files of a generation."""

    format_version: int
    generation_id: str
    cluster_id: str
    shards: tuple[ShardManifest, ...]
    parquet_bytes: int

    @property
    def records(self) -> int:
        """Records of the log that were folded."""
        return sum(shard.records for shard in self.shards)

    @property
    def share_partitions(self) -> int:
        """Share partitions that live."""
        return sum(shard.share_partitions for shard in self.shards)

    @property
    def log_bytes(self) -> int:
        """Bytes of the log that was read."""
        return sum(shard.log_bytes for shard in self.shards)

    def of_shard(self, shard: int) -> ShardManifest:
        """Return one shard.

        Raises:
            GenerationFormatError: The manifest does not have it exactly once.
        """
        found = [each for each in self.shards if each.shard == shard]
        if len(found) != 1:
            raise GenerationFormatError(f"shard {shard} is in the manifest {len(found)} times")
        return found[0]


def encode_manifest(manifest: Manifest) -> str:
    """Return the text of a manifest."""
    return json.dumps(asdict(manifest), indent=1)


def decode_manifest(data: bytes) -> Manifest:
    """Return a manifest; fields of a later release are left out.

    Raises:
        GenerationFormatError: It has another form, or another format version.
    """
    try:
        value: dict[str, Any] = json.loads(data)
        version = value["format_version"]
        if version == FORMAT_VERSION:
            return _manifest_of(value)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise GenerationFormatError(f"not a manifest of a generation: {error!r}") from error
    raise GenerationFormatError(f"format {version} is not {FORMAT_VERSION}")


def _manifest_of(value: dict[str, Any]) -> Manifest:
    shards = tuple(
        ShardManifest(**{**_known(ShardManifest, each), "files": tuple(each.get("files", ()))})
        for each in value["shards"]
    )
    return Manifest(**{**_known(Manifest, value), "shards": shards})


def _known(record: type[Manifest | ShardManifest], value: dict[str, Any]) -> dict[str, Any]:
    names = {each.name for each in fields(record)}
    return {name: each for name, each in value.items() if name in names}


@cache
def arrow_schema() -> "pa.Schema":
    """Return the schema of the Parquet files."""
    import pyarrow as pa

    types = {
        "int": pa.int32(),
        "bigint": pa.int64(),
        "string": pa.string(),
        "binary": pa.binary(),
    }
    types["batches"] = pa.list_(pa.struct([(name, types[kind]) for name, kind in BATCH_COLUMNS]))
    return pa.schema([(name, types[kind]) for name, kind in COLUMNS])


def decode_parts(parts: Iterable[bytes], shard: int) -> tuple[States, Floors]:
    """Return what Parquet files hold of a shard; see ``shard_states``."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    tables = [pq.ParquetFile(pa.BufferReader(data)).read() for data in parts]
    return shard_states(pa.concat_tables(tables), shard)


def shard_states(table: "pa.Table", shard: int) -> tuple[States, Floors]:
    """Return states and floors of one shard from rows of a generation.

    Raises:
        ValueError: A state batch has a field without a value.
        KeyError: A column is missing, or a delivery state is none.
    """
    import pyarrow.compute as pc

    own = table.filter(pc.equal(table["shard"], shard))
    is_state = pc.equal(own["kind"], "state")
    floors = Floors()
    for row in own.filter(pc.invert(is_state)).to_pylist():
        floors = Floors(row["state_epoch"], row["leader_epoch"])
    return dict(_states(own.filter(is_state).combine_chunks())), floors


def _states(table: "pa.Table") -> Iterator[tuple[SharePartitionKey, ShareState]]:
    """Yield the states of a table, column by column: row by row takes five times as long."""
    keys = zip(*(table[name].to_pylist() for name in _KEY), strict=True)
    numbers = zip(*(table[name].to_pylist() for name in NUMBERS), strict=True)
    splits, batches = _batches(table)
    for row, ((group_id, topic_id, partition), values) in enumerate(
        zip(keys, numbers, strict=True)
    ):
        state = ShareState(
            batches=packed(batches[splits[row] : splits[row + 1]]),
            **dict(zip(NUMBERS, values, strict=True)),
        )
        yield SharePartitionKey(GroupId(group_id), TopicId(topic_id), partition), state


def _batches(table: "pa.Table") -> tuple[list[int], list[StateBatch]]:
    """Return all batches of a table, and where those of each row begin."""
    splits = [0]
    made: list[StateBatch] = []
    later: Iterable[int]
    for chunk in table["batches"].chunks:
        base = splits[-1] - chunk.offsets[0].as_py() if len(chunk) else 0
        splits += [base + offset for offset in chunk.offsets.to_pylist()[1:]]
        columns = chunk.flatten()
        names = [field.name for field in columns.type]
        first, last, number, count = (_integers(columns.field(name)) for name in _OLD_COLUMNS)
        states = map(_STATES_BY_NUMBER.__getitem__, number)
        later = repeat(0)
        if _NOT_BEFORE in names:
            later = _integers(columns.field(_NOT_BEFORE).fill_null(0))
        notes = repeat(_UNSPECIFIED)
        rows = zip(first, last, states, count, notes, later, repeat(0))  # no times (EXP-9)
        made += map(StateBatch._make, rows)
    return splits, made


def _integers(column: "pa.Array") -> list[int]:
    """Return the values of an Arrow array of integers without nulls, straight out of its buffer."""
    if column.null_count:
        raise ValueError("a state batch has a field without a value")
    if not len(column):
        return []
    kind: Literal["i", "q"] = "q" if column.type.bit_width == 64 else "i"
    values = memoryview(column.buffers()[1]).cast("B").cast(kind)
    return list(values[column.offset : column.offset + len(column)])
