"""Share state logs on a real disk: random ones, written as coordinators write them."""

import random
from pathlib import Path

from sharemesh.backends.embedded.data_directory import open_data_directory
from sharemesh.backends.embedded.settings import LogSettings
from sharemesh.backends.embedded.shard_logs import EmbeddedShardLogs
from sharemesh.backends.local.clock import SystemClock
from sharemesh.backends.local.disk import SystemDisk
from sharemesh.codec.state_record import encode_key, encode_value
from sharemesh.ports.shard_log import LogRecord


async def write_records(data: Path, records, *, shard=0, shards=1, epoch=1, per_batch=1):
    disk, clock = SystemDisk(data), SystemClock()
    await open_data_directory(disk, cluster_id="test", group_shards=1, state_shards=shards)
    settings = LogSettings(segment_bytes=8_192, fsync=False)
    log = await EmbeddedShardLogs(disk, clock, settings).open("state", shard, epoch)
    rng = random.Random(1)
    at = 0
    while at < len(records):
        size = rng.randrange(1, per_batch + 1)
        part = records[at : at + size]
        log.append([LogRecord(encode_key(r), encode_value(r)) for r in part])
        at += size
    await log.committed(log.end_offset)
    await log.close()
    disk.close()


async def prune(data: Path, before: int, *, shard=0, epoch=9):
    """Delete the records below an offset, as a coordinator's upkeep does."""
    disk, clock = SystemDisk(data), SystemClock()
    settings = LogSettings(segment_bytes=8_192, fsync=False)
    log = await EmbeddedShardLogs(disk, clock, settings).open("state", shard, epoch)
    await log.delete_before(before)
    await log.close()
    disk.close()
