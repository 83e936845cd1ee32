"""The port RecordLog: one suite over files, the memory disk, and Kafka in memory."""

import asyncio
import struct
from collections.abc import AsyncIterator
from contextlib import nullcontext

import pytest

from sharemesh.codec.batch_frame import CONTROL
from sharemesh.codec.hashes import crc32c
from sharemesh.codec.record_set import COMPRESSION, build_batch, decode_records
from sharemesh.domain.errors import ErrorCode
from sharemesh.ports.shard_log import FencedError, LogFailedError
from tests.aborted import aborted_in
from tests.backends.kafka.real_topics import real_topics
from tests.backends.kafka.record_log_world import kafka_world
from tests.contract.disks import make_disk
from tests.contract.record_logs import (
    OnBrokers,
    OnDisk,
    OnKafka,
    batch,
    idempotent,
    offsets,
    refused,
    until,
)

ROOM_IN_MEMORY = {"from-disk": 0, "some-in-memory": 5_000, "in-memory": 32 << 20}
FILLINGS = [f"{kind}-{room}" for kind in ("system", "memory") for room in ROOM_IN_MEMORY]


@pytest.fixture(params=[*FILLINGS, "brokers", pytest.param("kafka", marks=pytest.mark.kafka)])
async def logs(request, tmp_path) -> AsyncIterator[OnDisk | OnBrokers | OnKafka]:
    if request.param == "kafka":
        async with real_topics(request.getfixturevalue("kafka_broker").bootstrap) as topics:
            yield OnKafka(topics, await topics.topic())
        return
    if request.param == "brokers":
        async with kafka_world() as world:
            yield OnBrokers(world)
        return
    kind, _, room = request.param.partition("-")
    disk = make_disk(kind, tmp_path)
    yield OnDisk(disk, ROOM_IN_MEMORY[room])
    disk.close()


# ---- append and read ---------------------------------------------------------------------------


async def test_a_new_partition_is_empty(logs):
    log = await logs.open(0)
    assert (log.leader_epoch, log.log_start_offset, log.high_watermark) == (0, 0, 0)
    assert log.last_stable_offset == 0
    assert (await log.read(0, max_bytes=100)).headers == ()
    assert await log.offset_for_timestamp(0, nullcontext) is None
    assert log.bytes_between(0, 100) == 0
    await log.close()


async def test_appends_get_offsets_and_are_read_back_byte_for_byte(logs):
    log = await logs.open(4)
    sent = batch(3)
    first = await log.append(sent)
    second = await log.append(sent + sent)
    assert (first.base_offset, first.last_offset) == (0, 2)
    assert (second.base_offset, second.last_offset) == (3, 8)
    assert log.high_watermark == 9
    result = await log.read(4, max_bytes=1 << 20)
    # What lies in memory may be one of them: a read gives at least one batch.
    assert [(h.base_offset, h.last_offset) for h in result.headers] in (
        [(3, 5)],
        [(3, 5), (6, 8)],
    )
    assert await offsets(log, 4) == list(range(3, 9))
    assert len(result.records) == len(result.headers) * len(sent)
    # Only base offset and leader epoch differ from what was sent (LOG-1).
    assert result.records[8:12] == sent[8:12]
    assert result.records[16 : len(sent)] == sent[16:]
    assert [record.offset for record in decode_records(result.records[: len(sent)])] == [3, 4, 5]
    await log.close()


@pytest.mark.parametrize("compression", sorted(COMPRESSION.values()))
async def test_compressed_batches_pass_untouched(logs, compression):
    log = await logs.open(0)
    sent = batch(50, value=b"x" * 100, compression=compression)
    await log.append(sent)
    result = await log.read(0, max_bytes=1 << 20)
    assert result.records[16:] == sent[16:]
    assert result.headers[0].record_count == 50
    assert await log.offset_for_timestamp(1_000, nullcontext) == (0, 1_000)
    await log.close()


async def test_a_read_gives_at_least_one_batch_and_no_more_than_fits(logs):
    log = await logs.open(0)
    sent = batch(3)
    for _ in range(4):
        await log.append(sent)
    assert len((await log.read(0, max_bytes=1)).headers) == 1
    for fits in (len(sent) * 2, len(sent) * 3 - 1):  # what lies in memory may be less than fits
        assert len((await log.read(0, max_bytes=fits)).headers) in (1, 2)
    assert await offsets(log, 0, end=6) == list(range(6))
    assert await offsets(log, 0, end=7) == list(range(9))  # whole batches
    await log.close()


async def test_reads_outside_the_log_are_refused(logs):
    log = await logs.open(0)
    await log.append(batch(3))
    await refused(log.read(4, max_bytes=1), ErrorCode.OFFSET_OUT_OF_RANGE, r"offset 4 is not in")
    await refused(log.read(-1, max_bytes=1), ErrorCode.OFFSET_OUT_OF_RANGE)
    assert (await log.read(3, max_bytes=1)).headers == ()
    await log.close()


async def test_the_first_record_at_or_after_a_time_is_found_inside_a_batch(logs):
    log = await logs.open(0)
    made = build_batch([(b"k", b"v", ())] * 1, timestamp_ms=500)
    await log.append(bytes(made))
    await log.append(batch(2, time_ms=900))
    assert await log.offset_for_timestamp(501, nullcontext) == (1, 900)
    assert await log.offset_for_timestamp(0, nullcontext) == (0, 500)
    await log.close()


async def test_moves_of_the_ends_are_called_back(logs):
    log = await logs.open(0)
    seen: list[tuple[int, int]] = []
    log.on_advance(lambda: seen.append((log.log_start_offset, log.high_watermark)))
    await log.append(batch(3))
    await until(lambda: seen)
    await log.delete_records(2)
    await until(lambda: seen[-1] == (2, 3))
    assert seen == sorted(seen)
    await log.close()


async def test_concurrent_appends_get_one_offset_each(logs):
    log = await logs.open(0)
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
    log = await logs.open(0)
    await refused(log.append(data), error)
    await refused(log.append(GOOD + data), error) if data else None
    assert log.high_watermark == 0
    assert (await log.append(GOOD)).base_offset == 0
    await log.close()


async def test_a_batch_larger_than_the_topic_allows_is_refused(logs):
    log = await logs.open(0)
    await logs.limit_batches(200)
    await refused(log.append(batch(1, value=bytes(200))), ErrorCode.MESSAGE_TOO_LARGE)
    await log.append(batch(1))
    await log.close()


# ---- idempotent producers ----------------------------------------------------------------------


async def test_a_duplicate_of_the_last_five_batches_is_answered_with_its_old_offsets(logs):
    log = await logs.open(0)
    for n in range(6):
        await log.append(idempotent(2 * n))
    for n in range(1, 6):
        again = await log.append(idempotent(2 * n))
        assert (again.base_offset, again.last_offset) == (2 * n, 2 * n + 1)
    await refused(log.append(idempotent(0)), ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    assert log.high_watermark == 12
    await log.close()


async def test_a_duplicate_that_is_sent_while_the_first_waits_is_written_once(logs):
    log = await logs.open(0)
    results = await asyncio.gather(*(log.append(idempotent(0)) for _ in range(5)))
    assert {result.base_offset for result in results} == {0}
    assert log.high_watermark == 2
    await log.close()


async def test_epochs_of_a_producer_only_grow_and_start_at_sequence_zero(logs):
    log = await logs.open(0)
    await log.append(idempotent(0, epoch=1))
    await refused(log.append(idempotent(2, epoch=0)), ErrorCode.INVALID_PRODUCER_EPOCH)
    await refused(log.append(idempotent(2, epoch=2)), ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    await log.append(idempotent(0, epoch=2))
    await log.close()


async def test_a_sequence_gap_is_refused_and_sequences_wrap(logs):
    log = await logs.open(0)
    top = 2**31 - 2
    await log.append(idempotent(top))  # nothing is known of this producer: any sequence begins
    await refused(log.append(idempotent(5)), ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    await log.append(idempotent(0))
    await log.close()


async def test_a_request_of_old_and_new_batches_writes_the_new_ones(logs):
    log = await logs.open(0)
    await log.append(idempotent(0))
    result = await log.append(idempotent(0) + idempotent(2))
    assert (result.base_offset, result.last_offset) == (0, 3)
    assert log.high_watermark == 4
    await log.close()


# ---- transactions ------------------------------------------------------------------------------


async def test_open_transactions_hold_the_last_stable_offset(logs):
    if not logs.takes_transactions:
        pytest.skip("tests/backends/kafka has a producer of transactions")
    log = await logs.open(0)
    await logs.write(batch(1))
    await logs.write(idempotent(0, producer=1, is_transactional=True))  # 1, 2
    await logs.write(idempotent(0, producer=2, is_transactional=True))  # 3, 4
    await until(lambda: log.high_watermark == 5)
    assert log.last_stable_offset == 1
    await logs.end(1, commit=True)  # 5
    await until(lambda: log.last_stable_offset == 3)
    await logs.end(2, commit=False)  # 6
    await until(lambda: log.last_stable_offset == 7)
    assert log.high_watermark == 7
    aborted = [(2, 3)]
    assert await aborted_in(log, 0) == aborted
    assert await aborted_in(log, 0, 3) == []
    assert await aborted_in(log, 6, 7) == aborted
    assert await aborted_in(log, 7) == []
    for reader in (log, await logs.open(1)):
        headers = (await reader.read(5, max_bytes=1 << 20)).headers
        assert [(h.is_control, h.is_abort_marker) for h in headers] == [(True, False), (True, True)]
        assert await aborted_in(reader, 0) == aborted
        assert reader.last_stable_offset == 7
    await log.close()
    await reader.close()


# ---- log start ---------------------------------------------------------------------------------


async def test_deleted_records_stay_deleted_for_every_later_leader(logs):
    log = await logs.open(0)
    for _ in range(4):
        await log.append(batch(3))
    assert await log.delete_records(7) == 7
    assert (log.log_start_offset, log.high_watermark) == (7, 12)
    await refused(log.read(6, max_bytes=1), ErrorCode.OFFSET_OUT_OF_RANGE)
    assert (await log.append(batch(3))).base_offset == 12
    for reader in (log, await logs.open(1)):
        assert reader.log_start_offset == 7
        assert (await offsets(reader, 7))[-1] == 14
    assert await reader.delete_records(-1) == 15
    assert (reader.log_start_offset, reader.high_watermark) == (15, 15)
    assert (await reader.read(15, max_bytes=1)).headers == ()
    assert (await reader.append(batch(1))).base_offset == 15
    await log.close()
    await reader.close()


async def test_deleting_past_the_high_watermark_is_refused(logs):
    log = await logs.open(0)
    await log.append(batch(3))
    for offset in (4, -2):
        await refused(log.delete_records(offset), ErrorCode.OFFSET_OUT_OF_RANGE)
    assert await log.delete_records(0) == 0
    await log.close()


# ---- ownership ---------------------------------------------------------------------------------


async def test_a_look_of_the_old_leader_fails_after_a_take_over(logs):
    old = await logs.open(1)
    await old.append(batch(3))
    new = await logs.open(2)
    with pytest.raises(FencedError):
        await old.look()
    assert await offsets(old, 0) == [0, 1, 2]
    assert (await new.append(batch(3))).base_offset == 3
    await old.close()
    await new.close()


async def test_log_8_a_look_counts_only_for_who_came_before_it_began(logs):
    log = await logs.open(1)
    before = log.looks_begun()
    assert not log.has_looked_since(before)
    await log.look()
    assert not log.has_looked_since(log.looks_begun())
    await log.close()
    assert not log.has_looked_since(before)


async def test_a_look_returns_while_nobody_else_owns_the_partition(logs):
    log = await logs.open(1)
    await log.look()
    await log.close()
    with pytest.raises(LogFailedError):
        await log.look()


# ---- corruption --------------------------------------------------------------------------------
