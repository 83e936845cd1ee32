"""Searches by time open few batches of strangers, and little of each (BND-35)."""

import asyncio
import struct
from contextlib import asynccontextmanager, nullcontext
from random import Random

import pytest
from aiokafka.record.default_records import DefaultRecordBatchBuilder

from sharemesh.backends.embedded.records import record_reader
from sharemesh.backends.embedded.records.record_logs import EmbeddedRecordLogs
from sharemesh.backends.embedded.records.record_reader import BATCHES_OPENED_MAX
from sharemesh.backends.embedded.settings import LogSettings
from sharemesh.codec.batch_frame import CRC_START, HEADER
from sharemesh.codec.hashes import crc32c
from sharemesh.codec.record_set import COMPRESSION, build_batch
from sharemesh.domain.ids import TopicId, TopicPartition
from sharemesh.testing.memory_disk import MemoryDisk
from tests.clocks import ManualClock

PARTITION = TopicPartition(TopicId(bytes(range(16))), 3)
WANTED_MS = 5_000
MIB = 1 << 20


def claiming(batch, max_ms):
    """Return a batch whose header names a newest time that its records need not have."""
    header = list(HEADER.unpack_from(batch))
    header[8] = max_ms
    HEADER.pack_into(batch, 0, *header)
    header[4] = crc32c(memoryview(batch)[CRC_START:])
    HEADER.pack_into(batch, 0, *header)
    return bytes(batch)


def made(count, *, time_ms=1_000, value=b"v", compression="none"):
    records = [(None, value, ())] * count
    return build_batch(records, timestamp_ms=time_ms, compression=COMPRESSION[compression])


@asynccontextmanager
async def log_with(*batches):
    log = await EmbeddedRecordLogs(MemoryDisk(Random(1)), ManualClock(), LogSettings()).open(
        PARTITION, 0
    )
    for each in batches:
        await log.append(bytes(each))
    yield log
    await log.close()


@pytest.fixture
def opened(monkeypatch):
    """Return how many batches were opened."""
    real, seen = record_reader.opened_batch, []

    def opened_batch(batch):
        seen.append(batch)
        return real(batch)

    monkeypatch.setattr(record_reader, "opened_batch", opened_batch)
    return seen


async def test_bnd_35_headers_that_lie_cost_two_batches_and_the_next_counts_as_one_piece(opened):
    lies = [claiming(made(10), WANTED_MS + n) for n in range(20)]
    async with log_with(made(10), *lies, made(1, time_ms=WANTED_MS)) as log:
        found = await log.offset_for_timestamp(WANTED_MS, nullcontext)
        third = BATCHES_OPENED_MAX
        assert found == (10 + 10 * third, WANTED_MS + third)
        assert len(opened) == BATCHES_OPENED_MAX


async def test_bnd_35_the_record_is_found_behind_one_header_that_lied(opened):
    behind = made(1, time_ms=WANTED_MS)
    async with log_with(made(10), claiming(made(10), WANTED_MS), made(10), behind) as log:
        assert await log.offset_for_timestamp(WANTED_MS, nullcontext) == (30, WANTED_MS)
        assert len(opened) == 2


@pytest.mark.parametrize("codec", ["gzip", "zstd", "lz4"])
async def test_bnd_35_a_bomb_counts_as_one_piece_and_records_before_its_bound_are_found(codec):
    bomb = claiming(made(5, value=bytes(5 * MIB), compression=codec), WANTED_MS)
    async with log_with(made(10), bomb, made(1, time_ms=9_000)) as log:
        assert await log.offset_for_timestamp(WANTED_MS, nullcontext) == (14, WANTED_MS)
        assert await log.offset_for_timestamp(WANTED_MS + 1, nullcontext) == (15, 9_000)
        assert await log.offset_for_timestamp(1_000, nullcontext) == (0, 1_000)
        await log.delete_records(11)
        assert await log.offset_for_timestamp(1_000, nullcontext) == (11, 1_000)
        assert await log.offset_for_timestamp(WANTED_MS, nullcontext) == (14, WANTED_MS)


async def test_bnd_35_of_a_batch_of_very_many_records_the_rest_counts_as_one_piece(monkeypatch):
    monkeypatch.setattr(record_reader, "RECORDS_LOOKED_AT_MAX", 50)
    async with log_with(claiming(made(100), WANTED_MS)) as log:
        assert await log.offset_for_timestamp(WANTED_MS, nullcontext) == (50, WANTED_MS)
        assert await log.offset_for_timestamp(1_000, nullcontext) == (0, 1_000)


async def test_bnd_35_a_record_that_claims_an_offset_outside_its_batch_is_not_the_answer():
    records = DefaultRecordBatchBuilder(2, 0, 0, -1, -1, -1, 1 << 20)
    for offset, time_ms in ((0, 1_000), (7_000, WANTED_MS), (2, WANTED_MS)):
        records.append(offset, time_ms, None, b"v", [])
    lying = bytearray(records.build())
    struct.pack_into(">i", lying, 23, 2)  # the last offset delta
    async with log_with(made(3), claiming(lying, WANTED_MS)) as log:
        assert await log.offset_for_timestamp(WANTED_MS, nullcontext) == (4, WANTED_MS)


async def test_bnd_35_a_turn_is_held_until_the_thread_is_free_though_the_caller_is_gone():
    held = []

    @asynccontextmanager
    async def turn():
        held.append(True)
        try:
            yield
        finally:
            held.append(False)

    class SlowDisk(MemoryDisk):
        """The jobs of opening end when the test says so."""

        gate = None

        async def run(self, job):
            if self.gate is not None and getattr(job, "func", None) is record_reader._first_at:
                begun.set()
                await self.gate.wait()
            return await super().run(job)

    disk, begun = SlowDisk(Random(1)), asyncio.Event()
    log = await EmbeddedRecordLogs(disk, ManualClock(), LogSettings()).open(PARTITION, 0)
    await log.append(bytes(made(10, time_ms=WANTED_MS)))
    disk.gate = asyncio.Event()
    search = asyncio.create_task(log.offset_for_timestamp(WANTED_MS, turn))
    await begun.wait()
    search.cancel()
    await asyncio.wait({search}, timeout=0.01)
    assert held == [True]
    disk.gate.set()
    with pytest.raises(asyncio.CancelledError):
        await search
    assert held == [True, False]
    await log.close()
