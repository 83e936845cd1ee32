"""Record logs in files: what the port promises, and what only their segments show."""

import asyncio
from contextlib import nullcontext
from random import Random

import pytest

from sharemesh.backends.embedded.records.record_logs import EmbeddedRecordLogs
from sharemesh.backends.embedded.settings import LogSettings
from sharemesh.codec.batch_frame import walk_frames
from sharemesh.domain.errors import ErrorCode
from sharemesh.domain.ids import TopicId, TopicPartition
from sharemesh.ports.record_log import TopicLogConfig
from sharemesh.ports.shard_log import FencedError
from sharemesh.testing.memory_disk import MemoryDisk
from tests.clocks import ManualClock
from tests.contract.disks import KINDS, make_disk
from tests.contract.record_logs import batch, idempotent, offsets, refused
from tests.record_directories import partitions_on

PARTITION = TopicPartition(TopicId(bytes(range(16))), 3)
FOLDER = f"records/{bytes(range(16)).hex()}/00003"


@pytest.fixture(params=KINDS)
def disk(request, tmp_path):
    disk = make_disk(request.param, tmp_path)
    yield disk
    disk.close()


@pytest.fixture
def clock():
    return ManualClock()


@pytest.fixture(params=[0, 5_000, 32 << 20], ids=["from-disk", "some-in-memory", "in-memory"])
def recent_bytes_max(request):
    return request.param


@pytest.fixture
def logs(disk, clock, recent_bytes_max):
    return EmbeddedRecordLogs(disk, clock, LogSettings(recent_bytes_max=recent_bytes_max))


@pytest.fixture
def small_logs(disk, recent_bytes_max):
    settings = LogSettings(
        segment_bytes=2_000, index_interval_bytes=200, recent_bytes_max=recent_bytes_max
    )
    return EmbeddedRecordLogs(disk, ManualClock(), settings)


async def test_a_read_gives_as_many_batches_as_fit(logs):
    log = await logs.open(PARTITION, 0)
    sent = batch(3)
    for _ in range(4):
        await log.append(sent)
    assert len((await log.read(0, max_bytes=len(sent) * 2)).headers) == 2
    assert len((await log.read(0, max_bytes=len(sent) * 3 - 1)).headers) == 2
    await log.close()


class CountingDisk(MemoryDisk):
    """Notes how many bytes are asked for."""

    def __init__(self):
        super().__init__(Random(1))
        self.asked: list[int] = []

    def read(self, path, offset=0, size=None):
        self.asked.append(size)
        return super().read(path, offset, size)


async def read_counting(at, end, value_bytes, batches):
    """Return what is read of equal batches, each of three records, and what the disk was asked."""
    disk = CountingDisk()
    settings = LogSettings(index_interval_bytes=1_000, recent_bytes_max=0)
    log = await EmbeddedRecordLogs(disk, ManualClock(), settings).open(PARTITION, 0)
    for _ in range(batches):
        await log.append(batch(3, value=b"v" * value_bytes))
    disk.asked.clear()
    found = await log.read(at, max_bytes=2_500, end_offset=end)
    await log.close()
    return found, disk.asked


@pytest.mark.parametrize(("at", "end"), [(0, 3), (3, 6), (4, 5), (3, 5), (6, 36), (33, 36)])
async def test_a_batch_larger_than_a_read_is_asked_of_the_disk_once(at, end):
    found, asked = await read_counting(at, end, 1_500, batches=12)
    assert [each.base_offset for each in found.headers] == [at // 3 * 3]
    assert asked == [len(found.records)]


async def test_what_lies_behind_the_end_of_a_read_is_not_asked_of_the_disk():
    found, asked = await read_counting(300, 303, 20, batches=200)
    assert [each.base_offset for each in found.headers] == [300]
    assert sum(asked) <= 1_000 + 2 * len(found.records)


async def test_the_header_of_a_batch_carries_the_epoch_of_its_leader(logs):
    log = await logs.open(PARTITION, 4)
    await log.append(batch(3) + batch(3))
    result = await log.read(0, max_bytes=1 << 20)
    assert [h.leader_epoch for h in result.headers] == [4, 4]
    await log.close()


async def test_a_log_over_many_segments_reads_whole_also_after_a_take_over(small_logs, disk):
    log = await small_logs.open(PARTITION, 0)
    for n in range(40):
        await log.append(batch(3, time_ms=1_000 + n))
    assert len([name for name in disk.list(FOLDER) if name.endswith(".log")]) >= 3
    for reader in (log, await small_logs.open(PARTITION, 1)):
        assert await offsets(reader, 0) == list(range(120))
        assert await offsets(reader, 0, max_bytes=1) == list(range(120))
        for start in (1, 50, 119):
            first = (await reader.read(start, max_bytes=1)).headers[0]
            assert first.base_offset <= start <= first.last_offset
        for n in (0, 7, 39):
            assert await reader.offset_for_timestamp(1_000 + n, nullcontext) == (3 * n, 1_000 + n)
        assert await reader.offset_for_timestamp(2_000, nullcontext) is None
        assert reader.bytes_between(0, 120) == 40 * len(batch(3))
        assert abs(reader.bytes_between(30, 60) - 10 * len(batch(3))) < 100
        assert reader.bytes_between(119, 120) >= 1
    await log.close()
    await reader.close()


async def test_advances_are_called_back_in_order(logs):
    log = await logs.open(PARTITION, 0)
    seen: list[tuple[int, int]] = []
    log.on_advance(lambda: seen.append((log.log_start_offset, log.high_watermark)))
    await log.append(batch(3))
    await log.delete_records(2)
    assert seen == [(0, 3), (2, 3)]
    await log.close()


async def test_a_full_volume_refuses_produce_and_serves_reads_and_recovers(logs, disk, clock):
    log = await logs.open(PARTITION, 0)
    await log.append(batch(3))
    free = disk.free_bytes
    disk.free_bytes = lambda: 1_000_000
    await clock.advance(2_000)  # as long as the last answer of the disk is trusted, and longer
    for _ in range(3):
        await refused(log.append(batch(3)), ErrorCode.KAFKA_STORAGE_ERROR, "reserve")
    assert await offsets(log, 0) == [0, 1, 2]
    assert await log.delete_records(2) == 2  # the way to get space back stays open
    disk.free_bytes = free
    assert (await log.append(batch(3))).base_offset == 3
    await log.close()


async def test_the_place_of_batches_is_told_before_their_commit_in_the_order_of_appends(
    logs, clock
):
    """KLS-3: what is appended then lies behind; what is refused has no place."""
    log = await logs.open(PARTITION, 0)
    await clock.advance(2_000)  # the first append asks the disk for room, which takes a while
    told = []

    async def append(name, batches):
        placed = asyncio.Event()

        def tell():
            told.append((name, log.high_watermark))
            placed.set()

        work = asyncio.ensure_future(log.append(batches, tell))
        waits = asyncio.ensure_future(placed.wait())
        await asyncio.wait((work, waits), return_when=asyncio.FIRST_COMPLETED)
        waits.cancel()
        return work

    works = [await append(n, idempotent(sequence)) for n, sequence in enumerate((0, 2, 0, 4))]
    assert [name for name, _ in told] == [0, 1, 2, 3]
    assert told[0] == (0, 0)  # nothing was committed
    landed = [await each for each in works]
    assert [each.base_offset for each in landed] == [0, 2, 0, 4]  # the third is the first again
    work = await append("refused", idempotent(9))
    await refused(work, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    assert len(told) == 4
    await log.close()


async def test_a_duplicate_after_a_failover_is_answered_too(logs):
    log = await logs.open(PARTITION, 0)
    await log.append(idempotent(0))
    await log.append(idempotent(2))
    await log.close()
    log = await logs.open(PARTITION, 1)
    assert (await log.append(idempotent(2))).base_offset == 2
    await refused(log.append(idempotent(5)), ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, "4 is next")
    assert (await log.append(idempotent(4))).base_offset == 4
    assert log.highest_producer_id == 7
    await log.close()


async def test_a_transaction_stays_open_over_a_failover(logs):
    log = await logs.open(PARTITION, 0)
    await log.append(idempotent(0, is_transactional=True))
    await log.close()
    log = await logs.open(PARTITION, 1)
    assert (log.high_watermark, log.last_stable_offset) == (2, 0)
    await log.append_txn_marker(7, 0, commit=True)
    assert log.last_stable_offset == 3
    await log.close()


@pytest.mark.parametrize("epoch", [-1, 32_768, 2**31 - 1])
async def test_a_marker_of_an_epoch_that_no_producer_can_have_is_refused(logs, epoch):
    log = await logs.open(PARTITION, 0)
    await refused(log.append_txn_marker(7, epoch, commit=True), ErrorCode.INVALID_PRODUCER_EPOCH)
    assert log.high_watermark == 0
    await log.close()


async def test_a_marker_of_an_old_producer_epoch_is_refused(logs):
    log = await logs.open(PARTITION, 0)
    await log.append(idempotent(0, epoch=3, is_transactional=True))
    await refused(log.append_txn_marker(7, 2, commit=True), ErrorCode.INVALID_PRODUCER_EPOCH)
    await log.append_txn_marker(7, 3, commit=True)
    await log.append(idempotent(2, epoch=3, is_transactional=True))
    await log.close()


async def test_deleted_records_stay_deleted_and_take_no_offset(small_logs, disk):
    log = await small_logs.open(PARTITION, 0)
    for _ in range(40):
        await log.append(batch(3))
    files = len(disk.list(FOLDER))
    assert await log.delete_records(100) == 100
    assert (log.log_start_offset, log.high_watermark) == (100, 120)
    assert len(disk.list(FOLDER)) < files
    await refused(log.read(99, max_bytes=1), ErrorCode.OFFSET_OUT_OF_RANGE)
    assert (await log.append(batch(3))).base_offset == 120
    for reader in (log, await small_logs.open(PARTITION, 1)):
        assert reader.log_start_offset == 100
        assert (await offsets(reader, 100))[-1] == 122
        result = await reader.read(100, max_bytes=1 << 20)
        frames = walk_frames(
            result.records,
            start=0,
            limit=len(result.records),
            base_offset=None,
            leader_epoch=None,
            check_crc=True,
        ).frames
        assert not any(frame.is_marker for frame in frames)  # nobody outside sees one
    assert await reader.delete_records(-1) == 123
    assert (reader.log_start_offset, reader.high_watermark) == (123, 123)
    assert (await reader.read(123, max_bytes=1)).headers == ()
    assert (await reader.append(batch(1))).base_offset == 123
    await log.close()
    await reader.close()


async def test_retention_by_time_drops_whole_old_segments(small_logs, disk):
    log = await small_logs.open(PARTITION, 0)
    for n in range(40):
        await log.append(batch(3, time_ms=1_000 * n))
    log.configure(TopicLogConfig(retention_ms=10_000))
    start = await log.apply_retention(40_000)
    assert 30 <= start <= 90  # batch 30 is the first that must stay: whole segments go
    assert start % 3 == 0
    assert await log.apply_retention(40_000) == start
    assert await log.apply_retention(10**9) == log.high_watermark
    assert (await log.append(batch(1))).base_offset == 120
    await log.close()


async def test_retention_by_bytes_keeps_at_least_that_much(small_logs):
    log = await small_logs.open(PARTITION, 0)
    for _ in range(40):
        await log.append(batch(3))
    size = log.size_bytes
    log.configure(TopicLogConfig(retention_bytes=size // 2))
    start = await log.apply_retention(0)
    assert size // 2 <= log.size_bytes < size // 2 + 2_100
    assert log.bytes_between(start, 120) > size // 3
    log.configure(TopicLogConfig())
    assert await log.apply_retention(10**15) == start  # without limits nothing goes
    await log.close()


async def test_the_old_leader_is_fenced_by_a_take_over(logs):
    old = await logs.open(PARTITION, 1)
    await old.append(batch(3))
    new = await logs.open(PARTITION, 2)
    with pytest.raises(FencedError):
        await old.look()
    with pytest.raises(FencedError):
        await old.append(batch(3))
    assert await offsets(old, 0) == [0, 1, 2]
    assert (await new.append(batch(3))).base_offset == 3
    await old.close()
    await new.close()
    with pytest.raises(FencedError):
        await logs.open(PARTITION, 2)


async def test_deleting_a_partition_frees_its_directories_and_fences_its_leader(logs, disk):
    other = TopicPartition(PARTITION.topic_id, 4)
    log = await logs.open(PARTITION, 1)
    await log.append(batch(3))
    await (await logs.open(other, 1)).close()
    assert set(partitions_on(disk)) == {PARTITION, other}
    await logs.delete(PARTITION)
    await logs.delete(PARTITION)
    assert partitions_on(disk) == (other,)
    with pytest.raises(FencedError):
        await log.append(batch(3))
    await log.close()
    await logs.delete(other)
    assert disk.list("records") == []


# ---- corruption --------------------------------------------------------------------------------


def flip(disk, file: str, position: int) -> None:
    data = bytearray(disk.read(file))
    data[position] ^= 1
    disk.delete(file)
    broken = disk.create(file)
    broken.append(data)
    broken.close()


@pytest.mark.parametrize("at", [5, 10, 14, 16, 18, 45, 70])
async def test_a_flipped_bit_is_found_at_open_and_what_precedes_it_is_served(logs, disk, at):
    log = await logs.open(PARTITION, 0)
    for _ in range(3):
        await log.append(batch(3))
    await log.close()
    file = f"{FOLDER}/00000000000000000000-0000000000.log"
    second = 64 + len(batch(3))
    flip(disk, file, second + at)
    before = disk.read(file)
    log = await logs.open(PARTITION, 1)
    assert log.corruption is not None
    assert (log.corruption.file, log.corruption.position, log.corruption.offset) == (
        file,
        second,
        3,
    )
    assert log.high_watermark == 3
    assert await offsets(log, 0, end=3) == [0, 1, 2]
    place = f"{file}, position {second}, offset 3"
    await refused(log.append(batch(3)), ErrorCode.KAFKA_STORAGE_ERROR, place)
    await refused(log.read(3, max_bytes=1), ErrorCode.KAFKA_STORAGE_ERROR, place)
    await refused(log.read(5, max_bytes=1), ErrorCode.KAFKA_STORAGE_ERROR, place)
    assert disk.read(file) == before  # nobody truncates
    await log.close()
