"""Part `spark`: compaction, scan, load from a generation, on a deterministic log.

Compaction, tasks and loads are told in processor time, so that neighbours on the machine do not
count. Compaction is compared with a fold that is the bench's own: what the product does better
elsewhere (its scan did) makes it look no worse.
``SHAREMESH_SPARK_UPDATES`` scales the log of 5 million updates down, for tests of the bench.
"""

import asyncio
import os
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from sharemesh.backends.embedded.data_directory import open_data_directory
from sharemesh.backends.embedded.settings import LogSettings
from sharemesh.backends.embedded.shard_logs import EmbeddedShardLogs
from sharemesh.backends.local.clock import SystemClock
from sharemesh.backends.local.disk import SystemDisk
from sharemesh.codec.log_chain import part_frames
from sharemesh.codec.state_record import UPDATE_PREFIX, encode_key, encode_value
from sharemesh.domain.delivery_state import Cause, DeliveryState
from sharemesh.domain.ids import (
    GroupId,
    MemberId,
    SharePartitionKey,
    TopicId,
    format_key,
    home_shard,
)
from sharemesh.domain.share_state.records import Generation, Origin, StateSnapshot, StateUpdate
from sharemesh.domain.state_batch import StateBatch
from sharemesh.ports.shard_log import LogRecord
from sharemesh.runtime.shard_kind import RuntimeLimits
from sharemesh.runtime.shard_set import ShardSet
from sharemesh.share_coordinator.generations import GenerationReader
from sharemesh.share_coordinator.settings import ShareCoordinatorSettings
from sharemesh.share_coordinator.shard_kind import state_shard_kind
from sharemesh.v1.state_record_pb2 import ShareStateRecord
from sharemesh_spark.generation.compact import compact
from sharemesh_spark.generation.generation_files import mark_committed
from sharemesh_spark.generation.shard_fold import peak_memory_bytes
from sharemesh_spark.generation.source import FORMAT, StateLogSource
from sharemesh_spark.reader.data_directory import Room, read_shard
from sharemesh_spark.session import start
from tests.bench.figures import RESULTS, ROUNDS, Figure, write

UPDATES = int(os.environ.get("SHAREMESH_SPARK_UPDATES", "5000000"))
KEYS = 10_000
SHARDS = 16
VARIANTS = 16
"""So many share partitions of a shard differ in each turn; the next ones are as those before."""

COMPACT_FLOOR = 0.05
"""Of about 0.07 to 0.09 when it was set: a job that takes twice as long misses it."""

PER_BATCH = 50
LEAN = "offset bigint"
"""A count needs no column; Spark does not say so to a Python source, so the bench does."""

ORIGIN = Origin(Cause.ACCEPT, MemberId("c0ffee00-1234-5678-9abc-def012345678"))
TASK_COLUMNS = ["shard", "kind", "task_ms", "task_peak_bytes"]
STATES = (DeliveryState.ACKNOWLEDGED, DeliveryState.AVAILABLE, DeliveryState.ARCHIVED)


def keys_by_shard():
    shards = [[] for _ in range(SHARDS)]
    for number in range(KEYS):
        topic = TopicId(bytes([number % 7 + 1]) * 16)
        key = SharePartitionKey(GroupId(f"group-{number % 100}"), topic, number // 100)
        shards[home_shard(format_key(key), SHARDS)].append(key)
    return shards


def update_of(key, turn, variant=0):
    """Two ranges a turn; every third turn returns to the range of the turn before."""
    start = 20 * (turn - (turn % 3 == 2)) + variant
    cut = start + 9 - variant % 4
    first = StateBatch(start, cut, STATES[turn % 3], 1 + turn % 3, Cause.ACCEPT)
    second = StateBatch(cut + 1, start + 19, STATES[0], 1, Cause.ACCEPT)
    return StateUpdate(
        key, 0, 1, 0, max(0, start - 2_000), 10, 1_000 + turn, (first, second), ORIGIN
    )


class Encoded:
    """Values of one shard's updates: what all of a turn have in common is encoded once."""

    def __init__(self, keys):
        kind = len(UPDATE_PREFIX)
        self.keys = [(encode_key(update_of(key, 0)), _key_fields(key)) for key in keys]
        self._first = keys[0]
        self._behind = kind + len(_key_fields(keys[0]))

    def records(self, turn):
        wholes = [encode_value(update_of(self._first, turn, n)) for n in range(VARIANTS)]
        tails = [whole[self._behind :] for whole in wholes]
        assert UPDATE_PREFIX + self.keys[0][1] + tails[1] == wholes[1]
        return [
            LogRecord(name, UPDATE_PREFIX + fields + tails[n % VARIANTS], timestamp_ms=turn)
            for n, (name, fields) in enumerate(self.keys)
        ]


def _key_fields(key):
    """Return the fields of a value that name its key: they follow the kind (field 1)."""
    message = ShareStateRecord(
        group_id=key.group_id, topic_id=key.topic_id, partition=key.partition
    )
    return message.SerializeToString(deterministic=True)


async def fill_shard(logs, shard, keys, turns):
    log = await logs.open("state", shard, 1)
    snapshots = [StateSnapshot(k, 0, 1, 0, 0, 0, 0, 1, 1, (), ORIGIN, (), 0) for k in keys]
    records = [LogRecord(encode_key(r), encode_value(r), timestamp_ms=1) for r in snapshots]
    encoded = Encoded(keys)
    for turn in range(turns):
        records += encoded.records(turn)
        whole = len(records) - len(records) % PER_BATCH
        for first in range(0, whole, PER_BATCH):
            log.append(records[first : first + PER_BATCH])
        del records[:whole]
        await log.committed(log.end_offset)
    if records:
        log.append(records)
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


def tree_s():
    """Return the processor time of this process and all below it: Spark's JVM and its workers."""
    parents, used = {}, {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it has just ended: its parent has its time
        pid = int(stat.parent.name)
        parents[pid], used[pid] = int(fields[1]), sum(map(int, fields[11:15]))
    ticks = 0
    for pid, own in used.items():
        above = pid
        while above in parents and above != os.getpid():
            above = parents[above]
        ticks += own if above == os.getpid() else 0
    return ticks / os.sysconf("SC_CLK_TCK")


def worked(job):
    """Return the processor time of a job, wherever it is done."""
    began = tree_s()
    job()
    return tree_s() - began


def bare_fold():
    """Of each range of each share partition keep what came last, shard by shard, in plain numpy.

    Every compaction has to do that at least: the ranges are those of the log, made and not read.
    """
    turns = max(1, UPDATES // KEYS)
    turn = np.arange(turns, dtype=np.int64)
    start = 20 * (turn - (turn % 3 == 2))
    left = 0
    for keys in keys_by_shard():
        group = np.tile(np.arange(len(keys), dtype=np.int64), 2 * turns)
        variant = group % VARIANTS
        low = np.repeat(np.concatenate([start, start + 10]), len(keys)) + variant
        order = np.lexsort((low, group))  # stable: of equal ones the last in the log comes last
        group, low = group[order], low[order]
        is_last = np.append((group[1:] != group[:-1]) | (low[1:] != low[:-1]), True)
        left += np.count_nonzero(is_last)
    return left


def files_of(data):
    """Return (path, what of it counts) of all files that a scan reads."""
    images = [read_shard(data, shard) for shard in range(SHARDS)]
    return [
        (part.folder / part.place.name.file_name, part.place) for i in images for part in i.parts
    ]


def bare_read(files):
    """Read each file whole, as Python does, and check each record batch."""
    for path, place in files:
        with path.open("rb") as file:
            file.seek(place.start_position)
            check(place, file.read())


def reader_read(data):
    """Read as the reader does, into the same memory again and again, and check as above."""
    room = Room()
    for shard in range(SHARDS):
        for part in read_shard(data, shard, room).parts:
            check(part.place, part.data)


def check(place, content):
    for _ in part_frames(place, content):
        pass


def scan(spark, data, schema=LEAN):
    """Count the records: every value is parsed and checked; of columns, those of ``schema``."""
    reader = spark.read.format(FORMAT).option("path", str(data))
    rows = (reader.schema(schema) if schema else reader).load()
    assert rows.count() >= UPDATES // KEYS * KEYS


async def load(data, epoch, generations):
    clock, disk = SystemClock(), SystemDisk(data)
    reader = GenerationReader(disk) if generations else None
    kind = state_shard_kind(ShareCoordinatorSettings(), reader)
    logs = EmbeddedShardLogs(disk, clock, LogSettings(fsync=False))
    shards = ShardSet(kind, logs, clock, RuntimeLimits())
    began = time.process_time()
    for shard in range(SHARDS):
        await shards.start_shard(shard, epoch)
        shards.shard(shard).peek(lambda machine: sum(1 for _ in machine.states()))
    took = time.process_time() - began
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
        wall = []
        used = worked(
            lambda: wall.append(
                timed(lambda: made.append(compact(spark, data, generation_id=name)))
            )
        )
        return used, *wall

    scanning()  # warm
    compacting()
    bare = partial(timed, partial(bare_read, files_of(data)))
    folding = partial(worked, bare_fold)
    rounds = [(bare(), scanning(), folding(), *compacting()) for _ in range(ROUNDS)]
    of_bare, of_scan, of_fold, of_compact, of_wall = zip(*rounds, strict=True)
    bare_s, scan_s, wall_s = map(statistics.median, (of_bare, of_scan, of_wall))
    fold_s, compact_s = min(of_fold), min(of_compact)  # neighbours can only add to these
    reader_s = statistics.median(timed(partial(reader_read, data)) for _ in range(ROUNDS))
    all_columns = statistics.median(timed(partial(scan, spark, data, None)) for _ in range(3))
    driver_peak_bytes = peak_memory_bytes()  # before this process stands for a coordinator
    manifest = made[-1]
    tasks = task_times(data, made)
    epochs = iter(range(2, 1_000))
    from_log = asyncio.run(load(data, next(epochs), False))  # once: it takes minutes by itself
    asyncio.run(point_to(data, manifest, next(epochs)))
    from_generation = statistics.median(
        asyncio.run(load(data, next(epochs), True)) for _ in range(3)
    )
    updates = manifest.records
    ratio = manifest.log_bytes / manifest.parquet_bytes
    speed = from_log / from_generation
    skew = max(tasks.ms) / statistics.median(tasks.ms)
    return [
        Figure("spark.compact", updates / compact_s, "updates/core s", updates / fold_s,
               fold_s / compact_s, COMPACT_FLOOR),
        Figure("spark.compact_wall", updates / wall_s, "updates/s"),
        Figure("spark.scan", updates / scan_s, "updates/s", updates / bare_s,
               bare_s / scan_s, 0.3, goal=0.5),
        Figure("spark.size_ratio", ratio, "ratio"),
        Figure("spark.load_speedup", from_generation, "s", from_log, speed, 10, goal=30),
        Figure("spark.task_skew", skew, "ratio", floor=1.3, at_most=True, goal=1.1),
        Figure("spark.scan_over_readers_read", updates / scan_s, "updates/s", updates / reader_s,
               reader_s / scan_s),
        Figure("spark.scan_all_columns", updates / all_columns, "updates/s"),
        Figure("spark.worker_peak_mib", tasks.peak_bytes / 2**20, "MiB"),
        Figure("spark.driver_peak_mib", driver_peak_bytes / 2**20, "MiB"),
        Figure("spark.jvm_peak_mib", jvm_peak_bytes() / 2**20, "MiB"),
    ]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Tasks:
    """Of each task (its shards) the median time over all compactions; a worker's highest peak."""

    ms: list[float]
    peak_bytes: int


def task_times(data, manifests):
    by_task, peak_bytes = {}, 0
    for manifest in manifests:
        for path in (data / "generations" / manifest.generation_id).glob("*.parquet"):
            rows = pq.read_table(path, columns=TASK_COLUMNS).to_pylist()
            rows = [row for row in rows if row["kind"] == "floors"]
            shards = tuple(row["shard"] for row in rows)
            by_task.setdefault(shards, []).append(sum(row["task_ms"] for row in rows))
            peak_bytes = max(peak_bytes, *(row["task_peak_bytes"] for row in rows))
    return Tasks([statistics.median(times) for times in by_task.values()], peak_bytes)


def jvm_peak_bytes():
    """Return the most memory that Spark's JVM, a child of this process, has had resident."""
    peaks = []
    for status in Path("/proc").glob("[0-9]*/status"):
        try:
            lines = dict(line.split(":", 1) for line in status.read_text().splitlines())
        except OSError:
            continue
        if lines.get("Name", "").strip() == "java" and lines["PPid"].strip() == str(os.getpid()):
            peaks.append(int(lines["VmHWM"].split()[0]) * 1024)
    return max(peaks, default=0)


def main():
    """Run the part and write build/bench/spark.json."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir="build") as folder:
        data = Path(folder) / "data"
        print(f"writing {UPDATES:,} updates", flush=True)
        print(f"written in {timed(partial(asyncio.run, fill(data))):.0f} s", flush=True)
        spark = start("bench", work=Path(folder) / "spark")
        try:
            return write("spark", figures(spark, data))
        finally:
            spark.stop()


if __name__ == "__main__":
    sys.exit(main())
