"""Transactions that nobody ends: how many there may be, how long, and what comes late (BND-11)."""

import asyncio
import random

import pytest

from sharemesh.backends.embedded.records import producers
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
OTHER = TopicPartition(TopicId(bytes(16)), 1)
LONG_MS = 900_000


@pytest.fixture
def disk():
    return MemoryDisk(random.Random(1))


@pytest.fixture
def clock():
    return ManualClock()


@pytest.fixture
def opened(disk, clock):
    async def take_over(epoch, partition=PARTITION, **settings):
        logs = EmbeddedRecordLogs(disk, clock, LogSettings(**settings))
        return await logs.open(partition, epoch)

    return take_over


def batch(sequence, *, producer=7, epoch=0, is_transactional=True):
    records = [(None, b"v", ())] * 2
    words = {"producer_epoch": epoch, "base_sequence": sequence}
    return bytes(
        build_batch(
            records,
            timestamp_ms=1,
            producer_id=producer,
            is_transactional=is_transactional,
            **words,
        )
    )


async def placed(log, end_offset):
    """Return once batches up to the offset wait for their commit."""
    async with asyncio.timeout(20):
        while log._commits.end_offset < end_offset:
            await asyncio.sleep(0)


async def refusal(log, records):
    with pytest.raises(RefusedError) as refused:
        await log.append(records)
    return refused.value


async def test_a_transaction_that_is_open_for_too_long_is_aborted(opened, clock):
    log = await opened(0)
    await log.append(batch(0))  # 0, 1
    await log.append(batch(0, is_transactional=False, producer=8))  # 2, 3
    await clock.advance(LONG_MS - 1)
    assert await log.abort_transactions(LONG_MS) == 0
    assert log.last_stable_offset == 0
    await clock.advance(1)
    assert await log.abort_transactions(LONG_MS) == 1
    assert log.last_stable_offset == log.high_watermark == 5
    assert await aborted_in(log, 0) == [(7, 0)]
    assert log.open_transactions() == []
    assert await log.abort_transactions(LONG_MS) == 0
    await log.close()


@pytest.mark.parametrize("power_cut", [False, True])
async def test_a_batch_that_comes_after_the_abort_is_fenced_by_every_later_leader(
    opened, clock, disk, power_cut
):
    log = await opened(0)
    await log.append(batch(0, epoch=3))
    await clock.advance(LONG_MS)
    await log.abort_transactions(LONG_MS)
    for epoch in (1, 2):
        for late in (batch(0, epoch=3), batch(2, epoch=3), batch(2, epoch=3, producer=7)):
            assert (await refusal(log, late)).error is ErrorCode.INVALID_PRODUCER_EPOCH
        if power_cut:
            disk.crash()
        else:
            await log.close()
        log = await opened(epoch)
        assert log.last_stable_offset == log.high_watermark
    await log.append(batch(0, epoch=4))  # who initializes again goes on under the next epoch
    await log.close()


async def test_what_waits_for_its_commit_belongs_to_what_is_aborted_or_is_fenced(opened, clock):
    log = await opened(0)
    await log.append(batch(0))  # 0, 1
    await clock.advance(LONG_MS)
    before = asyncio.create_task(log.append(batch(2)))  # 2, 3
    await placed(log, 4)
    aborting = asyncio.create_task(log.abort_transactions(LONG_MS))  # 4
    behind = asyncio.create_task(log.append(batch(4)))
    assert (await before).base_offset == 2
    assert await aborting == 1
    with pytest.raises(RefusedError, match="INVALID_PRODUCER_EPOCH"):
        await behind
    assert await aborted_in(log, 0) == [(7, 0)]
    assert log.last_stable_offset == 5
    await log.close()


async def test_the_next_transaction_is_not_aborted_for_one_whose_end_is_on_its_way(opened, clock):
    log = await opened(0)
    await log.append(batch(0))
    await clock.advance(LONG_MS)
    ending = asyncio.create_task(log.append_txn_marker(7, 0, commit=True))
    beginning = asyncio.create_task(log.append(batch(2)))
    await placed(log, 5)
    assert await log.abort_transactions(LONG_MS) == 0
    await asyncio.gather(ending, beginning)
    assert await aborted_in(log, 0) == []
    [still_open] = log.open_transactions()
    assert (still_open.producer_id, still_open.first_offset) == (7, 3)
    await log.close()


async def test_the_time_counts_again_from_a_take_over(opened, clock):
    log = await opened(0)
    await log.append(batch(0))
    await clock.advance(LONG_MS)
    await log.close()
    log = await opened(1)
    assert [each.age_ms for each in log.open_transactions()] == [0]
    assert await log.abort_transactions(LONG_MS) == 0
    await clock.advance(LONG_MS)
    assert await log.abort_transactions(LONG_MS) == 1
    await log.close()


async def test_open_transactions_are_bounded(opened, monkeypatch):
    monkeypatch.setattr(producers, "OPEN_TRANSACTIONS_MAX", 3)
    log = await opened(0)
    for producer in range(2):
        await log.append(batch(0, producer=producer))
    refused = await refusal(log, batch(0, producer=2) + batch(0, producer=3))
    assert refused.error is ErrorCode.INVALID_TXN_STATE
    assert "2 transactions are open in this partition, at most 3" in refused.message
    assert log.high_watermark == 4  # nothing of it was written
    await log.append(batch(0, producer=2) + batch(2, producer=2))
    assert (await refusal(log, batch(0, producer=3))).error is ErrorCode.INVALID_TXN_STATE
    await log.append(batch(2, producer=0))  # one that is open goes on
    await log.append(batch(0, producer=3, is_transactional=False))
    await log.close()
    log = await opened(1)
    assert (await refusal(log, batch(0, producer=4))).error is ErrorCode.INVALID_TXN_STATE
    await log.append_txn_marker(0, 0, commit=True)
    await log.append(batch(0, producer=4))
    await log.close()


async def test_batches_that_wait_for_their_commit_count_for_the_bound(opened, monkeypatch):
    monkeypatch.setattr(producers, "OPEN_TRANSACTIONS_MAX", 3)
    log = await opened(0)
    answers = await asyncio.gather(
        *(log.append(batch(0, producer=each)) for each in range(5)), return_exceptions=True
    )
    refused = [each for each in answers if isinstance(each, RefusedError)]
    assert [each.error for each in refused] == [ErrorCode.INVALID_TXN_STATE] * 2
    assert len(log.open_transactions()) == 3
    await log.close()


@pytest.mark.parametrize("snapshot", [False, True])
async def test_who_has_a_transaction_open_is_not_forgotten_for_other_producers(
    opened, clock, monkeypatch, snapshot
):
    monkeypatch.setattr(producers, "PRODUCERS_MAX", 5)
    log = await opened(0, segment_bytes=200 if snapshot else 1 << 20)
    await log.append(batch(0, epoch=9))
    for other in range(20, 40):
        await log.append(batch(0, producer=other, is_transactional=False))
    log.configure(TopicLogConfig(retention_ms=1_000))
    await log.apply_retention(clock.wall_ms())
    await log.close()
    log = await opened(1)
    for other in range(40, 60):
        await log.append(batch(0, producer=other, is_transactional=False))
    assert (await refusal(log, batch(2, epoch=8))).error is ErrorCode.INVALID_PRODUCER_EPOCH
    await clock.advance(LONG_MS)
    assert await log.abort_transactions(LONG_MS) == 1
    assert (await refusal(log, batch(2, epoch=9))).error is ErrorCode.INVALID_PRODUCER_EPOCH
    await log.close()


async def test_a_transaction_may_not_have_the_last_epoch_as_nothing_could_fence_it(opened):
    log = await opened(0)
    refused = await refusal(log, batch(0, epoch=32_767))
    assert refused.error is ErrorCode.INVALID_PRODUCER_EPOCH
    await log.append(batch(0, epoch=32_766))
    await log.append(batch(0, producer=8, epoch=32_767, is_transactional=False))
    await log.close()


async def test_a_newer_epoch_does_not_join_the_transaction_that_an_older_one_has_open(
    opened, clock
):
    first = await opened(0)
    await first.append(batch(0, epoch=3))
    await clock.advance(LONG_MS - 1)
    second = await opened(0, OTHER)  # its part of the transaction began later
    await second.append(batch(0, epoch=3))
    await clock.advance(1)
    assert await first.abort_transactions(LONG_MS) == 1
    assert await second.abort_transactions(LONG_MS) == 0
    await first.append(batch(0, epoch=4))  # initialized again
    for newer in (
        batch(0, epoch=4),
        batch(0, epoch=9),
        batch(0, epoch=4, is_transactional=False),  # else the next one would join
        batch(2, epoch=3) + batch(0, epoch=4),
    ):
        refused = await refusal(second, newer)
        assert refused.error is ErrorCode.INVALID_TXN_STATE
        assert "from offset 0 under an older epoch" in refused.message
        assert "sharemesh transactions abort" in refused.message
    assert second.high_watermark == 2  # nothing was written
    await second.append_txn_marker(7, 4, commit=False)  # as the command writes it
    await second.append(batch(0, epoch=4))
    await second.append_txn_marker(7, 4, commit=True)
    assert await aborted_in(second, 0) == [(7, 0)]
    assert second.last_stable_offset == second.high_watermark == 6
    await first.close()
    await second.close()


async def test_one_append_does_not_mix_epochs_in_a_transaction(opened):
    log = await opened(0)
    refused = await refusal(log, batch(0, epoch=3) + batch(0, epoch=4))
    assert refused.error is ErrorCode.INVALID_TXN_STATE
    assert log.high_watermark == 0
    await log.append(batch(0, epoch=3, is_transactional=False) + batch(0, epoch=4))
    await log.close()


@pytest.mark.parametrize("power_cut", [False, True])
@pytest.mark.parametrize("segment_bytes", [200, 1 << 20])  # with a snapshot, and scanned
async def test_later_leaders_know_under_which_epoch_a_transaction_is_open(
    opened, clock, disk, power_cut, segment_bytes
):
    log = await opened(0, segment_bytes=segment_bytes)
    await log.append(batch(0, epoch=3))
    for sequence in range(0, 20, 2):
        await log.append(batch(sequence, producer=8, is_transactional=False))
    for epoch in (1, 2):
        if power_cut:
            disk.crash()
        else:
            await log.close()
        log = await opened(epoch, segment_bytes=segment_bytes)
        refused = await refusal(log, batch(0, epoch=4))
        assert refused.error is ErrorCode.INVALID_TXN_STATE
    await log.append(batch(2, epoch=3))  # its own epoch goes on
    await clock.advance(LONG_MS)
    assert await log.abort_transactions(LONG_MS) == 1
    await log.append(batch(0, epoch=4))
    [still_open] = log.open_transactions()
    assert (still_open.first_offset, still_open.producer_epoch) == (25, 4)
    await log.close()


async def test_an_end_that_waits_for_its_commit_lets_the_newer_epoch_begin(opened):
    log = await opened(0)
    await log.append(batch(0))
    ending = asyncio.create_task(log.append_txn_marker(7, 1, commit=False))
    beginning = asyncio.create_task(log.append(batch(0, epoch=1)))
    await asyncio.gather(ending, beginning)
    assert await aborted_in(log, 0) == [(7, 0)]
    assert [each.first_offset for each in log.open_transactions()] == [3]
    await log.close()


async def test_many_old_transactions_are_aborted_in_turns(opened, clock, monkeypatch):
    monkeypatch.setattr("sharemesh.backends.embedded.records.record_log.MARKERS_AT_ONCE", 2)
    log = await opened(0)
    for producer in range(5):
        await log.append(batch(0, producer=producer))
    await clock.advance(LONG_MS)
    assert [await log.abort_transactions(LONG_MS) for _ in range(4)] == [2, 2, 1, 0]
    await log.close()
