"""Compaction: the folded state of every shard as a generation, Parquet and a manifest.

The proof is part of every run: the Parquet that was written is read back, and in it the states of
a sample of share partitions (all of them in a small log) must be, hash for hash, what the
coordinator's own fold makes of the previous generation and the log's records since.
"""

import shutil
from pathlib import Path

import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from sharemesh_spark.fold.reference_fold import DomainFold
from sharemesh_spark.generation.commit import UNFINISHED
from sharemesh_spark.generation.generation_files import (
    FOLDER,
    FORMAT_VERSION,
    Manifest,
    ShardContent,
    ShardManifest,
    shard_content,
    sync,
    write_manifest,
)
from sharemesh_spark.generation.source import FORMAT, StateLogSource, shard_records
from sharemesh_spark.reader.data_directory import UnreadableLogError, cluster_file, shards


class NotProvenError(Exception):
    """The generation does not fold to what the log folds to; it was not published."""


def compact(
    spark: SparkSession, data: Path, *, generation_id: str, prove_all: bool = False
) -> Manifest:
    """Write, prove and publish a generation under ``<data>/generations/<id>``.

    With ``prove_all`` every state of a large log is proven too, so that the whole content is
    what the domain's fold makes of it, hash for hash; it takes about ten times as long.

    The folder gets its name last, by a rename: without it there is no generation.

    Raises:
        NotProvenError: The written generation differs from the log's fold.
        UnreadableLogError: The log is corrupt, or the id is taken.
    """
    target = data / FOLDER / generation_id
    if target.exists():
        raise UnreadableLogError(f"generation {generation_id} exists in {target.parent}")
    spark.dataSource.register(StateLogSource)
    source = spark.read.format(FORMAT).option("path", str(data)).option("fold", "true")
    if prove_all:
        source = source.option("prove", "all")
    scratch = target.with_name(f"{generation_id}{UNFINISHED}")
    shutil.rmtree(scratch, ignore_errors=True)
    source.load().write.parquet(str(scratch))
    return publish(data, scratch, generation_id)


def publish(data: Path, scratch: Path, generation_id: str) -> Manifest:
    """Prove what was written to ``scratch`` and give it its name.

    Raises:
        NotProvenError: The written generation differs from the log's fold.
    """
    manifest = Manifest(
        format_version=FORMAT_VERSION,
        generation_id=generation_id,
        cluster_id=cluster_file(data).cluster_id,
        shards=prove(data, scratch),
        parquet_bytes=sum(path.stat().st_size for path in scratch.glob("*.parquet")),
    )
    write_manifest(scratch, manifest)
    target = data / FOLDER / generation_id
    scratch.rename(target)
    sync(target.parent)
    return manifest


def prove(data: Path, generation: Path) -> tuple[ShardManifest, ...]:
    """Read a generation back and compare what is proven in it; return what the manifest says.

    Raises:
        NotProvenError: A state differs, or a shard is missing; the message names the shard.
    """
    found: dict[int, ShardManifest] = {}
    for path in sorted(generation.glob("*.parquet")):
        table = pq.ParquetFile(path).read()
        for shard in sorted(table.column("shard").unique().to_pylist()):
            if shard in found:
                raise NotProvenError(f"shard {shard} is in two files of {generation.name}")
            found[shard] = _proven(shard, shard_content(table, shard), path.name)
    missing = sorted(set(shards(data)) - set(found))
    if missing:
        raise NotProvenError(f"shards {missing} are not in generation {generation.name}")
    return tuple(found[shard] for shard in sorted(found))


def _proven(shard: int, content: ShardContent, file: str) -> ShardManifest:
    about = content.about
    return ShardManifest(
        shard=shard,
        end_offset=about["end_offset"],
        records=about["records"],
        share_partitions=len(content.names),
        log_bytes=about["log_bytes"],
        content_hash=content.hash().hex(),
        previous_generation_id=about["previous_generation_id"],
        proven=_check_proofs(shard, content),
        files=(file,),
    )


def _check_proofs(shard: int, content: ShardContent) -> int:
    """Return how many states were compared with the domain's fold."""
    compared = 0
    for row, proof in enumerate(content.proofs):
        if proof is None:
            continue
        written = content.hash_of(row)
        if written != proof:
            raise NotProvenError(
                f"shard {shard}: the state of {content.names[row].decode()} in the generation "
                f"(hash {written.hex()[:16]}) is not that of the log's fold "
                f"({proof.hex()[:16] or 'deleted'}), at end offset "
                f"{content.about['end_offset']}; the generation was not published"
            )
        compared += 1
    return compared


def fold_of_log(data: Path, shard: int, end_offset: int) -> DomainFold:
    """Return the domain's fold of a shard's records below ``end_offset``, without Spark."""
    folded = DomainFold()
    for offset, _, record in shard_records(data, shard):
        if offset >= end_offset:
            break
        folded.add(offset, record)
    return folded
