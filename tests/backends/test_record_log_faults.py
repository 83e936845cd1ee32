"""Record logs when disks fail: deletion cut short, waiters of a failed epoch, cancelled callers."""

import asyncio
import random
from contextlib import suppress

import pytest

from sharemesh.backends.embedded.records.record_logs import EmbeddedRecordLogs
from sharemesh.backends.embedded.settings import LogSettings
from sharemesh.codec.record_set import build_batch
from sharemesh.domain.errors import RefusedError
from sharemesh.domain.ids import TopicId, TopicPartition
from sharemesh.ports.shard_log import FencedError, LogFailedError
from sharemesh.testing.memory_disk import MemoryDisk
from tests.clocks import ManualClock
from tests.record_directories import partitions_on

PARTITION = TopicPartition(TopicId(bytes(16)), 0)


class PowerCutError(Exception):
    """The power goes."""


def batch(count: int = 2) -> bytes:
    return bytes(build_batch([(b"k", b"v", ())] * count, timestamp_ms=1))


def logs_on(disk: MemoryDisk, **settings) -> EmbeddedRecordLogs:
    return EmbeddedRecordLogs(disk, ManualClock(), LogSettings(**settings))


async def test_a_deletion_that_was_cut_short_is_finished_by_the_next_one():
    for cut in range(40):
        disk = MemoryDisk(random.Random(cut))
        logs = logs_on(disk, segment_bytes=300)
        log = await logs.open(PARTITION, 1)
        for _ in range(6):
            await log.append(batch())
        left = cut

        def before(operation: str, path: str) -> None:
            nonlocal left
            left -= 1
            if left < 0:
                raise PowerCutError

        disk.before = before
        with suppress(PowerCutError):
            await logs.delete(PARTITION)
        disk.before = None
        disk.crash()
        for partition in partitions_on(disk):
            await logs.delete(partition)
        assert disk.files() == []
        assert disk.list("records") == []


async def test_a_power_cut_after_a_deletion_brings_nothing_back():
    """Its claim is gone by then, so that nobody would finish it (simulation, seed 301)."""
    for seed in range(30):
        disk = MemoryDisk(random.Random(seed))
        logs = logs_on(disk, segment_bytes=300)
        other = TopicPartition(PARTITION.topic_id, 1)
        for partition in (PARTITION, other):
            log = await logs.open(partition, 1)
            for _ in range(6):
                await log.append(batch())
        await logs.delete(PARTITION)
        disk.crash()
        assert partitions_on(disk) == (other,)
        await logs.delete(other)
        disk.crash()
        assert partitions_on(disk) == ()


async def test_all_who_wait_hear_of_a_failed_sync_and_nothing_was_confirmed():
    disk = MemoryDisk(random.Random(1))
    log = await logs_on(disk).open(PARTITION, 1)
    await log.append(batch())
    disk.failing_syncs.append(".log")
    results = await asyncio.gather(
        *(log.append(batch()) for _ in range(5)), log.look(), return_exceptions=True
    )
    assert all(isinstance(result, LogFailedError) for result in results)
    assert log.high_watermark == 2
    with pytest.raises(LogFailedError):
        await log.append(batch())
    assert len((await log.read(0, max_bytes=1 << 20)).headers) == 1
    await log.close()


async def test_a_caller_that_stops_waiting_does_not_stop_the_others():
    disk = MemoryDisk(random.Random(1))
    log = await logs_on(disk).open(PARTITION, 1)
    tasks = [asyncio.create_task(log.append(batch())) for _ in range(3)]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    tasks[1].cancel()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert [isinstance(result, asyncio.CancelledError) for result in results] == [
        False,
        True,
        False,
    ]
    await log.close()
    again = await logs_on(disk).open(PARTITION, 2)
    assert again.high_watermark in (4, 6)
    await again.close()


async def test_appends_that_arrive_during_a_job_go_into_one_next_job():
    disk = MemoryDisk(random.Random(1))
    log = await logs_on(disk).open(PARTITION, 1)
    syncs = 0

    def before(operation: str, path: str) -> None:
        nonlocal syncs
        syncs += operation == "sync"

    disk.before = before
    await asyncio.gather(*(log.append(batch()) for _ in range(50)))
    assert syncs <= 3
    await log.close()


async def test_a_job_takes_no_more_bytes_than_allowed_and_the_queue_is_bounded():
    disk = MemoryDisk(random.Random(1))
    size = len(batch())
    log = await logs_on(disk, tick_bytes_max=size * 10, queued_bytes_max=size * 30).open(
        PARTITION, 1
    )
    sizes: list[int] = []
    append = log._log._file.append
    log._log._file.append = lambda *data: (sizes.append(sum(map(len, data))), append(*data))
    results = await asyncio.gather(
        *(log.append(batch()) for _ in range(50)), return_exceptions=True
    )
    refused = [result for result in results if isinstance(result, RefusedError)]
    assert refused
    assert "wait to be synced" in refused[0].message
    assert max(sizes) <= size * 10
    assert log.high_watermark == 2 * (50 - len(refused))
    await log.close()


async def test_reads_go_on_while_the_epoch_is_over():
    disk = MemoryDisk(random.Random(1))
    logs = logs_on(disk)
    old = await logs.open(PARTITION, 1)
    await old.append(batch())
    new = await logs.open(PARTITION, 2)
    with pytest.raises(FencedError):
        await old.append(batch())
    assert len((await old.read(0, max_bytes=100)).headers) == 1
    await old.close()
    await new.close()


async def test_the_last_log_start_holds_after_a_power_cut_before_the_files_went():
    disk = MemoryDisk(random.Random(1))
    logs = logs_on(disk, segment_bytes=300)
    log = await logs.open(PARTITION, 1)
    for _ in range(20):
        await log.append(batch())

    def before(operation: str, path: str) -> None:
        if operation == "delete" and path.endswith(".log"):
            raise PowerCutError

    disk.before = before
    with suppress(PowerCutError, LogFailedError):
        await log.delete_records(30)
    disk.before = None
    disk.crash()
    again = await logs.open(PARTITION, 2)
    assert again.log_start_offset == 30
    names = [name for name in disk.list(f"records/{'00' * 16}/00000") if name.endswith(".log")]
    assert int(names[1].split("-")[0]) > 30 or int(names[0].split("-")[0]) <= 30
    assert int(names[1].split("-")[0]) >= 28  # segments wholly below it went at the take-over
    await again.close()


async def test_asking_an_ended_epoch_again_and_again_costs_no_memory():
    disk = MemoryDisk(random.Random(1))
    logs = logs_on(disk)
    log = await logs.open(PARTITION, 1)
    new = await logs.open(PARTITION, 2)
    depths = []
    for _ in range(20):
        with pytest.raises(FencedError) as fenced:
            await log.look()
        depths.append(len(fenced.traceback))
    assert max(depths[2:]) == min(depths[2:])
    await log.close()
    await new.close()
