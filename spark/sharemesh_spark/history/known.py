"""Reads all that is known of the share partitions of a data directory (spec REP-2).

When records were appended stands in the headers of the record batches of the record logs.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

from sharemesh.codec.batch_frame import walk_frames
from sharemesh.codec.log_layout import RECORDS
from sharemesh.domain.delivery_state import DeliveryState
from sharemesh.domain.ids import TopicId, format_topic_id, parse_topic_id
from sharemesh_spark.generation.source import FORMAT, StateLogSource
from sharemesh_spark.history.history import (
    changes_in,
    history,
    holes,
    new_ranges,
    runs,
    topic_text,
    watermark,
)
from sharemesh_spark.reader.data_directory import Range, read_log, topic_of
from sharemesh_spark.share_partitions import KEY, KNOWN_SCHEMA, SCHEMA, lives_and_spans

_TOPIC_HEX_LENGTH = 32
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
    rows = _appended_rows(data, states, changes) if appended else []
    batches = spark.createDataFrame(rows, PRODUCED_SCHEMA)
    unread = holes(data)
    tell("adding up")
    return Known(changes, partitions_of(changes, states, batches, unread).cache(), unread)


def known_changes(spark: SparkSession, data: Path) -> DataFrame:
    """Return all state changes that are known: the history, and the log behind its end."""
    reached, last = watermark(data), len(runs(data))
    found = history(spark, data).where(f.col("run") <= f"{last:06d}").drop("run")
    ranges, _ = new_ranges(data, reached)
    return found.unionByName(changes_in(spark, data, ranges)) if ranges else found


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


def _appended_rows(
    data: Path, states: DataFrame, changes: DataFrame
) -> list[tuple[str, int, int, int, int]]:
    """Return the rows of ``produced_rows``, with storage in Kafka of the topics that are known."""
    place = topic_of(data)
    if place is None:
        return produced_rows(data)
    from sharemesh_spark.reader.kafka_batches import appended_batches

    found = states.select("topic_id").union(changes.select("topic_id")).distinct().collect()
    return appended_batches(place, [parse_topic_id(each) for each in sorted(r[0] for r in found)])


def produced_rows(data: Path) -> list[tuple[str, int, int, int, int]]:
    """Return (topic id, partition, first offset, last offset, timestamp in ms) of each batch.

    Raises:
        UnreadableLogError: A record log cannot be read.
    """
    return list(_rows(data))


def _rows(data: Path) -> Iterator[tuple[str, int, int, int, int]]:
    for folder in sorted((data / RECORDS).glob("*/*")):
        topic, partition = folder.parent.name, folder.name
        if len(topic) != _TOPIC_HEX_LENGTH or not partition.isdigit():
            continue
        topic_id = format_topic_id(TopicId(bytes.fromhex(topic)))
        for part in read_log(folder, int(partition)).parts:
            place = part.place
            walk = walk_frames(
                part.data,
                start=place.start_position,
                limit=place.start_position + len(part.data),
                base_offset=place.base_offset,
                leader_epoch=None,
                check_crc=False,  # only headers are used
            )
            for frame in walk.frames:
                if frame.end_offset > place.end_offset:
                    break
                if not frame.is_marker:
                    yield (
                        topic_id,
                        int(partition),
                        frame.base_offset,
                        frame.end_offset - 1,
                        frame.max_timestamp_ms,
                    )
