"""Compaction: the folded state of every shard as a generation, Parquet and a manifest.

The proof is part of every run: the Parquet that was written is read back and must be, hash for
hash, what the coordinator's own fold makes of the log, read again record by record.
"""

import json
import shutil
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from sharemesh.domain.share_state.content_hash import content_hash
from sharemesh_spark.data_directory import UnreadableLogError, cluster_file, read_shard, shards
from sharemesh_spark.folding import GENERATION_SCHEMA, ShardFold, fold_rows, states_of
from sharemesh_spark.source import FORMAT, StateLogSource, shard_records

GENERATION_FORMAT = 1
MANIFEST = "manifest.json"
GENERATIONS_FOLDER = "generations"


class NotProvenError(Exception):
    """The generation does not fold to what the log folds to; it was removed again."""


@dataclass(frozen=True, slots=True)
class ShardManifest:
    """One shard of a generation; ``end_offset`` is exclusive, the hash hexadecimal."""

    shard: int
    end_offset: int
    records: int
    share_partitions: int
    log_bytes: int
    content_hash: str


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


def compact(spark: SparkSession, data: Path, *, generation_id: str) -> Manifest:
    """Write, prove and publish a generation under ``<data>/generations/<id>``.

    The manifest is written last, by a rename: without it there is no generation.

    Raises:
        NotProvenError: The written generation differs from the log's fold.
        UnreadableLogError: The log is corrupt, or the id is taken.
    """
    target = data / GENERATIONS_FOLDER / generation_id
    if target.exists():
        raise UnreadableLogError(f"generation {generation_id} exists in {target.parent}")
    spark.dataSource.register(StateLogSource)
    rows = spark.read.format(FORMAT).option("path", str(data)).load()
    scratch = target.with_name(f"{generation_id}.new")
    shutil.rmtree(scratch, ignore_errors=True)
    rows.mapInArrow(_fold, GENERATION_SCHEMA).write.parquet(str(scratch))
    manifests = prove(data, scratch)
    manifest = Manifest(
        format_version=GENERATION_FORMAT,
        generation_id=generation_id,
        cluster_id=cluster_file(data).cluster_id,
        shards=manifests,
        parquet_bytes=sum(path.stat().st_size for path in scratch.glob("*.parquet")),
    )
    (scratch / MANIFEST).write_text(json.dumps(asdict(manifest), indent=1))
    scratch.rename(target)
    return manifest


def _fold(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    return fold_rows(batches)


def prove(data: Path, generation: Path) -> tuple[ShardManifest, ...]:
    """Compare a generation with the fold of the log up to the same end offsets.

    Raises:
        NotProvenError: They differ; the message names the shard.
    """
    by_shard = _rows_by_shard(generation)
    manifests = []
    for shard in shards(data):
        rows = by_shard.get(shard, [])
        ends = [row["end_offset"] for row in rows if row["kind"] == "floors"]
        end_offset = ends[0] if ends else 0
        folded = fold_of_log(data, shard, end_offset)
        states, floors = states_of(rows)
        written = content_hash(states, floors)
        expected = content_hash(folded.states, folded.floors)
        if written != expected:
            raise NotProvenError(
                f"shard {shard}: the generation's hash {written.hex()[:16]} is not that of the "
                f"log's fold, {expected.hex()[:16]}, at end offset {end_offset}; "
                "the generation was not published"
            )
        manifests.append(
            ShardManifest(
                shard=shard,
                end_offset=end_offset,
                records=folded.records,
                share_partitions=len(states),
                log_bytes=read_shard(data, shard).size_bytes,
                content_hash=written.hex(),
            )
        )
    return tuple(manifests)


def fold_of_log(data: Path, shard: int, end_offset: int) -> ShardFold:
    """Return the domain's fold of a shard's records below ``end_offset``, without Spark."""
    folded = ShardFold()
    for offset, _, record in shard_records(data, shard):
        if offset >= end_offset:
            break
        folded.add(offset, record)
    return folded


def _rows_by_shard(generation: Path) -> dict[int, list[dict[str, Any]]]:
    by_shard: dict[int, list[dict[str, Any]]] = {}
    for path in sorted(generation.glob("*.parquet")):
        for row in pq.read_table(path).to_pylist():
            by_shard.setdefault(row["shard"], []).append(row)
    return by_shard
