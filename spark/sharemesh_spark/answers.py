"""Answers from the history table; each is a function with its columns in its docstring."""

from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

from sharemesh_spark.produced import produced_rows

FINAL = ("acknowledged", "archived")
BUCKET_MS = 60_000
PRODUCED_SCHEMA = (
    "topic_id string, partition int, first_offset bigint, last_offset bigint, at_ms bigint"
)
_RECORD = ("group_id", "topic_id", "partition", "record")


def produced(spark: SparkSession, data: Path) -> DataFrame:
    """Return when records were appended, a row a record batch (``PRODUCED_SCHEMA``)."""
    return spark.createDataFrame(produced_rows(data), PRODUCED_SCHEMA)


def times(changes: DataFrame, batches: DataFrame) -> DataFrame:
    """Return how long records took, by group and by the member that finished them.

    The log does not say when a record was acquired (locks live in memory), so ``queue`` is from
    the append to the record's first state change, processing included; ``processing`` is from
    there to its end, 0 for records that ended at the first delivery.

    Columns: group_id, member_id, records, queue_p50_ms, queue_p99_ms, processing_p50_ms,
    processing_p99_ms, deliveries (mean).
    """
    lives = _lives(changes).where("ended_ms is not null")
    appended = batches.select(
        "topic_id",
        "partition",
        f.explode(f.sequence("first_offset", "last_offset")).alias("record"),
        f.col("at_ms").alias("appended_ms"),
    )
    joined = lives.join(appended, ["topic_id", "partition", "record"], "left")
    queue = f.greatest(f.col("first_ms") - f.col("appended_ms"), f.lit(0))
    processing = f.col("ended_ms") - f.col("first_ms")
    return (
        joined.groupBy("group_id", "member_id")
        .agg(
            f.count("*").alias("records"),
            f.percentile(queue, 0.5).alias("queue_p50_ms"),
            f.percentile(queue, 0.99).alias("queue_p99_ms"),
            f.percentile(processing, 0.5).alias("processing_p50_ms"),
            f.percentile(processing, 0.99).alias("processing_p99_ms"),
            f.avg("delivery_count").alias("deliveries"),
        )
        .orderBy("group_id", f.desc("records"))
    )


def redeliveries(changes: DataFrame) -> DataFrame:
    """Return what made records available again.

    Columns: group_id, topic_id, cause, members, records, highest_delivery_count.
    """
    return (
        changes.where("delivery_state = 'available'")
        .groupBy("group_id", "topic_id", "cause")
        .agg(
            f.count_distinct("member_id").alias("members"),
            f.sum(_size()).alias("records"),
            f.max("delivery_count").alias("highest_delivery_count"),
        )
        .orderBy("group_id", f.desc("records"))
    )


def archived(changes: DataFrame) -> DataFrame:
    """Return records that were given up, and why.

    Columns: group_id, topic_id, partition, first_offset, last_offset, cause, delivery_count,
    member_id, at_ms.
    """
    return (
        changes.where("delivery_state = 'archived'")
        .select(
            "group_id",
            "topic_id",
            "partition",
            "first_offset",
            "last_offset",
            "cause",
            "delivery_count",
            "member_id",
            "at_ms",
        )
        .orderBy("group_id", "topic_id", "partition", "first_offset", "at_ms")
    )


def life(changes: DataFrame, group: str, topic_id: str, partition: int, record: int) -> DataFrame:
    """Return all that happened to one record, in order (columns of the history)."""
    covers = (f.col("first_offset") <= record) & (f.col("last_offset") >= record)
    of_key = changes.where(
        (f.col("group_id") == group)
        & (f.col("topic_id") == topic_id)
        & (f.col("partition") == partition)
    )
    return of_key.where(covers | f.col("first_offset").isNull()).orderBy("shard", "offset")


def throughput(changes: DataFrame, batches: DataFrame, *, bucket_ms: int = BUCKET_MS) -> DataFrame:
    """Return what happened in each stretch of ``bucket_ms``, and the backlog at its end.

    Columns: group_id, from_ms (its beginning), appended, finished, redelivered, backlog (appended
    and not finished so far, of the topics that the group has state on).
    """
    bucket = (f.floor(f.col("at_ms") / bucket_ms) * bucket_ms).cast("bigint")
    done = changes.where(f.col("delivery_state").isNotNull()).select(
        "group_id",
        bucket.alias("from_ms"),
        f.lit(0).cast("bigint").alias("appended"),
        f.when(f.col("delivery_state").isin(*FINAL), _size()).otherwise(0).alias("finished"),
        f.when(f.col("delivery_state") == "available", _size()).otherwise(0).alias("redelivered"),
    )
    groups = changes.select("group_id", "topic_id").distinct()
    come = batches.join(groups, "topic_id").select(
        "group_id",
        bucket.alias("from_ms"),
        _size().alias("appended"),
        f.lit(0).cast("bigint").alias("finished"),
        f.lit(0).cast("bigint").alias("redelivered"),
    )
    sums = [f.sum(name).alias(name) for name in ("appended", "finished", "redelivered")]
    by_bucket = done.unionByName(come).groupBy("group_id", "from_ms").agg(*sums)
    so_far = f.expr(
        "sum(appended - finished) over (partition by group_id order by from_ms "
        "rows between unbounded preceding and current row)"
    )
    return by_bucket.withColumn("backlog", so_far).orderBy("group_id", "from_ms")


def hot_partitions(changes: DataFrame) -> DataFrame:
    """Return where the work is.

    Columns: group_id, topic_id, partition, changes, records, share (of the group's records).
    """
    known = changes.where(f.col("first_offset").isNotNull())
    per = known.groupBy("group_id", "topic_id", "partition").agg(
        f.count("*").alias("changes"), f.sum(_size()).alias("records")
    )
    share = f.expr("records / sum(records) over (partition by group_id)")
    return per.withColumn("share", share).orderBy("group_id", f.desc("records"))


def _size() -> Column:
    return f.col("last_offset") - f.col("first_offset") + 1


def _lives(changes: DataFrame) -> DataFrame:
    """Return one row a record: when it first changed, when and by whom it was finished."""
    each = changes.where(f.col("first_offset").isNotNull()).withColumn(
        "record", f.explode(f.sequence("first_offset", "last_offset"))
    )
    final = f.col("delivery_state").isin(*FINAL)
    return each.groupBy(*_RECORD).agg(
        f.min("at_ms").alias("first_ms"),
        f.max(f.when(final, f.col("at_ms"))).alias("ended_ms"),
        f.max(f.when(final, f.col("member_id"))).alias("member_id"),
        f.max("delivery_count").alias("delivery_count"),
    )
