"""Reads all that is known of the share partitions of a data directory (spec REP-2)."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

from sharemesh.domain.delivery_state import DeliveryState
from sharemesh_spark.coverage import Range
from sharemesh_spark.generation.source import FORMAT, StateLogSource
from sharemesh_spark.history.append_times import produced_rows
from sharemesh_spark.history.history import (
    history,
    holes,
    runs,
    state_changes,
    topic_text,
    watermark,
)
from sharemesh_spark.reader.data_directory import shard_bounds, shards
from sharemesh_spark.share_partitions import KEY, KNOWN_SCHEMA, SCHEMA, lives_and_spans

PRODUCED_SCHEMA = (
    "topic_id string, partition int, first_offset bigint, last_offset bigint, at_ms bigint"
)
_FINAL = (int(DeliveryState.ACKNOWLEDGED), int(DeliveryState.ARCHIVED))
_COLUMNS = [each.split()[0] for each in KNOWN_SCHEMA.split(", ")]
Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Known:
    """What reports are made of.

    Attributes:
        changes: State changes, columns as in the history, from the history and the log behind it.
        partitions: Lives and spans of all share partitions (``share_partitions.SCHEMA``).
        holes: What was pruned before it was read, by shard.
    """

    changes: DataFrame
    partitions: DataFrame
    holes: dict[int, list[Range]]


def read_known(
    spark: SparkSession, data: Path, *, appended: bool, tell: Tell = lambda _: None
) -> Known:
    """Read states, changes, appended batches and log starts, in this order (REP-2).

    Args:
        spark: A running session.
        data: The data directory.
        appended: Whether record logs are read too.
        tell: Called with what is being done.

    Raises:
        UnreadableLogError: The log, a generation, the history or a record log is corrupt.
    """
    tell("folding the newest states")
    spark.dataSource.register(StateLogSource)
    states = newest_states(spark, data).cache()
    states.count()  # now: what is read later may be newer, but not older
    tell("reading state changes")
    changes = known_changes(spark, data).cache()
    changes.count()
    tell("reading record logs")
    batches = spark.createDataFrame(produced_rows(data) if appended else [], PRODUCED_SCHEMA)
    unread = holes(data)
    tell("adding up")
    return Known(changes, partitions_of(changes, states, batches, unread).cache(), unread)


def known_changes(spark: SparkSession, data: Path) -> DataFrame:
    """Return all state changes that are known: the history, and the log behind its end."""
    reached, last = watermark(data), len(runs(data))
    found = history(spark, data).where(f.col("run") <= f"{last:06d}").drop("run")
    ranges = {}
    for shard in shards(data):
        start, end = shard_bounds(data, shard)
        if end > max(start, reached.get(shard, 0)):
            ranges[shard] = (max(start, reached.get(shard, 0)), end)
    if not ranges:
        return found
    source = spark.read.format(FORMAT).option("path", str(data))
    behind = state_changes(source.option("ranges", json.dumps(ranges)).load())
    return found.unionByName(behind)


def newest_states(spark: SparkSession, data: Path) -> DataFrame:
    """Return the folded state of each share partition that lives (columns of ``KNOWN_SCHEMA``)."""
    rows = spark.read.format(FORMAT).option("path", str(data)).option("fold", "true").load()
    final = f.filter("batches", lambda batch: batch["state"].isin(*_FINAL))
    exploded = (
        rows.where("kind = 'state'")
        .withColumn("topic_id", topic_text())
        .withColumn("batch", f.explode_outer(final))
    )
    state = f.col("batch.state")
    acknowledged = state == int(DeliveryState.ACKNOWLEDGED)
    name = f.when(acknowledged, "acknowledged").when(state.isNotNull(), "archived")
    return exploded.select(
        *_as_known(
            what=f.lit("state"),
            at_ms=f.col("write_timestamp_ms"),
            first_offset=f.col("batch.first"),
            last_offset=f.col("batch.last"),
            delivery_state=name,
            delivery_count=f.col("batch.count"),
            **{
                each: f.col(each)
                for each in (*KEY, "shard", "state_epoch", "start_offset", "initial_start_offset")
            },
        )
    )


def partitions_of(
    changes: DataFrame, states: DataFrame, batches: DataFrame, holes: dict[int, list[Range]]
) -> DataFrame:
    """Return lives and spans (``share_partitions.SCHEMA``) of what is known."""
    of_history = [name for name in _COLUMNS if name not in ("what", "initial_start_offset")]
    changed = changes.select(
        *_as_known(what=f.lit("change"), **{each: f.col(each) for each in of_history})
    )
    keys = changed.select(*KEY).union(states.select(*KEY)).distinct()
    named = {each: f.col(each) for each in (*KEY, "first_offset", "last_offset", "at_ms")}
    appended = batches.join(keys, ["topic_id", "partition"]).select(
        *_as_known(what=f.lit("batch"), **named)
    )
    rows = changed.unionByName(states).unionByName(appended)

    def brought_together(known: pa.Table) -> pa.Table:
        return lives_and_spans(known, holes)

    return rows.groupBy(*KEY).applyInArrow(brought_together, SCHEMA)


def _as_known(**columns: Column) -> list[Column]:
    """Return all columns of ``KNOWN_SCHEMA``, null where none is given."""
    types = dict(each.split() for each in KNOWN_SCHEMA.split(", "))
    absent = f.lit(None)
    return [columns.get(name, absent).cast(kind).alias(name) for name, kind in types.items()]
