"""Shard logs of the embedded engine: what speaks of files and of a volume."""

import asyncio

import pytest

from sharemesh.backends.embedded.settings import LogSettings
from sharemesh.backends.embedded.shard_logs import EmbeddedShardLogs
from sharemesh.backends.local.clock import SystemClock
from sharemesh.ports.shard_log import (
    CorruptLogError,
    LogFullError,
    LogRecord,
)
from tests.contract.disks import KINDS, make_disk

SMALL = LogSettings(segment_bytes=2_000)


@pytest.fixture(params=KINDS)
def disk(request, tmp_path):
    disk = make_disk(request.param, tmp_path)
    yield disk
    disk.close()


@pytest.fixture
def logs(disk):
    return EmbeddedShardLogs(disk, SystemClock(), LogSettings())


def records(*keys: str) -> list[LogRecord]:
    return [LogRecord(key.encode(), f"value of {key}".encode()) for key in keys]


async def replayed(log, from_offset=None) -> list[LogRecord]:
    return [record async for chunk in log.replay(from_offset) for record in chunk]


async def put(log, *keys: str) -> int:
    last = log.append(records(*keys))
    await log.committed(last + 1)
    return last


async def test_many_appends_at_once_share_commits_and_keep_their_order(disk, logs):
    log = await logs.open("state", 0, 1)
    jobs = 0
    run = disk.run

    async def counted(job):
        nonlocal jobs
        jobs += 1
        return await run(job)

    disk.run = counted
    await asyncio.gather(*(put(log, f"{n}") for n in range(200)))
    disk.run = run
    assert jobs <= 5
    assert [record.key for record in await replayed(log)] == [b"%d" % n for n in range(200)]
    await log.close()


async def test_delete_before_moves_the_start_for_good_and_frees_segments(disk):
    logs = EmbeddedShardLogs(disk, SystemClock(), SMALL)
    log = await logs.open("state", 0, 1)
    for n in range(60):
        await put(log, f"key {n}")
    files = len([name for name in disk.list("state/00000") if name.endswith(".log")])
    await log.delete_before(50)
    assert log.start_offset == 50
    assert log.end_offset == log.committed_end_offset == 60  # a marker takes no offset
    left = len([name for name in disk.list("state/00000") if name.endswith(".log")])
    assert left < files
    assert [record.offset for record in await replayed(log)] == list(range(50, 60))
    await log.delete_before(10)
    assert log.start_offset == 50
    await log.close()
    again = await logs.open("state", 0, 2)
    assert again.start_offset == 50
    assert [record.offset for record in await replayed(again)] == list(range(50, 60))
    await again.close()


async def test_large_batches_and_many_segments_replay_whole(disk):
    logs = EmbeddedShardLogs(disk, SystemClock(), LogSettings(segment_bytes=3 << 20))
    log = await logs.open("state", 0, 1)
    for n in range(8):
        log.append([LogRecord(b"%d" % n, bytes(1_500_000))])
    log.append([LogRecord(b"small", b"")])
    await log.committed(log.end_offset)
    found = await replayed(log)
    assert [len(record.value) for record in found] == [1_500_000] * 8 + [0]
    await log.close()


async def test_a_flipped_bit_is_reported_with_its_place_and_never_served(disk, logs):
    log = await logs.open("state", 0, 1)
    for key in "abc":
        await put(log, key)
    await log.close()
    file = "state/00000/00000000000000000000-0000000001.log"
    data = bytearray(disk.read(file))
    position = 64 + (len(data) - 64) // 3  # of the second batch
    data[position + 70] ^= 1
    disk.delete(file)
    broken = disk.create(file)
    broken.append(data)
    broken.close()
    again = await logs.open("state", 0, 2)
    with pytest.raises(CorruptLogError, match=f"{file}, position {position}, offset 1: checksum"):
        await replayed(again, 1)
    first = await anext(again.replay())
    assert [record.key for record in first] == [b"a"]
    await again.close()


async def test_little_free_space_refuses_appends_and_the_epoch_goes_on(disk):
    room = disk.free_bytes()
    logs = EmbeddedShardLogs(disk, SystemClock(), LogSettings(shard_reserve_bytes=room * 2))
    log = await logs.open("state", 0, 1)
    with pytest.raises(LogFullError, match="reserve"):
        log.append(records("a"))
    await log.committed(0)
    assert log.end_offset == 0
    await log.close()
