"""Compaction: the folded state of every shard as a generation, proven, published and committed.

The proof is part of every run: the Parquet that was written is read back, and in it the states of
a sample of share partitions (all of them in a small log) must be, hash for hash, what the
coordinator's own fold makes of the previous generation and the log's records since.
"""

import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from sharemesh.codec.generation import (
    FOLDER,
    FORMAT_VERSION,
    MANIFEST,
    Manifest,
    ShardManifest,
)
from sharemesh_spark.cluster_calls import Request, Response
from sharemesh_spark.generation.generation_files import (
    ShardContent,
    mark_committed,
    shard_content,
    sync,
    write_manifest,
)
from sharemesh_spark.generation.source import FORMAT, StateLogSource
from sharemesh_spark.reader.data_directory import UnreadableLogError, cluster_file, shards

UNFINISHED = ".new"
"""How the names of folders end that are being written."""

LEFT_AFTER_S = 24 * 60 * 60
"""A folder in which nothing changed for this long belongs to no run that is still at work."""

Commit = Callable[[Request], Response]


class NotProvenError(Exception):
    """The generation does not fold to what the log folds to; it was not published."""


class NotCommittedError(Exception):
    """A coordinator refused the generation; the older one stays valid in its shard."""


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
    """Verify the generation in ``scratch`` and rename it to its final name.

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


def commit(
    data: Path, manifest: Manifest, ask: Commit, *, history: Mapping[int, int] | None = None
) -> list[int]:
    """Commit every shard that holds anything, in order, and return which ones those are.

    The first shard decides between two jobs at once: the second one is refused there and stops,
    so that generations do not interleave.

    Args:
        data: The data directory.
        manifest: Of a generation that is published and proven.
        ask: Sends a request to the coordinator of its shard.
        history: How far the history table has come, by shard; shards left out have none.

    Raises:
        NotCommittedError: The message says what the coordinator said.
    """
    done: list[int] = []
    for shard in manifest.shards:
        if shard.end_offset == 0:
            continue
        request = Request(
            shard=shard.shard,
            generation_id=manifest.generation_id,
            previous_generation_id=shard.previous_generation_id,
            end_offset=shard.end_offset,
            path=f"{FOLDER}/{manifest.generation_id}/{MANIFEST}",
            content_hash=bytes.fromhex(shard.content_hash),
            format_version=manifest.format_version,
        )
        if history is not None and shard.shard in history:
            request.history_end_offset = history[shard.shard]
        answer = ask(request)
        if answer.error_code:
            raise NotCommittedError(
                f"shard {shard.shard}: {answer.error_message} (error {answer.error_code}); "
                f"shards {done or 'none'} were committed before"
            )
        done.append(shard.shard)
    if done:
        mark_committed(data, manifest.generation_id)
    return done


def remove_leftovers(folder: Path, *, now_s: float) -> int:
    """Remove the unfinished folders directly below ``folder`` that nobody writes any more.

    If a run slept for longer than that, it cannot publish its folder any more.

    Args:
        folder: Where runs write; it need not exist.
        now_s: The time, in seconds since the epoch.

    Returns:
        How many folders were removed.
    """
    left = [
        path
        for path in sorted(folder.glob(f"*{UNFINISHED}"))
        if path.is_dir() and now_s - _last_change_s(path) > LEFT_AFTER_S
    ]
    for path in left:
        shutil.rmtree(path, ignore_errors=True)  # another run may be at it too
    return len(left)


def _last_change_s(folder: Path) -> float:
    """Return when anything in a folder changed last, in seconds since the epoch."""
    found = 0.0
    for parent, _, files in os.walk(folder):
        for name in (".", *files):
            try:
                found = max(found, (Path(parent) / name).stat().st_mtime)
            except FileNotFoundError:  # renamed or removed meanwhile, a file by the run itself
                continue
    return found
