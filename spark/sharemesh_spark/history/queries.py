"""Answers from what is known of the share partitions (spec REP, in docs/spec/reports.md).

Each is a function with its columns in its docstring; ``groups`` says from when on the figures of
each group count, and ``labelled`` puts that beside the others.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from sharemesh_spark.history.known import Known
from sharemesh_spark.share_partitions import NOT_RECORDED_NAME

BUCKET_MS = 60_000
_SUMS = ("appended", "finished", "redelivered", "dropped")


def groups(known: Known) -> DataFrame:
    """Return every group that is known, also if all its changes were pruned (REP-4).

    Columns: group_id, topic_id, partitions, lives (of share partitions), finished, archived (of
    these), not_recorded (finished without a known cause), not_counted (how many there may have
    been before that at most), counts_from_ms (null: from the beginning; else the time from which
    on figures do, REP-3).
    """
    unknown = f.when(f.col("cause") == NOT_RECORDED_NAME, f.col("records")).otherwise(0)
    finished = f.when(f.col("ended_ms").isNotNull(), f.col("records")).otherwise(0)
    given_up = f.when(_is_given_up(), f.col("records")).otherwise(0)
    is_life = f.col("what") == "life"
    return (
        known.partitions.groupBy("group_id", "topic_id")
        .agg(
            f.count_distinct("partition").alias("partitions"),
            f.sum(is_life.cast("bigint")).alias("lives"),
            f.sum(finished).alias("finished"),
            f.sum(given_up).alias("archived"),
            f.sum(unknown).alias("not_recorded"),
            f.sum(f.when(is_life, f.col("not_counted")).otherwise(0)).alias("not_counted"),
            f.max("counts_from_ms").alias("counts_from_ms"),
        )
        .orderBy("group_id", "topic_id")
    )


def times(known: Known) -> DataFrame:
    """Return how long records took, by group and by the member that finished them (REP-10).

    ``queue`` is from when the record came to the group to its first acquisition, ``processing``
    from there to its end, and ``working`` how much of that members had it, all deliveries together.
    Where the log does not say when it was acquired, as those of earlier versions, ``queue`` ends
    with the first state change, processing included, and ``working`` is null.

    Columns: group_id, member_id, records, queue_p50_ms, queue_p99_ms, processing_p50_ms,
    processing_p99_ms, working_p50_ms, working_p99_ms, deliveries (mean).
    """
    ended = known.partitions.where(
        f.col("ended_ms").isNotNull() & (f.col("cause") != NOT_RECORDED_NAME)
    )
    began = f.coalesce("acquired_ms", "changed_ms")
    waited = began - f.col("came_ms")
    queue = f.when(waited.isNotNull(), f.greatest(waited, f.lit(0)))  # greatest() ignores nulls
    took = f.col("ended_ms") - began
    processing = f.when(took.isNotNull(), f.greatest(took, f.lit(0)))
    deliveries = f.sum(f.col("delivery_count") * f.col("records")) / f.sum("records")
    return (
        ended.groupBy("group_id", "member_id")
        .agg(
            f.sum("records").alias("records"),
            f.percentile(queue, 0.5, f.col("records")).alias("queue_p50_ms"),
            f.percentile(queue, 0.99, f.col("records")).alias("queue_p99_ms"),
            f.percentile(processing, 0.5, f.col("records")).alias("processing_p50_ms"),
            f.percentile(processing, 0.99, f.col("records")).alias("processing_p99_ms"),
            f.percentile("worked_ms", 0.5, f.col("records")).alias("working_p50_ms"),
            f.percentile("worked_ms", 0.99, f.col("records")).alias("working_p99_ms"),
            deliveries.alias("deliveries"),
        )
        .orderBy("group_id", f.desc("records"))
    )


def redeliveries(known: Known) -> DataFrame:
    """Return what made records available again, each record of each change (REP-8).

    Columns: group_id, topic_id, cause, members, records, highest_delivery_count.
    """
    again = known.changes.where("delivery_state = 'available'")
    return (
        again.groupBy("group_id", "topic_id", "cause")
        .agg(
            f.count_distinct("member_id").alias("members"),
            f.sum(size()).alias("records"),
            f.max("delivery_count").alias("highest_delivery_count"),
        )
        .orderBy("group_id", f.desc("records"))
    )


def archived(known: Known) -> DataFrame:
    """Return records that were archived, and why; also those that only the state knows.

    Columns: group_id, topic_id, partition, first_offset, last_offset, cause, delivery_count,
    member_id, at_ms (null if it is not recorded).
    """
    key = ("group_id", "topic_id", "partition", "first_offset")
    columns = (*key, "last_offset", "cause", "delivery_count", "member_id", "at_ms")
    told = known.changes.where("delivery_state = 'archived' and cause <> 'gap'").select(*columns)
    of_state = (
        known.partitions.where(
            (f.col("cause") == NOT_RECORDED_NAME) & (f.col("became") == "archived")
        )
        .withColumn("at_ms", f.lit(None).cast("bigint"))
        .select(*columns)
    )
    return told.unionByName(of_state).orderBy(*key, "at_ms")


def life(changes: DataFrame, group: str, topic_id: str, partition: int, record: int) -> DataFrame:
    """Return all that happened to one record, in order (columns of the history)."""
    covers = (f.col("first_offset") <= record) & (f.col("last_offset") >= record)
    of_key = changes.where(
        (f.col("group_id") == group)
        & (f.col("topic_id") == topic_id)
        & (f.col("partition") == partition)
    )
    return of_key.where(covers | f.col("first_offset").isNull()).orderBy("shard", "offset")


def throughput(known: Known, *, bucket_ms: int = BUCKET_MS) -> DataFrame:
    """Return what happened in each stretch of ``bucket_ms``, and the backlog at its end (REP-9).

    Columns: group_id, from_ms (its beginning), appended (came to the group), finished,
    redelivered, dropped (left behind by a life that ended), backlog.
    """

    def bucket(at: Column) -> Column:
        return (f.floor(at / bucket_ms) * bucket_ms).cast("bigint").alias("from_ms")

    def events(rows: DataFrame, at: Column, name: str, records: Column) -> DataFrame:
        shown = [f.when(f.lit(each == name), records).otherwise(0).alias(each) for each in _SUMS]
        return rows.select("group_id", bucket(at), *shown)

    records = f.col("records")
    come = known.partitions.where("came_ms is not null")
    ended, life_ended = come.where("ended_ms is not null"), f.col("life_ended_ms")
    left = come.where("ended_ms is null and life_ended_ms is not null")
    again = known.changes.where("delivery_state = 'available'")
    by_bucket = (
        events(come, f.col("came_ms"), "appended", records)
        .unionByName(events(ended, f.col("ended_ms"), "finished", records))
        .unionByName(events(left, life_ended, "dropped", records))
        .unionByName(events(again, f.col("at_ms"), "redelivered", size()))
        .groupBy("group_id", "from_ms")
        .agg(*(f.sum(name).alias(name) for name in _SUMS))
    )
    so_far = f.expr(
        "sum(appended - finished - dropped) over (partition by group_id order by from_ms "
        "rows between unbounded preceding and current row)"
    )
    return by_bucket.withColumn("backlog", so_far).orderBy("group_id", "from_ms")


def hot_partitions(known: Known) -> DataFrame:
    """Return where the work is.

    Columns: group_id, topic_id, partition, changes, records, share (of the group's records).
    """
    ranges = known.changes.where(f.col("first_offset").isNotNull())
    per = ranges.groupBy("group_id", "topic_id", "partition").agg(
        f.count("*").alias("changes"), f.sum(size()).alias("records")
    )
    share = f.expr("records / sum(records) over (partition by group_id)")
    return per.withColumn("share", share).orderBy("group_id", f.desc("records"))


def by_cause(known: Known) -> DataFrame:
    """Return how many records were finished or made available for which reason.

    Each record counts once in a life (REP-5 to REP-8).

    Columns: group_id, topic_id, cause, became, records, highest_delivery_count (null: it was
    pruned), first_ms, last_ms.
    """
    shown = ("group_id", "topic_id", "cause", "became", "records", "delivery_count")
    ended = known.partitions.where("ended_ms is not null").withColumn("at", f.col("ended_ms"))
    again = known.changes.where("delivery_state = 'available'").withColumns(
        {"became": f.lit("available"), "records": size(), "at": f.col("at_ms")}
    )
    return (
        ended.select(*shown, "at")
        .unionByName(again.select(*shown, "at"))
        .groupBy("group_id", "topic_id", "cause", "became")
        .agg(
            f.sum("records").alias("records"),
            f.max("delivery_count").alias("highest_delivery_count"),
            f.min("at").alias("first_ms"),
            f.max("at").alias("last_ms"),
        )
        .orderBy("group_id", "topic_id", "cause", "became")
    )


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


def labelled(
    rows: Iterable[Mapping[str, Any]], found: Iterable[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Return rows with ``counts_from_ms`` of their group, as ``groups`` found it (REP-3)."""
    since: dict[str, int] = {}
    for row in found:
        if row["counts_from_ms"] is not None:
            group = row["group_id"]
            since[group] = max(since.get(group, 0), row["counts_from_ms"])
    return [{**row, "counts_from_ms": since.get(row["group_id"])} for row in rows]


def _is_given_up() -> Column:
    """Return whether a span was archived; a gap holds no record that could be (REP-11)."""
    return (f.col("became") == "archived") & (f.col("cause") != "gap")


def size() -> Column:
    """Return how many records the range of a change has."""
    return f.col("last_offset") - f.col("first_offset") + 1
