"""The history table: one row a state change, kept up incrementally and exactly once.

::

    history/<n>-<attempt>.new/                being written; no part of the table
    history/runs/run=<n>/_manifest.json       from and to offset of each shard, gaps, rows
    history/runs/run=<n>/day=D/group_id=G/    Parquet

A run appears by one rename, manifest included: a killed run leaves nothing behind that counts, and
of two runs at once the second finds the name taken. The offsets of the newest manifest are the
watermark up to which the log may be pruned.
"""

import json
import os
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

from sharemesh.domain.delivery_state import Cause, DeliveryState
from sharemesh_spark.generation.compact import UNFINISHED
from sharemesh_spark.generation.generation_files import sync
from sharemesh_spark.generation.source import FORMAT, StateLogSource
from sharemesh_spark.reader.data_directory import (
    Range,
    UnreadableLogError,
    holes_between,
    shard_bounds,
    shards,
)

FOLDER = "history"
RUNS = "runs"
MANIFEST = "_manifest.json"
SCHEMA = (
    "shard int, offset bigint, kind string, topic_id string, partition int, state_epoch int, "
    "leader_epoch int, start_offset bigint, at_ms bigint, cause string, member_id string, "
    "trace_id string, first_offset bigint, last_offset bigint, delivery_state string, "
    "delivery_count int, acquired_at_ms bigint, run string, day string, group_id string"
)


@dataclass(frozen=True, slots=True)
class HistoryRun:
    """One run: [from, to) of offsets by shard; gaps were pruned before they were read."""

    run: int
    ranges: dict[int, Range]
    gaps: dict[int, Range]
    rows: int


class HistoryTakenError(Exception):
    """Another run was published meanwhile; start over."""


def runs(data: Path) -> list[HistoryRun]:
    """Return the published runs, oldest first.

    Raises:
        UnreadableLogError: A manifest is broken, or a run is missing.
    """
    found = []
    for path in sorted((data / FOLDER / RUNS).glob(f"run=*/{MANIFEST}")):
        try:
            value = json.loads(path.read_text())
            run, rows = int(value["run"]), int(value["rows"])
            ranges, gaps = _by_shard(value["ranges"]), _by_shard(value["gaps"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise UnreadableLogError(f"{path} cannot be read ({error})") from error
        found.append(HistoryRun(run, ranges, gaps, rows))
    if [each.run for each in found] != list(range(1, len(found) + 1)):
        raise UnreadableLogError(f"a run of the history in {data / FOLDER} is missing")
    return found


def watermark(data: Path) -> dict[int, int]:
    """Return how far the history has come, by shard (exclusive)."""
    reached: dict[int, int] = {}
    for run in runs(data):
        reached.update({shard: to for shard, (_, to) in run.ranges.items()})
    return reached


def holes(data: Path) -> dict[int, list[Range]]:
    """Return what neither the history nor the log has any more, by shard (spec REP-3).

    Ask after the changes were read: what is pruned meanwhile then makes the answer more careful.

    Raises:
        UnreadableLogError: The log or a manifest of the history cannot be read.
    """
    bounds = {shard: shard_bounds(data, shard) for shard in shards(data)}
    known = {shard: [each] for shard, each in bounds.items()}
    for run in runs(data):
        for shard, each in run.ranges.items():
            known[shard].append(each)
    found = {shard: holes_between(known[shard], end) for shard, (_, end) in bounds.items()}
    return {shard: each for shard, each in found.items() if each}


def update_history(spark: SparkSession, data: Path, *, attempt: str = "0") -> HistoryRun | None:
    """Add what was committed since the last run; None if there is nothing new.

    ``attempt`` is part of the name of the folder that is written, and must be another one in each
    of several jobs at once: one that published what the other had half written would lose rows.

    Raises:
        HistoryTakenError: Another run was faster.
        UnreadableLogError: The log or the table is corrupt.
    """
    number = len(runs(data)) + 1
    ranges, gaps = new_ranges(data, watermark(data))
    if not ranges:
        return None
    spark.dataSource.register(StateLogSource)
    changes = changes_in(spark, data, ranges)
    scratch = data / FOLDER / f"{number:06d}-{attempt}{UNFINISHED}"
    shutil.rmtree(scratch, ignore_errors=True)
    changes.write.partitionBy("day", "group_id").parquet(str(scratch))
    rows = spark.read.parquet(str(scratch)).count() if any(scratch.glob("day=*")) else 0
    ranges, gaps = _without_pruned(data, ranges, gaps)
    run = HistoryRun(number, ranges, gaps, rows)
    (scratch / MANIFEST).write_text(json.dumps(asdict(run)))
    _sync_tree(scratch)
    target = _folder_of(data, number)
    target.parent.mkdir(exist_ok=True)
    try:
        scratch.rename(target)  # refused if another run has the name: folders are never empty
    except OSError as error:
        shutil.rmtree(scratch, ignore_errors=True)
        raise HistoryTakenError(f"run {number} was published by another job; start over") from error
    sync(target.parent)
    return run


def bytes_of(data: Path, run: HistoryRun) -> int:
    """Return the bytes of the files that a run added."""
    return sum(path.stat().st_size for path in _folder_of(data, run.run).rglob("*.parquet"))


def _folder_of(data: Path, number: int) -> Path:
    return data / FOLDER / RUNS / f"run={number:06d}"


def history(spark: SparkSession, data: Path) -> DataFrame:
    """Return the table (``SCHEMA``)."""
    base = data / FOLDER / RUNS
    if not any(run.rows for run in runs(data)):
        return spark.createDataFrame([], SCHEMA)
    return spark.read.schema(SCHEMA).parquet(str(base))


def state_changes(rows: DataFrame) -> DataFrame:
    """Return one row a state change from rows of the source: ranges that changed, first of all.

    Initializations and deletions are rows without a range. A snapshot that repeats what is known
    is no change.
    """
    keyed = rows.where(f.col("kind").isin("snapshot", "update", "tombstone"))
    exploded = keyed.withColumn("batch", f.explode_outer("changed"))
    plain = f.col("cause").isin(int(Cause.INITIALIZE), int(Cause.DELETE))
    tombstone = f.col("kind") == "tombstone"
    told = exploded.where(f.col("batch").isNotNull() | tombstone | plain)
    cause = f.when(f.col("batch.cause") > 0, f.col("batch.cause")).otherwise(f.col("cause"))
    return told.select(
        "shard",
        "offset",
        "kind",
        topic_text().alias("topic_id"),
        "partition",
        "state_epoch",
        "leader_epoch",
        "start_offset",
        f.col("write_timestamp_ms").alias("at_ms"),
        _named(cause, Cause).alias("cause"),
        "member_id",
        f.lower(f.hex("trace_id")).alias("trace_id"),
        f.col("batch.first").alias("first_offset"),
        f.col("batch.last").alias("last_offset"),
        _named(f.col("batch.state"), DeliveryState).alias("delivery_state"),
        f.col("batch.count").alias("delivery_count"),
        _told(f.col("batch.acquired_at_ms")).alias("acquired_at_ms"),
        f.date_format(f.timestamp_millis("write_timestamp_ms"), "yyyy-MM-dd").alias("day"),
        "group_id",
    )


def topic_text() -> Column:
    """Return the column ``topic_id`` in the form that Kafka shows."""
    return f.translate(f.base64("topic_id"), "+/=", "-_")


def _told(at_ms: Column) -> Column:
    return f.when(at_ms > 0, at_ms)  # 0 stands for what is not known


def _named(column: Column, names: Iterable[Cause | DeliveryState]) -> Column:
    pairs = [f.lit(each) for name in names for each in (int(name), name.name.lower())]
    return f.create_map(*pairs)[column]


def changes_in(spark: SparkSession, data: Path, ranges: Mapping[int, Range]) -> DataFrame:
    """Return the state changes in ranges of the log, by shard."""
    source = spark.read.format(FORMAT).option("path", str(data))
    return state_changes(source.option("ranges", json.dumps(ranges)).load())


def new_ranges(data: Path, reached: Mapping[int, int]) -> tuple[dict[int, Range], dict[int, Range]]:
    """Return what the log has behind ``reached``, and what of it was pruned, by shard."""
    ranges, gaps = {}, {}
    for shard in shards(data):
        start, end = shard_bounds(data, shard)
        begin = reached.get(shard, 0)
        if begin < start:
            gaps[shard] = (begin, start)
            begin = start
        if end > begin:
            ranges[shard] = (begin, end)
    return ranges, gaps


def _without_pruned(
    data: Path, ranges: dict[int, Range], gaps: dict[int, Range]
) -> tuple[dict[int, Range], dict[int, Range]]:
    """Remove from the ranges what was pruned during the read and may be missing."""
    ranges, gaps = dict(ranges), dict(gaps)
    for shard, (low, high) in ranges.items():
        start = min(shard_bounds(data, shard)[0], high)
        if start > low:
            gaps[shard] = (gaps.get(shard, (low, low))[0], start)
            ranges[shard] = (start, high)
    return ranges, gaps


def _by_shard(value: dict[str, list[int]]) -> dict[int, Range]:
    return {int(shard): (int(low), int(high)) for shard, (low, high) in value.items()}


def _sync_tree(folder: Path) -> None:
    for parent, _, files in os.walk(folder, topdown=False):
        for name in files:
            sync(Path(parent) / name)
        sync(Path(parent))
