"""Snapshots of record logs: producers survive retention, and a start reads little."""

import random
from contextlib import nullcontext

import pytest

from sharemesh.backends.embedded.records.record_log import EmbeddedPartitionLog
from sharemesh.backends.embedded.records.record_logs import EmbeddedRecordLogs
from sharemesh.backends.embedded.settings import LogSettings
from sharemesh.codec.record_set import build_batch
from sharemesh.domain.errors import ErrorCode, RefusedError
from sharemesh.domain.ids import TopicId, TopicPartition
from sharemesh.ports.record_log import TopicLogConfig
from sharemesh.testing.memory_disk import MemoryDisk
from tests.aborted import aborted_in
from tests.clocks import ManualClock

PARTITION = TopicPartition(TopicId(bytes(16)), 0)
FOLDER = f"records/{'00' * 16}/00000"
WALL_MS = ManualClock().wall_ms()


class CountingDisk(MemoryDisk):
    """Counts what is read of segments, and of snapshots."""

    def __init__(self) -> None:
        super().__init__(random.Random(1))
        self.read_bytes = {"log": 0, "snapshot": 0}

    def read(self, path: str, offset: int = 0, size: int | None = None) -> bytes:
        data = super().read(path, offset, size)
        kind = path.rpartition(".")[2]
        if kind in self.read_bytes:
            self.read_bytes[kind] += len(data)
        return data

    def forget(self) -> None:
        self.read_bytes = dict.fromkeys(self.read_bytes, 0)


def batch(
    sequence: int,
    *,
    producer: int = 7,
    epoch: int = 0,
    timestamp_ms: int = 1,
    value: bytes = b"v",
    is_transactional: bool = False,
) -> bytes:
    return bytes(
        build_batch(
            [(b"k", value, ())] * 2,
            timestamp_ms=timestamp_ms,
            producer_id=producer,
            producer_epoch=epoch,
            base_sequence=sequence,
            is_transactional=is_transactional,
        )
    )


async def opened(disk: MemoryDisk, epoch: int, **settings) -> EmbeddedPartitionLog:
    logs = EmbeddedRecordLogs(disk, ManualClock(), LogSettings(**settings))
    return await logs.open(PARTITION, epoch)


async def refusal(log: EmbeddedPartitionLog, records: bytes) -> ErrorCode:
    with pytest.raises(RefusedError) as refused:
        await log.append(records)
    return refused.value.error


async def check_producer(log: EmbeddedPartitionLog, last_sequence: int, offset: int) -> None:
    """The last batch of producer 7 is known; neither a gap nor an old epoch is accepted."""
    again = await log.append(batch(last_sequence, epoch=3))
    assert again.base_offset == offset  # where it was, although retention deleted it
    gap = batch(last_sequence + 10, epoch=3)
    assert await refusal(log, gap) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert await refusal(log, batch(0, epoch=2)) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert log.highest_producer_id == 9


@pytest.mark.parametrize("power_cut", [False, True])
async def test_producers_survive_a_restart_after_retention_deleted_all_their_batches(power_cut):
    """LOG-17."""
    disk = MemoryDisk(random.Random(1))
    log = await opened(disk, 0, segment_bytes=300)
    await log.append(batch(0, producer=9))
    for number in range(10):
        await log.append(batch(2 * number, epoch=3))
    log.configure(TopicLogConfig(retention_ms=1_000))
    assert await log.apply_retention(WALL_MS) == 22
    assert len([name for name in disk.list(FOLDER) if name.endswith(".log")]) == 1
    if power_cut:
        disk.crash()
    else:
        await log.close()
    log = await opened(disk, 1)
    assert log.log_start_offset == 22
    await check_producer(log, 18, 20)
    await log.close()
    log = await opened(disk, 2)
    await check_producer(log, 18, 20)
    assert (await log.append(batch(20, epoch=3))).base_offset == 22
    await log.close()


async def test_an_invented_producer_id_does_not_use_up_the_ids():
    disk = MemoryDisk(random.Random(1))
    log = await opened(disk, 0)
    await log.append(batch(0, producer=9))
    await log.append(batch(0, producer=2**63 - 1))
    assert log.highest_producer_id == 9
    await log.close()


async def test_a_crash_between_the_log_start_and_the_unlinks_keeps_the_producers():
    disk = MemoryDisk(random.Random(1))
    log = await opened(disk, 0, segment_bytes=300)
    await log.append(batch(0, producer=9))
    for number in range(10):
        await log.append(batch(2 * number, epoch=3))

    def before(operation: str, path: str) -> None:
        if operation == "rename" and "snapshot" in path:
            raise OSError("the power goes")
        if operation == "delete" and path.endswith(".log"):
            raise OSError("the power goes")

    disk.before = before
    with pytest.raises(Exception, match="pruning failed"):
        await log.delete_records(22)
    disk.before = None
    disk.crash()
    log = await opened(disk, 1)  # deletes what the one before did not come to
    assert log.log_start_offset == 22
    assert len([name for name in disk.list(FOLDER) if name.endswith(".log")]) == 1
    await check_producer(log, 18, 20)
    await log.close()


async def test_what_was_not_committed_is_in_no_snapshot():
    disk = MemoryDisk(random.Random(1))
    log = await opened(disk, 0, segment_bytes=300)
    for number in range(10):
        await log.append(batch(2 * number))
    await log.delete_records(-1)
    disk.failing_syncs.append(".log")
    with pytest.raises(Exception, match="sync failed"):
        await log.append(batch(20))
    disk.crash()
    log = await opened(disk, 1)
    assert (await log.append(batch(20))).base_offset == log.high_watermark - 2
    assert (await log.append(batch(18))).base_offset == 18
    await log.close()


async def test_a_damaged_snapshot_is_not_used_and_the_segments_are_scanned():
    """LOG-17."""
    disk = MemoryDisk(random.Random(1))
    log = await opened(disk, 0, segment_bytes=300)
    for number in range(10):
        await log.append(batch(2 * number, epoch=3))
    await log.append(batch(0, producer=9))
    await log.close()
    snapshots = [name for name in disk.list(FOLDER) if name.endswith(".snapshot")]
    assert snapshots
    for number, name in enumerate(snapshots):
        data = bytearray(disk.read(f"{FOLDER}/{name}"))
        data[number * 7 % len(data)] ^= 4
        disk.write_small(f"{FOLDER}/{name}", bytes(data))
    log = await opened(disk, 1)
    assert log.high_watermark == 22
    await check_producer(log, 18, 18)
    await log.close()


async def test_transactions_of_old_segments_are_known_without_a_scan():
    disk = CountingDisk()
    small = {"segment_bytes": 300, "verify_open_bytes": 0}
    log = await opened(disk, 0, **small)
    await log.append(batch(0, producer=5, is_transactional=True))  # 0, 1
    await log.append_txn_marker(5, 0, commit=False)  # 2
    await log.append(batch(0, producer=6, is_transactional=True))  # 3, 4
    for number in range(20):
        await log.append(batch(2 * number))
    await log.close()
    disk.forget()
    log = await opened(disk, 1, **small)
    assert await aborted_in(log, 0) == [(5, 0)]
    assert log.last_stable_offset == 3
    await log.append_txn_marker(6, 0, commit=True)
    assert log.last_stable_offset == log.high_watermark
    await log.close()


@pytest.mark.parametrize("value", [b"v", b"v" * 100_000])
async def test_a_start_reads_headers_snapshots_and_the_newest_bytes_and_not_all(value):
    disk = CountingDisk()
    settings = {"segment_bytes": 1 << 20, "verify_open_bytes": 1 << 16}
    log = await opened(disk, 0, snapshot_every_bytes=0, **settings)
    records = bytes(build_batch([(b"k", value, ())] * 2, timestamp_ms=1))
    count = (20 << 20) // (100 * len(records)) if len(value) < 1_000 else (20 << 20) // len(records)
    for _ in range(count):
        await log.append(records * (100 if len(value) < 1_000 else 1))
    end = log.high_watermark
    await log.close()
    segments = len([name for name in disk.list(FOLDER) if name.endswith(".log")])
    assert segments >= 15
    disk.forget()
    log = await opened(disk, 1, **settings)
    await log.scrub.close()
    assert log.high_watermark == end
    # Headers are 64 bytes each, the checked part ends at batches, the tail is looked for.
    assert disk.read_bytes["log"] < (1 << 16) + 2 * len(records) + segments * 64 + (1 << 16)
    assert disk.read_bytes["snapshot"] < segments * 2_000
    disk.forget()
    assert (await log.read(end // 2, max_bytes=1)).headers[0].base_offset <= end // 2
    assert disk.read_bytes["log"] < 2 * (16 * 1024 + len(records)) + 64 * 1024
    await log.close()


async def test_a_time_is_found_by_the_index_over_restarts_without_reading_segments():
    disk = CountingDisk()
    settings = {"segment_bytes": 1 << 20, "verify_open_bytes": 0}
    log = await opened(disk, 0, snapshot_every_bytes=0, **settings)
    value = b"v" * 1_000
    for number in range(5_000):
        records = batch(2 * number, timestamp_ms=1_000 + number, value=value)
        await log.append(records)
    await log.close()
    log = await opened(disk, 1, **settings)
    await log.scrub.close()
    for number in (0, 1, 2_499, 4_999):
        disk.forget()
        assert await log.offset_for_timestamp(1_000 + number, nullcontext) == (
            2 * number,
            1_000 + number,
        )
        assert disk.read_bytes["log"] <= 256 * 1024  # one window; the log has 10 MiB
    disk.forget()
    assert await log.offset_for_timestamp(10_000, nullcontext) is None
    assert disk.read_bytes["log"] == 0
    await log.close()
