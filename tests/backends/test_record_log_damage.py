"""Damaged record logs (LOG-14): told with their place, readable before, and the way out."""

import random
import struct
from contextlib import nullcontext

import pytest

from sharemesh.backends.embedded.records.record_log import EmbeddedPartitionLog
from sharemesh.backends.embedded.records.record_logs import EmbeddedRecordLogs
from sharemesh.backends.embedded.settings import LogSettings
from sharemesh.codec.hashes import crc32c
from sharemesh.codec.record_set import build_batch
from sharemesh.domain.errors import ErrorCode, RefusedError
from sharemesh.domain.ids import TopicId, TopicPartition
from sharemesh.testing.memory_disk import MemoryDisk
from tests.clocks import ManualClock

PARTITION = TopicPartition(TopicId(bytes(16)), 0)
OTHER = TopicPartition(TopicId(bytes(16)), 1)
FOLDER = f"records/{'00' * 16}/00000"
SEGMENT_HEADER = 64
BATCH_HEADER = 61
CRC_AT = 17


def batch(count: int = 3, value: bytes = b"v" * 20) -> bytes:
    return bytes(build_batch([(b"k", value, ())] * count, timestamp_ms=1))


SIZE = len(batch())
REGIONS = {
    "base offset": 7,
    "length": 11,
    "leader epoch": 15,
    "magic": 16,
    "crc": CRC_AT,
    "attributes": 22,
    "last offset delta": 26,
    "last offset delta, much": 24,
    "record count": 60,
    "payload": BATCH_HEADER + 5,
    "last byte": SIZE - 1,
}


def logs_on(disk: MemoryDisk, **settings) -> EmbeddedRecordLogs:
    return EmbeddedRecordLogs(disk, ManualClock(), LogSettings(**settings))


async def filled(disk: MemoryDisk, batches: int, epoch: int = 0, **settings) -> None:
    """Let one epoch write ``batches`` batches of three records."""
    log = await logs_on(disk, **settings).open(PARTITION, epoch)
    for _ in range(batches):
        await log.append(batch())
    await log.close()


def flip(disk: MemoryDisk, file: str, position: int) -> None:
    data = bytearray(disk.read(file))
    data[position] ^= 1
    disk.delete(file)
    broken = disk.create(file)
    broken.append(data)
    broken.close()


def segments(disk: MemoryDisk) -> list[str]:
    return [f"{FOLDER}/{name}" for name in disk.list(FOLDER) if name.endswith(".log")]


async def refusal(log: EmbeddedPartitionLog) -> str:
    with pytest.raises(RefusedError) as refused:
        await log.append(batch())
    assert refused.value.error == ErrorCode.KAFKA_STORAGE_ERROR
    return refused.value.message


async def served(log: EmbeddedPartitionLog) -> list[int]:
    """Return all offsets that can be read."""
    found: list[int] = []
    offset = log.log_start_offset
    while offset < log.high_watermark:
        for header in (await log.read(offset, max_bytes=200)).headers:
            found += range(max(offset, header.base_offset), header.last_offset + 1)
            offset = header.last_offset + 1
    return found


async def check_way_out(disk: MemoryDisk, log: EmbeddedPartitionLog, end: int, epoch: int) -> None:
    """The advice helps: what it names is accepted, then all is well, also after a restart."""
    message = await refusal(log)
    before = int(message.rpartition("--before ")[2].rstrip("`"))
    assert await log.delete_records(before) == before
    assert log.corruption is None
    assert (await log.append(batch())).base_offset == end
    assert await served(log) == list(range(before, end + 3))
    await log.close()
    again = await logs_on(disk).open(PARTITION, epoch)
    assert again.corruption is None
    assert again.log_start_offset == before
    assert await served(again) == list(range(before, end + 3))
    assert (await again.append(batch())).base_offset == end + 3
    await again.close()


@pytest.mark.parametrize("region", REGIONS)
@pytest.mark.parametrize("number", [0, 2, 4])
async def test_each_region_of_a_batch_is_told_and_can_be_given_up(region, number):
    disk = MemoryDisk(random.Random(1))
    await filled(disk, 5)
    position = SEGMENT_HEADER + number * SIZE
    flip(disk, segments(disk)[0], position + REGIONS[region])
    log = await logs_on(disk).open(PARTITION, 1)
    assert await served(log) == list(range(3 * number))
    assert f"{segments(disk)[0]}, position {position}, offset {3 * number}:" in await refusal(log)
    await check_way_out(disk, log, 15, 2)


@pytest.mark.parametrize("number", [0, 1, 2, 3])
async def test_a_segment_header_hides_only_what_lies_behind_it(number):
    disk = MemoryDisk(random.Random(1))
    await filled(disk, 8, segment_bytes=SEGMENT_HEADER + 2 * SIZE)
    files = segments(disk)
    assert len(files) == 4
    flip(disk, files[number], 20)
    log = await logs_on(disk).open(PARTITION, 1)
    assert await served(log) == list(range(6 * number))
    assert f"{files[number]}, position 0, offset {6 * number}:" in await refusal(log)
    await check_way_out(disk, log, 24, 2)


@pytest.mark.parametrize("number", [0, 1, 2, 3])
async def test_a_segment_that_is_gone_hides_only_what_lay_in_it_and_behind(number):
    disk = MemoryDisk(random.Random(1))
    await filled(disk, 8, segment_bytes=SEGMENT_HEADER + 2 * SIZE)
    files = segments(disk)
    disk.delete(files[number])
    log = await logs_on(disk).open(PARTITION, 1)
    assert await served(log) == list(range(6 * number))
    message = await refusal(log)
    assert files[number] in message
    assert "missing" in message
    await check_way_out(disk, log, 24, 2)


async def test_two_broken_headers_are_given_up_one_after_the_other():
    disk = MemoryDisk(random.Random(1))
    await filled(disk, 8, segment_bytes=SEGMENT_HEADER + 2 * SIZE)
    files = segments(disk)
    flip(disk, files[1], 20)
    flip(disk, files[3], 20)
    log = await logs_on(disk).open(PARTITION, 1)
    assert await served(log) == list(range(6))
    assert await log.delete_records(12) == 12
    assert await served(log) == list(range(12, 18))
    assert files[3] in await refusal(log)
    await check_way_out(disk, log, 24, 2)


async def test_invalid_bytes_before_a_valid_batch_behind_the_committed_end_are_damage():
    disk = MemoryDisk(random.Random(1))
    log = await logs_on(disk).open(PARTITION, 0)
    await log.append(batch())
    published = disk.read(f"{FOLDER}/0000000000.end")
    for _ in range(3):
        await log.append(batch())
    await log.close()
    end = disk.open_slots(f"{FOLDER}/0000000000.end", 128)
    end.write(0, published)  # as a power cut leaves it
    end.close()
    flip(disk, segments(disk)[0], SEGMENT_HEADER + SIZE + CRC_AT)
    log = await logs_on(disk).open(PARTITION, 1)
    assert await served(log) == [0, 1, 2]
    assert f"position {SEGMENT_HEADER + SIZE}, offset 3:" in await refusal(log)
    await check_way_out(disk, log, 12, 2)


async def test_a_damaged_log_stays_damaged_over_restarts_and_loses_nothing_more():
    disk = MemoryDisk(random.Random(1))
    await filled(disk, 8, segment_bytes=SEGMENT_HEADER + 2 * SIZE)
    files = segments(disk)
    before = {file: disk.read(file) for file in files}
    flip(disk, files[2], 20)
    for epoch in range(1, 6):
        log = await logs_on(disk).open(PARTITION, epoch)
        assert await served(log) == list(range(12))
        assert f"{files[2]}, position 0, offset 12:" in await refusal(log)
        await log.close()
    flip(disk, files[2], 20)  # restored from a copy
    log = await logs_on(disk).open(PARTITION, 6)
    assert await served(log) == list(range(24))
    await log.append(batch())
    assert {file: disk.read(file) for file in files} == before
    await log.close()


async def test_older_records_of_a_damaged_log_can_be_deleted_and_the_damage_stays():
    disk = MemoryDisk(random.Random(1))
    await filled(disk, 5)
    flip(disk, segments(disk)[0], SEGMENT_HEADER + 3 * SIZE + CRC_AT)
    log = await logs_on(disk).open(PARTITION, 1)
    assert await log.delete_records(4) == 4
    assert await served(log) == [4, 5, 6, 7, 8]
    assert "offset 9:" in await refusal(log)
    with pytest.raises(RefusedError) as refused:
        await log.delete_records(16)
    assert refused.value.error == ErrorCode.OFFSET_OUT_OF_RANGE
    assert await log.delete_records(-1) == 15
    assert log.corruption is None
    assert log.high_watermark == 15
    await log.close()


async def test_a_log_start_within_the_damaged_batch_does_not_heal_it():
    disk = MemoryDisk(random.Random(1))
    await filled(disk, 5)
    flip(disk, segments(disk)[0], SEGMENT_HEADER + SIZE + CRC_AT)
    log = await logs_on(disk).open(PARTITION, 1)
    assert await log.delete_records(5) == 5
    assert await served(log) == []
    await check_way_out(disk, log, 15, 2)


async def test_other_partitions_go_on():
    disk = MemoryDisk(random.Random(1))
    await filled(disk, 5)
    flip(disk, segments(disk)[0], 20)
    logs = logs_on(disk)
    damaged, whole = await logs.open(PARTITION, 1), await logs.open(OTHER, 1)
    await refusal(damaged)
    assert (await whole.append(batch())).base_offset == 0
    assert await served(whole) == [0, 1, 2]
    await damaged.close()
    await whole.close()


async def test_what_the_start_does_not_check_is_checked_soon_after_and_stops_writes():
    disk = MemoryDisk(random.Random(1))
    small = {"segment_bytes": SEGMENT_HEADER + 4 * SIZE, "verify_open_bytes": 2 * SIZE}
    await filled(disk, 12, **small)
    files = segments(disk)
    flip(disk, files[1], SEGMENT_HEADER + SIZE + CRC_AT)
    clock = ManualClock()
    log = await EmbeddedRecordLogs(disk, clock, LogSettings(**small)).open(PARTITION, 1)
    assert log.corruption is None  # the snapshot of that segment says nothing of its bytes
    for _ in range(100):
        await clock.advance(20)
    assert log.corruption is not None
    assert f"{files[1]}, position {SEGMENT_HEADER + SIZE}, offset 15:" in await refusal(log)
    assert await log.delete_records(18) == 18
    assert log.corruption is None
    assert (await log.append(batch())).base_offset == 36
    await log.close()


async def test_damage_that_a_read_finds_stops_writes_until_the_log_start_passes_it():
    disk = MemoryDisk(random.Random(1))
    log = await logs_on(disk, recent_bytes_max=0).open(PARTITION, 0)
    for _ in range(4):
        await log.append(batch())
    file = log._log._file
    flip(disk, segments(disk)[0], SEGMENT_HEADER + SIZE + CRC_AT)
    with pytest.raises(RefusedError) as refused:
        await log.read(3, max_bytes=100)
    assert refused.value.error == ErrorCode.KAFKA_STORAGE_ERROR
    assert "--before 6`" in await refusal(log)
    file.close()
    log._log._file = disk.open(segments(disk)[0])  # flip replaced the file
    assert await log.delete_records(6) == 6
    assert (await log.append(batch())).base_offset == 12
    assert await served(log) == list(range(6, 15))
    await log.close()


async def test_the_search_for_damage_goes_on_once_the_first_was_given_up():
    disk = MemoryDisk(random.Random(1))
    small = {"segment_bytes": SEGMENT_HEADER + 4 * SIZE, "verify_open_bytes": 2 * SIZE}
    await filled(disk, 16, **small)
    files = segments(disk)
    for number in (0, 2):
        flip(disk, files[number], SEGMENT_HEADER + SIZE + CRC_AT)
    clock = ManualClock()
    log = await EmbeddedRecordLogs(disk, clock, LogSettings(**small)).open(PARTITION, 1)
    for damaged, resumed in ((3, 6), (27, 30)):
        for _ in range(100):
            await clock.advance(20)
        assert f"offset {damaged}:" in await refusal(log)
        assert await log.delete_records(resumed) == resumed
        assert log.corruption is None
    assert await served(log) == list(range(30, 48))
    await log.close()


async def test_a_record_that_its_producer_broke_is_no_damage():
    disk = MemoryDisk(random.Random(1))
    log = await logs_on(disk).open(PARTITION, 0)
    broken = bytearray(batch(3))
    broken[BATCH_HEADER:] = bytes(255 for _ in broken[BATCH_HEADER:])
    struct.pack_into(">I", broken, CRC_AT, crc32c(memoryview(broken)[CRC_AT + 4 :]))
    assert (await log.append(bytes(broken))).base_offset == 0
    assert await log.offset_for_timestamp(0, nullcontext) == (0, 1)  # it counts as one piece
    assert (await log.append(batch())).base_offset == 3
    assert await served(log) == list(range(6))
    await log.close()
