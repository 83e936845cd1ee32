"""The port RecordLog: one suite over files and over the memory disk."""

import asyncio
import struct

import pytest

from sharemesh.backends.embedded.records.record_logs import EmbeddedRecordLogs
from sharemesh.backends.embedded.settings import LogSettings
from sharemesh.codec.batch_frame import CONTROL, walk_frames
from sharemesh.codec.hashes import crc32c
from sharemesh.codec.record_set import COMPRESSION, build_batch, decode_records
from sharemesh.domain.errors import ErrorCode, RefusedError
from sharemesh.domain.ids import TopicId, TopicPartition
from sharemesh.ports.record_log import TopicLogConfig
from sharemesh.ports.shard_log import FencedError, LogFailedError
from tests.aborted import aborted_in
from tests.clocks import ManualClock
from tests.contract.disks import KINDS, make_disk

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


def batch(count: int = 3, *, time_ms: int = 1_000, value: bytes = b"v", **fields) -> bytes:
    made = build_batch(
        [(b"k", value, (("h", b"x"),)) for _ in range(count)], timestamp_ms=time_ms, **fields
    )
    return bytes(made)


def idempotent(sequence: int, count: int = 2, *, epoch: int = 0, producer: int = 7, **fields):
    return batch(
        count, producer_id=producer, producer_epoch=epoch, base_sequence=sequence, **fields
    )


async def refused(awaitable, error: ErrorCode, match: str | None = None) -> None:
    with pytest.raises(RefusedError, match=match) as caught:
        await awaitable
    assert caught.value.error is error


async def offsets(log, start: int, end: int | None = None, max_bytes: int = 1 << 20) -> list[int]:
    found: list[int] = []
    while True:
        result = await log.read(start, max_bytes=max_bytes, end_offset=end)
        if not result.headers:
            return found
        for header in result.headers:
            found += range(header.base_offset, header.last_offset + 1)
        start = result.headers[-1].last_offset + 1


# ---- append and read ---------------------------------------------------------------------------


async def test_a_new_partition_is_empty(logs):
    log = await logs.open(PARTITION, 0)
    assert (log.leader_epoch, log.log_start_offset, log.high_watermark) == (0, 0, 0)
    assert log.last_stable_offset == 0
    assert (await log.read(0, max_bytes=100)).headers == ()
    assert await log.offset_for_timestamp(0) is None
    assert log.bytes_between(0, 100) == 0
    await log.close()


async def test_appends_get_offsets_and_are_read_back_byte_for_byte(logs):
    log = await logs.open(PARTITION, 4)
    sent = batch(3)
    first = await log.append(sent)
    second = await log.append(sent + sent)
    assert (first.base_offset, first.last_offset) == (0, 2)
    assert (second.base_offset, second.last_offset) == (3, 8)
    assert log.high_watermark == 9
    result = await log.read(4, max_bytes=1 << 20)
    assert [(h.base_offset, h.last_offset) for h in result.headers] == [(3, 5), (6, 8)]
    assert [h.leader_epoch for h in result.headers] == [4, 4]
    assert len(result.records) == 2 * len(sent)
    # Only base offset and leader epoch differ from what was sent (LOG-1).
    assert result.records[8:12] == sent[8:12]
    assert result.records[16 : len(sent)] == sent[16:]
    assert [record.offset for record in decode_records(result.records[: len(sent)])] == [3, 4, 5]
    await log.close()


@pytest.mark.parametrize("compression", sorted(COMPRESSION.values()))
async def test_compressed_batches_pass_untouched(logs, compression):
    log = await logs.open(PARTITION, 0)
    sent = batch(50, value=b"x" * 100, compression=compression)
    await log.append(sent)
    result = await log.read(0, max_bytes=1 << 20)
    assert result.records[16:] == sent[16:]
    assert result.headers[0].record_count == 50
    assert await log.offset_for_timestamp(1_000) == (0, 1_000)
    await log.close()


async def test_a_read_gives_at_least_one_batch_and_no_more_than_fits(logs):
    log = await logs.open(PARTITION, 0)
    sent = batch(3)
    for _ in range(4):
        await log.append(sent)
    assert len((await log.read(0, max_bytes=1)).headers) == 1
    assert len((await log.read(0, max_bytes=len(sent) * 2)).headers) == 2
    assert len((await log.read(0, max_bytes=len(sent) * 3 - 1)).headers) == 2
    assert await offsets(log, 0, end=6) == list(range(6))
    assert await offsets(log, 0, end=7) == list(range(9))  # whole batches
    await log.close()


async def test_reads_outside_the_log_are_refused(logs):
    log = await logs.open(PARTITION, 0)
    await log.append(batch(3))
    await refused(log.read(4, max_bytes=1), ErrorCode.OFFSET_OUT_OF_RANGE, r"offset 4 is not in")
    await refused(log.read(-1, max_bytes=1), ErrorCode.OFFSET_OUT_OF_RANGE)
    assert (await log.read(3, max_bytes=1)).headers == ()
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
            assert await reader.offset_for_timestamp(1_000 + n) == (3 * n, 1_000 + n)
        assert await reader.offset_for_timestamp(2_000) is None
        assert reader.bytes_between(0, 120) == 40 * len(batch(3))
        assert abs(reader.bytes_between(30, 60) - 10 * len(batch(3))) < 100
        assert reader.bytes_between(119, 120) >= 1
    await log.close()
    await reader.close()


async def test_the_first_record_at_or_after_a_time_is_found_inside_a_batch(logs):
    log = await logs.open(PARTITION, 0)
    made = build_batch([(b"k", b"v", ())] * 1, timestamp_ms=500)
    await log.append(bytes(made))
    await log.append(batch(2, time_ms=900))
    assert await log.offset_for_timestamp(501) == (1, 900)
    assert await log.offset_for_timestamp(0) == (0, 500)
    await log.close()


async def test_advances_are_called_back_in_order(logs):
    log = await logs.open(PARTITION, 0)
    seen: list[tuple[int, int]] = []
    log.on_advance(lambda: seen.append((log.log_start_offset, log.high_watermark)))
    await log.append(batch(3))
    await log.delete_records(2)
    assert seen == [(0, 3), (2, 3)]
    await log.close()


async def test_concurrent_appends_get_one_offset_each(logs):
    log = await logs.open(PARTITION, 0)
    results = await asyncio.gather(*(log.append(batch(2)) for _ in range(100)))
    assert sorted(result.base_offset for result in results) == list(range(0, 200, 2))
    assert await offsets(log, 0) == list(range(200))
    await log.close()


# ---- what is refused ---------------------------------------------------------------------------


def altered(data: bytes, at: int, fmt: str, value: int, *, sealed: bool = True) -> bytes:
    changed = bytearray(data)
    struct.pack_into(fmt, changed, at, value)
    if sealed:
        struct.pack_into(">I", changed, 17, crc32c(bytes(changed[21:])))
    return bytes(changed)


GOOD = batch(3)
BAD = {
    "nothing": (b"", ErrorCode.INVALID_RECORD),
    "a piece": (GOOD[:30], ErrorCode.CORRUPT_MESSAGE),
    "cut short": (GOOD[:-1], ErrorCode.CORRUPT_MESSAGE),
    "something behind": (GOOD + b"x", ErrorCode.CORRUPT_MESSAGE),
    "flipped bit": (altered(GOOD, 63, ">b", 99, sealed=False), ErrorCode.CORRUPT_MESSAGE),
    "wrong checksum": (altered(GOOD, 17, ">I", 5, sealed=False), ErrorCode.CORRUPT_MESSAGE),
    "length zero": (altered(GOOD, 8, ">i", 0), ErrorCode.CORRUPT_MESSAGE),
    "length negative": (altered(GOOD, 8, ">i", -5), ErrorCode.CORRUPT_MESSAGE),
    "length beyond": (altered(GOOD, 8, ">i", len(GOOD)), ErrorCode.CORRUPT_MESSAGE),
    "magic 1": (altered(GOOD, 16, ">b", 1), ErrorCode.INVALID_RECORD),
    "count too high": (altered(GOOD, 57, ">i", 4), ErrorCode.INVALID_RECORD),
    "count zero": (altered(GOOD, 57, ">i", 0), ErrorCode.INVALID_RECORD),
    "delta negative": (altered(GOOD, 23, ">i", -1), ErrorCode.INVALID_RECORD),
    "delta huge": (altered(GOOD, 23, ">i", 2**31 - 1), ErrorCode.INVALID_RECORD),
    "both huge": (
        altered(altered(GOOD, 23, ">i", 2**31 - 2), 57, ">i", 2**31 - 1),
        ErrorCode.INVALID_RECORD,
    ),
    "control": (altered(GOOD, 21, ">h", CONTROL), ErrorCode.INVALID_RECORD),
    "compression 5": (altered(GOOD, 21, ">h", 5), ErrorCode.INVALID_RECORD),
    "transaction without producer": (altered(GOOD, 21, ">h", 0x10), ErrorCode.INVALID_RECORD),
    "producer without epoch": (altered(GOOD, 43, ">q", 5), ErrorCode.INVALID_RECORD),
}


@pytest.mark.parametrize("name", BAD)
async def test_a_bad_batch_is_refused_and_nothing_is_written(logs, name):
    data, error = BAD[name]
    log = await logs.open(PARTITION, 0)
    await refused(log.append(data), error)
    await refused(log.append(GOOD + data), error) if data else None
    assert log.high_watermark == 0
    assert (await log.append(GOOD)).base_offset == 0
    await log.close()


async def test_a_batch_larger_than_the_topic_allows_is_refused(logs):
    log = await logs.open(PARTITION, 0)
    log.configure(TopicLogConfig(batch_bytes_max=200))
    await refused(log.append(batch(1, value=bytes(200))), ErrorCode.MESSAGE_TOO_LARGE, "200")
    await log.append(batch(1))
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


# ---- idempotent producers ----------------------------------------------------------------------


async def test_a_duplicate_of_the_last_five_batches_is_answered_with_its_old_offsets(logs):
    log = await logs.open(PARTITION, 0)
    for n in range(6):
        await log.append(idempotent(2 * n))
    for n in range(1, 6):
        again = await log.append(idempotent(2 * n))
        assert (again.base_offset, again.last_offset) == (2 * n, 2 * n + 1)
    await refused(log.append(idempotent(0)), ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    assert log.high_watermark == 12
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


async def test_a_duplicate_that_is_sent_while_the_first_waits_is_written_once(logs):
    log = await logs.open(PARTITION, 0)
    results = await asyncio.gather(*(log.append(idempotent(0)) for _ in range(5)))
    assert {result.base_offset for result in results} == {0}
    assert log.high_watermark == 2
    await log.close()


async def test_epochs_of_a_producer_only_grow_and_start_at_sequence_zero(logs):
    log = await logs.open(PARTITION, 0)
    await log.append(idempotent(0, epoch=1))
    await refused(log.append(idempotent(2, epoch=0)), ErrorCode.INVALID_PRODUCER_EPOCH)
    await refused(log.append(idempotent(2, epoch=2)), ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    await log.append(idempotent(0, epoch=2))
    await log.close()


async def test_a_sequence_gap_is_refused_and_sequences_wrap(logs):
    log = await logs.open(PARTITION, 0)
    top = 2**31 - 2
    await log.append(idempotent(top))  # nothing is known of this producer: any sequence begins
    await refused(log.append(idempotent(5)), ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, "0 is next")
    await log.append(idempotent(0))
    await log.close()


async def test_a_request_of_old_and_new_batches_writes_the_new_ones(logs):
    log = await logs.open(PARTITION, 0)
    await log.append(idempotent(0))
    result = await log.append(idempotent(0) + idempotent(2))
    assert (result.base_offset, result.last_offset) == (0, 3)
    assert log.high_watermark == 4
    await log.close()


# ---- transactions ------------------------------------------------------------------------------


async def test_open_transactions_hold_the_last_stable_offset(logs):
    log = await logs.open(PARTITION, 0)
    await log.append(batch(1))
    await log.append(idempotent(0, producer=1, is_transactional=True))  # 1, 2
    await log.append(idempotent(0, producer=2, is_transactional=True))  # 3, 4
    assert (log.high_watermark, log.last_stable_offset) == (5, 1)
    await log.append_txn_marker(1, 0, commit=True)  # 5
    assert log.last_stable_offset == 3
    await log.append_txn_marker(2, 0, commit=False)  # 6
    assert log.last_stable_offset == log.high_watermark == 7
    aborted = [(2, 3)]
    assert await aborted_in(log, 0) == aborted
    assert await aborted_in(log, 0, 3) == []
    assert await aborted_in(log, 6, 7) == aborted
    assert await aborted_in(log, 7) == []
    for reader in (log, await logs.open(PARTITION, 1)):
        headers = (await reader.read(5, max_bytes=1 << 20)).headers
        assert [(h.is_control, h.is_abort_marker) for h in headers] == [(True, False), (True, True)]
        assert await aborted_in(reader, 0) == aborted
        assert reader.last_stable_offset == 7
    await log.close()
    await reader.close()


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


# ---- log start and retention -------------------------------------------------------------------


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


async def test_deleting_past_the_high_watermark_is_refused(logs):
    log = await logs.open(PARTITION, 0)
    await log.append(batch(3))
    for offset in (4, -2):
        await refused(log.delete_records(offset), ErrorCode.OFFSET_OUT_OF_RANGE)
    assert await log.delete_records(0) == 0
    await log.close()


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


# ---- ownership ---------------------------------------------------------------------------------


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


async def test_a_look_returns_while_nobody_else_owns_the_partition(logs):
    log = await logs.open(PARTITION, 1)
    await log.look()
    await log.close()
    with pytest.raises(LogFailedError):
        await log.look()


async def test_deleting_a_partition_frees_its_directories_and_fences_its_leader(logs, disk):
    other = TopicPartition(PARTITION.topic_id, 4)
    log = await logs.open(PARTITION, 1)
    await log.append(batch(3))
    await (await logs.open(other, 1)).close()
    assert set(await logs.partitions()) == {PARTITION, other}
    await logs.delete(PARTITION)
    await logs.delete(PARTITION)
    assert await logs.partitions() == (other,)
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
