"""The delivery report: how the records of each group ended, and why some were delivered again."""

from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from sharemesh.domain.delivery_state import Cause, DeliveryState
from sharemesh.domain.ids import TopicId
from sharemesh.domain.share_state.key_text import format_topic_id
from sharemesh_spark.source import FORMAT, StateLogSource


@dataclass(frozen=True, slots=True)
class GroupLine:
    """One group on one topic; records are offsets that a state change covered."""

    group_id: str
    topic_id: str
    cause: str
    delivery_state: str
    records: int
    highest_delivery_count: int
    first_ms: int
    last_ms: int


def state_changes(spark: SparkSession, data: Path) -> DataFrame:
    """Return one row a state change: the range, its new state, delivery count, cause and member.

    Of a snapshot that a write became, only what that write changed.
    """
    spark.dataSource.register(StateLogSource)
    rows = spark.read.format(FORMAT).option("path", str(data)).load()
    changes = rows.where(f.col("kind").isin("update", "snapshot")).select(
        "shard",
        "offset",
        "group_id",
        "topic_id",
        "partition",
        "member_id",
        "write_timestamp_ms",
        f.col("cause").alias("write_cause"),
        f.explode("changed").alias("batch"),
    )
    cause = f.when(f.col("batch.cause") != 0, f.col("batch.cause")).otherwise(f.col("write_cause"))
    return changes.select(
        "shard",
        "offset",
        "group_id",
        "topic_id",
        "partition",
        "member_id",
        "write_timestamp_ms",
        cause.alias("cause"),
        f.col("batch.first").alias("first_offset"),
        f.col("batch.last").alias("last_offset"),
        f.col("batch.state").alias("delivery_state"),
        f.col("batch.count").alias("delivery_count"),
    )


def by_cause(changes: DataFrame) -> list[GroupLine]:
    """Return how many records changed state for which reason, by group and topic."""
    rows = (
        changes.groupBy("group_id", "topic_id", "cause", "delivery_state")
        .agg(
            f.sum(f.col("last_offset") - f.col("first_offset") + 1).alias("records"),
            f.max("delivery_count").alias("highest"),
            f.min("write_timestamp_ms").alias("first_ms"),
            f.max("write_timestamp_ms").alias("last_ms"),
        )
        .orderBy("group_id", "topic_id", "cause", "delivery_state")
        .collect()
    )
    return [
        GroupLine(
            group_id=row["group_id"],
            topic_id=format_topic_id(TopicId(bytes(row["topic_id"]))),
            cause=Cause(row["cause"]).name.lower(),
            delivery_state=DeliveryState(row["delivery_state"]).name.lower(),
            records=row["records"],
            highest_delivery_count=row["highest"],
            first_ms=row["first_ms"],
            last_ms=row["last_ms"],
        )
        for row in rows
    ]


def by_delivery_count(changes: DataFrame) -> list[tuple[str, int, int]]:
    """Return (group, delivery count, records that ended with it)."""
    final = changes.where(
        f.col("delivery_state").isin(int(DeliveryState.ACKNOWLEDGED), int(DeliveryState.ARCHIVED))
    )
    rows = (
        final.groupBy("group_id", "delivery_count")
        .agg(f.sum(f.col("last_offset") - f.col("first_offset") + 1).alias("records"))
        .orderBy("group_id", "delivery_count")
        .collect()
    )
    return [(row["group_id"], row["delivery_count"], row["records"]) for row in rows]
