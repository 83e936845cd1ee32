"""A data directory of format 1, written once and kept, opens with all that is in it."""

import base64
import json
import random
from contextlib import nullcontext
from pathlib import Path

from sharemesh.backends.embedded.data_directory import open_data_directory
from sharemesh.backends.embedded.records.record_logs import EmbeddedRecordLogs
from sharemesh.backends.embedded.settings import LogSettings
from sharemesh.backends.embedded.shard_logs import EmbeddedShardLogs
from sharemesh.codec.record_set import decode_records
from sharemesh.domain.ids import TopicId, TopicPartition
from sharemesh.testing.memory_disk import MemoryDisk
from tests.aborted import aborted_in
from tests.clocks import ManualClock

FILES = json.loads((Path(__file__).parent / "testdata/format-1.json").read_text())
PARTITION = TopicPartition(TopicId(bytes(range(16))), 0)


def written_then() -> MemoryDisk:
    disk = MemoryDisk(random.Random(1))
    for path, data in FILES.items():
        disk.make_directory(str(Path(path).parent))
        disk.create(path).append(base64.b64decode(data))
    return disk


async def test_the_cluster_file_is_accepted():
    found = await open_data_directory(
        written_then(), cluster_id="format-1", group_shards=1, state_shards=1
    )
    assert found.format == 1


async def test_record_logs_are_read_and_continued():
    log = await EmbeddedRecordLogs(written_then(), ManualClock(), LogSettings()).open(PARTITION, 3)
    assert (log.log_start_offset, log.high_watermark, log.last_stable_offset) == (3, 10, 10)
    values, offset = [], 3
    while offset < 10:
        result = await log.read(offset, max_bytes=1)
        offset = result.headers[-1].last_offset + 1
        if not result.headers[0].is_control:
            values += [record.value for record in decode_records(result.records)]
    assert values == [b"1-3", b"2-0", b"2-1", b"2-2", b"2-3"]
    assert await aborted_in(log, 5) == [(9, 5)]
    assert await log.offset_for_timestamp(1003, nullcontext) == (3, 1003)
    await log.append_txn_marker(9, 2, commit=True)
    assert log.high_watermark == 11
    await log.close()


async def test_shard_logs_are_replayed_and_continued():
    logs = EmbeddedShardLogs(written_then(), ManualClock(), LogSettings())
    for name in ("state", "group"):
        log = await logs.open(name, 0, 3)
        assert (log.start_offset, log.committed_end_offset) == (4, 24)
        found = [record async for chunk in log.replay() for record in chunk]
        assert [record.offset for record in found] == list(range(4, 24))
        assert found[0].key == f"{name}-2".encode()
        assert found[1].value is None
        assert found[-2].value == b"2"
        await log.close()
