"""The delivery report: how the records of each group ended, and why some were delivered again."""

from dataclasses import dataclass

from pyspark.sql import functions as f

from sharemesh_spark.history.known import Known
from sharemesh_spark.history.queries import size


@dataclass(frozen=True, slots=True)
class GroupLine:
    """One group on one topic; each record counts once in a life (spec REP-5 to REP-8)."""

    group_id: str
    topic_id: str
    cause: str
    became: str
    records: int
    highest_delivery_count: int | None
    first_ms: int
    last_ms: int


def by_cause(known: Known) -> list[GroupLine]:
    """Return how many records were finished or made available for which reason."""
    ended = known.partitions.where("ended_ms is not null").select(
        "group_id",
        "topic_id",
        "cause",
        "became",
        "records",
        "delivery_count",
        f.col("ended_ms").alias("at"),
    )
    again = known.changes.where("delivery_state = 'available'").select(
        "group_id",
        "topic_id",
        "cause",
        f.lit("available").alias("became"),
        size().alias("records"),
        "delivery_count",
        f.col("at_ms").alias("at"),
    )
    rows = (
        ended.unionByName(again)
        .groupBy("group_id", "topic_id", "cause", "became")
        .agg(
            f.sum("records").alias("records"),
            f.max("delivery_count").alias("highest_delivery_count"),
            f.min("at").alias("first_ms"),
            f.max("at").alias("last_ms"),
        )
        .orderBy("group_id", "topic_id", "cause", "became")
        .collect()
    )
    return [GroupLine(**row.asDict()) for row in rows]


def by_delivery_count(known: Known) -> list[tuple[str, int | None, int]]:
    """Return (group, delivery count, records that ended with it); None: it was pruned."""
    rows = (
        known.partitions.where("ended_ms is not null")
        .groupBy("group_id", "delivery_count")
        .agg(f.sum("records").alias("records"))
        .orderBy("group_id", f.col("delivery_count").asc_nulls_last())
        .collect()
    )
    return [(row["group_id"], row["delivery_count"], row["records"]) for row in rows]
