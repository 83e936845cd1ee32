"""Part `spark`: compaction, scan, load from a generation, on a deterministic log.

``SHAREMESH_SPARK_UPDATES`` scales the log of 5 million updates down, for tests of the bench.
"""

import asyncio
import os
import statistics
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

from sharemesh.backends.embedded.data_directory import open_data_directory
from sharemesh.backends.embedded.settings import LogSettings
from sharemesh.backends.embedded.shard_logs import EmbeddedShardLogs
from sharemesh.backends.local.clock import SystemClock
from sharemesh.backends.local.disk import SystemDisk
from sharemesh.codec.log_read import part_frames
from sharemesh.codec.state_record import encode_key, encode_value
from sharemesh.domain.delivery_state import Cause, DeliveryState
from sharemesh.domain.ids import GroupId, MemberId, SharePartitionKey, TopicId
from sharemesh.domain.share_state.key_text import format_key, home_shard
from sharemesh.domain.share_state.records import Generation, Origin, Snapshot, Update
from sharemesh.domain.state_batch import StateBatch
from sharemesh.ports.shard_log import LogRecord
from sharemesh.runtime.limits import RuntimeLimits
from sharemesh.runtime.shard_set import ShardSet
from sharemesh.share_coordinator.generation_reader import GenerationReader
from sharemesh.share_coordinator.settings import ShareCoordinatorSettings
from sharemesh.share_coordinator.shard_kind import state_shard_kind
from sharemesh_spark.compact import compact
from sharemesh_spark.data_directory import read_shard
from sharemesh_spark.generation_files import mark_committed
from sharemesh_spark.session import start
from sharemesh_spark.source import FORMAT, StateLogSource
from tests.bench.figures import RESULTS, Figure, alternate, write

UPDATES = int(os.environ.get("SHAREMESH_SPARK_UPDATES", "5000000"))
KEYS = 10_000
SHARDS = 16
PER_BATCH = 50
ORIGIN = Origin(Cause.ACCEPT, MemberId("c0ffee00-1234-5678-9abc-def012345678"))
STATES = (DeliveryState.ACKNOWLEDGED, DeliveryState.AVAILABLE, DeliveryState.ARCHIVED)


def keys_by_shard():
    shards = [[] for _ in range(SHARDS)]
    for number in range(KEYS):
        topic = TopicId(bytes([number % 7 + 1]) * 16)
        key = SharePartitionKey(GroupId(f"group-{number % 100}"), topic, number // 100)
        shards[home_shard(format_key(key), SHARDS)].append(key)
    return shards


def update_of(key, turn):
    """Two ranges a turn; every third turn returns to the range of the turn before."""
    start = 20 * (turn - (turn % 3 == 2))
    first = StateBatch(start, start + 9, STATES[turn % 3], 1 + turn % 3, Cause.ACCEPT)
    second = StateBatch(start + 10, start + 19, STATES[0], 1, Cause.ACCEPT)
    return Update(key, 0, 1, 0, max(0, start - 2_000), 10, 1_000 + turn, (first, second), ORIGIN)


async def fill_shard(logs, shard, keys, turns):
    log = await logs.open("state", shard, 1)
    snapshots = (Snapshot(k, 0, 1, 0, 0, 0, 0, 1, 1, (), ORIGIN, (), 0) for k in keys)
    part = [LogRecord(encode_key(r), encode_value(r), timestamp_ms=1) for r in snapshots]
    for turn in range(turns):
        for key in keys:
            record = update_of(key, turn)
            part.append(LogRecord(encode_key(record), encode_value(record), timestamp_ms=turn))
            if len(part) >= PER_BATCH:
                log.append(part)
                part = []
        await log.committed(log.end_offset)
    if part:
        log.append(part)
    await log.committed(log.end_offset)
    await log.close()


async def fill(data):
    disk = SystemDisk(data)
    await open_data_directory(disk, cluster_id="bench", group_shards=1, state_shards=SHARDS)
    logs = EmbeddedShardLogs(disk, SystemClock(), LogSettings(fsync=False))
    for shard, keys in enumerate(keys_by_shard()):
        await fill_shard(logs, shard, keys, max(1, UPDATES // KEYS))
    disk.close()


def timed(job):
    began = time.perf_counter()
    job()
    return time.perf_counter() - began


def bare_read(data):
    for shard in range(SHARDS):
        for part in read_shard(data, shard).parts:
            for _ in part_frames(part.place, part.data):
                pass


def scan(spark, data):
    rows = spark.read.format(FORMAT).option("path", str(data)).load()
    assert rows.count() >= UPDATES // KEYS * KEYS


async def load(data, epoch, generations):
    clock, disk = SystemClock(), SystemDisk(data)
    reader = GenerationReader(disk) if generations else None
    kind = state_shard_kind(ShareCoordinatorSettings(), reader)
    logs = EmbeddedShardLogs(disk, clock, LogSettings(fsync=False))
    shards = ShardSet(kind, logs, clock, RuntimeLimits())
    began = time.perf_counter()
    for shard in range(SHARDS):
        await shards.start_shard(shard, epoch)
        shards.shard(shard).peek(lambda machine: sum(1 for _ in machine.states()))
    took = time.perf_counter() - began
    await shards.close()
    disk.close()
    return took


async def point_to(data, manifest, epoch):
    """Write what CommitGeneration writes, into every shard."""
    disk = SystemDisk(data)
    logs = EmbeddedShardLogs(disk, SystemClock(), LogSettings(fsync=False))
    for each in manifest.shards:
        log = await logs.open("state", each.shard, epoch)
        pointer = Generation(
            manifest.generation_id, "", each.end_offset,
            f"generations/{manifest.generation_id}/manifest.json",
            bytes.fromhex(each.content_hash), 1,
        )  # fmt: skip
        log.append([LogRecord(encode_key(pointer), encode_value(pointer))])
        await log.committed(log.end_offset)
        await log.close()
    disk.close()
    mark_committed(data, manifest.generation_id)


def figures(spark, data):
    """Return the figures of the part."""
    spark.dataSource.register(StateLogSource)
    numbers = iter(range(1_000))
    made = []
    scanning = partial(timed, partial(scan, spark, data))

    def compacting():
        name = f"bench-{next(numbers):04d}"
        return timed(lambda: made.append(compact(spark, data, generation_id=name)))

    scanning()  # warm
    compaction = alternate(scanning, compacting)
    reading = alternate(partial(timed, partial(bare_read, data)), scanning)
    manifest = made[-1]
    tasks = task_times(data, manifest)
    epochs = iter(range(2, 1_000))
    from_log = statistics.median(asyncio.run(load(data, next(epochs), False)) for _ in range(3))
    asyncio.run(point_to(data, manifest, next(epochs)))
    from_generation = statistics.median(
        asyncio.run(load(data, next(epochs), True)) for _ in range(3)
    )
    updates = manifest.records
    ratio = manifest.log_bytes / manifest.parquet_bytes
    speed = from_log / from_generation
    skew = max(tasks["ms"]) / statistics.median(tasks["ms"])
    return [
        Figure("spark.compact", updates / compaction.measured, "updates/s",
               updates / compaction.baseline, compaction.baseline / compaction.measured, 0.4,
               goal=0.6),
        Figure("spark.scan", updates / reading.measured, "updates/s",
               updates / reading.baseline, reading.baseline / reading.measured, 0.3, goal=0.5),
        Figure("spark.size_ratio", ratio, "ratio"),
        Figure("spark.load_speedup", from_generation, "s", from_log, speed, 10, goal=30),
        Figure("spark.task_skew", skew, "ratio", floor=1.3, at_most=True, goal=1.1),
        Figure("spark.worker_peak_mib", max(tasks["peak"]) / 2**20, "MiB"),
    ]  # fmt: skip


def task_times(data, manifest):
    import pyarrow.parquet as pq

    rows = [
        row
        for path in (data / "generations" / manifest.generation_id).glob("*.parquet")
        for row in pq.read_table(path, columns=["kind", "task_ms", "task_peak_bytes"]).to_pylist()
        if row["kind"] == "floors"
    ]
    return {"ms": [r["task_ms"] for r in rows], "peak": [r["task_peak_bytes"] for r in rows]}


def main():
    """Run the part and write build/bench/spark.json."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir="build") as folder:
        data = Path(folder) / "data"
        print(f"writing {UPDATES:,} updates", flush=True)
        asyncio.run(fill(data))
        spark = start("bench", work=Path(folder) / "spark")
        try:
            return write("spark", figures(spark, data))
        finally:
            spark.stop()


if __name__ == "__main__":
    sys.exit(main())
