"""Topics that others write to, as record logs (docs/spec/kafka-record-log.md)."""

import asyncio
from dataclasses import replace

import pytest

from sharemesh.codec.record_set import COMPRESSION
from sharemesh.domain.errors import ErrorCode
from sharemesh.domain.ids import TopicId, TopicPartition
from sharemesh.ports.brokers import NewBrokerTopic
from sharemesh.ports.shard_log import FencedError, LogFailedError
from tests.aborted import aborted_in
from tests.backends.kafka.record_log_world import (
    QUICK,
    all_read,
    batch,
    kafka_world,
    refused,
    transactional,
    until,
)

# ---- opening and ownership ----------------------------------------------------------------------


async def test_opening_writes_nothing_and_knows_where_the_partition_starts_and_ends():
    """KRL-1, KRL-4."""
    async with kafka_world() as w:
        await w.write(batch(3))
        await w.write(transactional(7))
        w.cluster.trim("orders", 0, 2)
        log = await w.open(9)
        assert (log.leader_epoch, log.log_start_offset) == (9, 2)
        assert (log.high_watermark, log.last_stable_offset) == (5, 3)
        assert w.cluster.high_watermark("orders") == 5
        await log.close()


async def test_a_partition_without_a_leader_does_not_open_and_says_so():
    """KRL-4."""
    async with kafka_world() as w:
        for broker in (1, 2, 3):
            w.cluster.kill(broker)
        with pytest.raises(LogFailedError, match=r"orders-0 .* within 500 ms"):
            await w.open()
        for broker in (1, 2, 3):
            w.cluster.start(broker)
        await (await w.open()).close()


async def test_a_topic_that_nobody_knows_does_not_open():
    """KRL-4."""
    async with kafka_world() as w:
        with pytest.raises(LogFailedError, match="no topic has the id"):
            await w.logs.open(TopicPartition(TopicId(bytes(16)), 0), 1)


async def test_a_look_asks_whether_the_claim_still_stands():
    """KRL-1."""
    async with kafka_world() as w:
        log = await w.open(4)
        await log.look()
        w.claims.epochs[w.partition] = 5
        with pytest.raises(FencedError):
            await log.look()
        await log.close()
        with pytest.raises(LogFailedError):
            await log.look()


async def test_a_deleted_topic_is_kafkas_business():
    """KRL-1."""
    async with kafka_world() as w:
        await w.write(batch())
        await w.logs.delete(w.partition)
        assert w.cluster.high_watermark("orders") == 3


# ---- the watch ----------------------------------------------------------------------------------


async def test_what_others_write_is_seen_without_being_asked_for():
    """KRL-2, KRL-3."""
    async with kafka_world() as w:
        one, other = await w.open(), await w.open(partition=1)
        moved = []
        one.on_advance(lambda: moved.append(one.high_watermark))
        await w.write(batch(3))
        await until(lambda: one.high_watermark == 3)
        assert moved == [3]
        assert other.high_watermark == 0
        await w.write(batch(2), partition=1)
        await until(lambda: other.high_watermark == 2)
        await one.close()
        await w.write(batch(2), partition=1)
        await until(lambda: other.high_watermark == 4)
        assert one.high_watermark == 3
        await other.close()


async def test_records_come_with_the_news_where_somebody_reads_at_the_end():
    """KRL-2."""
    async with kafka_world() as w:
        log = await w.open()
        await w.write(batch(3))
        await until(lambda: log.high_watermark == 3)
        assert await all_read(log) == [0, 1, 2]
        fetches = []
        fetch = w.client.fetch

        async def counted(*given, **named):
            fetches.append(given)
            return await fetch(*given, **named)

        w.client.fetch = counted
        for number in range(1, 40):
            await w.write(batch(3))
            await until(lambda: log.high_watermark == 3 * number + 3)  # noqa: B023
            assert await all_read(log, 3 * number) == [*range(3 * number, 3 * number + 3)]
        assert len(fetches) <= 2  # before the watch knew that somebody waits
        await log.close()


async def test_sessions_that_brokers_forget_are_begun_anew():
    """KRL-2."""
    async with kafka_world() as w:
        log = await w.open()
        for number in range(5):
            w.cluster.evict_sessions()
            await w.write(batch(1))
            await until(lambda: log.high_watermark == number + 1)  # noqa: B023
        await log.close()


async def test_ends_never_go_back():
    """KRL-3: a new leader whose high watermark lags is no loss."""
    async with kafka_world() as w:
        await w.write(batch(5))
        log = await w.open()
        for _ in range(3):
            w.cluster.move_leader("orders")
            before = log.high_watermark
            await w.write(batch(1))
            await until(lambda: log.high_watermark > before)  # noqa: B023
        assert log.damage is None
        assert log.high_watermark == 8
        assert await all_read(log) == [*range(8)]
        await log.close()


# ---- reads --------------------------------------------------------------------------------------


@pytest.mark.parametrize("cache_bytes_max", [0, 3_000, 1 << 20])
@pytest.mark.parametrize("max_bytes", [1, 400, 1 << 20])
async def test_reads_from_anywhere_give_the_same_whatever_is_in_memory(cache_bytes_max, max_bytes):
    """KRL-5."""
    bounds = replace(QUICK, cache_bytes_max=cache_bytes_max, fetch_bytes_min=1_000)
    async with kafka_world(bounds) as w:
        for number in range(30):
            await w.write(batch(1 + number % 4))
        log = await w.open()
        end = log.high_watermark
        for start in (0, 11, 3, end - 1, 20, 0):
            found = await all_read(log, start, max_bytes=max_bytes)
            assert found[-1] == end - 1
            assert found == [*range(found[0], end)]
            assert found[0] <= start
        first = (await log.read(5, max_bytes=1)).headers[0]
        assert first.base_offset <= 5 <= first.last_offset
        assert (await log.read(0, max_bytes=1 << 20, end_offset=1)).headers[-1].base_offset == 0
        await log.close()


async def test_readers_of_one_place_share_a_fetch():
    """KRL-5."""
    async with kafka_world() as w:
        for _ in range(5):
            await w.write(batch(3))
        log = await w.open()
        fetches = []
        fetch = w.client.fetch

        async def counted(*given, **named):
            fetches.append(given[1])
            return await fetch(*given, **named)

        w.client.fetch = counted
        reads = await asyncio.gather(*(log.read(0, max_bytes=100) for _ in range(20)))
        assert fetches == [0]
        assert {read.headers[0].base_offset for read in reads} == {0}
        assert await all_read(log) == [*range(15)]  # it asked for more than one reader wanted
        assert fetches == [0]
        await log.close()


@pytest.mark.parametrize("compression", sorted(COMPRESSION.values()))
async def test_bytes_pass_as_kafka_holds_them(compression):
    """KRL-6."""
    async with kafka_world() as w:
        sent = batch(20, value=b"x" * 50, compression=compression)
        await w.write(sent)
        log = await w.open()
        read = await log.read(0, max_bytes=1 << 20)
        assert read.records[16:] == sent[16:]
        assert read.headers[0].record_count == 20
        await log.close()


async def test_offsets_that_compaction_removed_are_passed():
    """KRL-6."""
    async with kafka_world(**{"cleanup.policy": "compact"}) as w:
        for _ in range(4):
            await w.write(batch(3))
        w.cluster.compact("orders", 0, [0, 3, 4, 5, 7])
        log = await w.open()
        found = []
        offset = 0
        while offset < log.high_watermark:
            read = await log.read(offset, max_bytes=1)
            found += [(header.base_offset, header.record_count) for header in read.headers]
            offset = read.headers[-1].last_offset + 1
        assert [base for base, count in found if count] == [0, 6, 9]
        assert [count for _, count in found if count] == [2, 2, 3]
        await log.close()


@pytest.mark.parametrize("cache_bytes_max", [0, 1 << 20])
async def test_a_hole_as_wide_as_what_is_asked_for_is_passed(cache_bytes_max):
    """KRL-6, KRL-12: a member that wants few records reads no further than so many offsets."""
    bounds = replace(QUICK, cache_bytes_max=cache_bytes_max)
    async with kafka_world(bounds, **{"cleanup.policy": "compact"}) as w:
        for _ in range(4):
            await w.write(batch(3))
        await w.write(transactional(7))  # 12, 13
        await w.write(batch(2))  # 14, 15
        w.cluster.compact("orders", 0, range(3, 9))
        log = await w.open()
        for committed in (False, True):
            for offset in (3, 5, 8):
                read = await log.read(
                    offset, max_bytes=1 << 20, end_offset=offset + 1, committed=committed
                )
                assert [header.base_offset for header in read.headers] == [9]
        read = await log.read(2, max_bytes=1 << 20, end_offset=6)
        assert [header.base_offset for header in read.headers] == [0]
        await log.close()


@pytest.mark.parametrize("committed", [False, True])
async def test_a_hole_in_memory_is_passed_where_what_lies_behind_it_was_read_before(committed):
    """KRL-6, KRL-5: a read that asks for no more than the hole stood before it for good."""
    async with kafka_world(QUICK, **{"cleanup.policy": "compact"}) as w:
        for _ in range(5):
            await w.write(batch(3))
        w.cluster.compact("orders", 0, range(3, 9))
        log = await w.open()
        await log.read(9, max_bytes=1 << 20)
        await log.read(0, max_bytes=1 << 20)  # kept up to what was kept first: a batch, and a hole
        for end_offset in (4, 5, None):
            read = await log.read(3, max_bytes=1 << 20, end_offset=end_offset, committed=committed)
            assert [header.base_offset for header in read.headers][:1] == [9]
        await log.close()


async def test_the_log_start_moves_when_kafka_moves_it():
    """KRL-7."""
    async with kafka_world() as w:
        for _ in range(4):
            await w.write(batch(3))
        log = await w.open()
        moved = []
        log.on_advance(lambda: moved.append(log.log_start_offset))
        w.cluster.trim("orders", 0, 6)
        await until(lambda: log.log_start_offset == 6)
        assert moved[-1] == 6
        await refused(log.read(5, max_bytes=1), ErrorCode.OFFSET_OUT_OF_RANGE)
        assert await all_read(log, 6) == [*range(6, 12)]
        await log.close()


async def test_a_read_that_finds_its_offset_gone_says_where_the_log_starts_now():
    """KRL-7: the answer out of range alone proves nothing, the start that is asked for does."""
    async with kafka_world(replace(QUICK, watch_wait_ms=60_000)) as w:
        for _ in range(4):
            await w.write(batch(3))
        log = await w.open()
        w.cluster.trim("orders", 0, 6)
        await refused(log.read(0, max_bytes=1), ErrorCode.OFFSET_OUT_OF_RANGE)
        assert log.log_start_offset == 6
        await log.close()


# ---- a cluster that does not answer -------------------------------------------------------------


async def test_a_partition_that_cannot_be_read_says_why_and_goes_on_by_itself():
    """KRL-10, KRL-11."""
    async with kafka_world(replace(QUICK, cache_bytes_max=0)) as w:
        await w.write(batch(3))
        log = await w.open()
        assert log.unavailable == ""
        for broker in (1, 2, 3):
            w.cluster.kill(broker)
        await until(lambda: log.unavailable)
        assert log.unavailable.endswith(" s")
        assert (await log.read(0, max_bytes=1)).headers == ()  # it waits on, without an error
        await refused(log.refresh(), ErrorCode.KAFKA_STORAGE_ERROR, "orders-0")
        assert log.damage is None
        for broker in (1, 2, 3):
            w.cluster.start(broker)
        await until(lambda: not log.unavailable)
        assert await all_read(log) == [0, 1, 2]
        await log.close()


async def test_a_topic_that_is_made_again_is_another_topic():
    """KRL-10."""
    async with kafka_world() as w:
        await w.write(batch(3))
        log = await w.open()
        w.cluster.delete("orders")
        w.cluster.create(NewBrokerTopic("orders", 2, 3))
        await w.write(batch(9))
        await until(lambda: log.unavailable)
        assert log.high_watermark == 3
        await log.close()


async def test_closing_ends_a_read_that_waits():
    """KRL-11."""
    async with kafka_world(replace(QUICK, cache_bytes_max=0, read_wait_ms=60_000)) as w:
        await w.write(batch(3))
        log = await w.open()
        for broker in (1, 2, 3):
            w.cluster.kill(broker)
        reading = asyncio.ensure_future(log.read(0, max_bytes=1))
        await until(lambda: log.unavailable)
        await log.close()
        with pytest.raises(LogFailedError):
            await reading


# ---- committed reads ----------------------------------------------------------------------------


@pytest.mark.parametrize("cache_bytes_max", [0, 1 << 20])
async def test_a_committed_read_knows_exactly_what_was_aborted_in_it(cache_bytes_max):
    """KRL-12."""
    async with kafka_world(replace(QUICK, cache_bytes_max=cache_bytes_max)) as w:
        await w.write(batch(1))  # 0
        await w.write(transactional(7))  # 1, 2
        await w.end(7, commit=False)  # 3
        await w.write(transactional(7, 2))  # 4, 5
        await w.end(7, commit=True)  # 6
        await w.write(transactional(8))  # 7, 8
        log = await w.open()
        assert (log.last_stable_offset, log.high_watermark) == (7, 9)
        assert await aborted_in(log, 0) == [(7, 1)]
        assert await aborted_in(log, 4) == []  # the list of a wider range would drop these
        assert await aborted_in(log, 0, 1) == []
        assert await all_read(log, committed=True) == [*range(7)]
        markers = (await log.read(0, max_bytes=1 << 20)).headers
        assert [h.is_abort_marker for h in markers if h.is_control] == [True, False]
        await w.end(8, commit=False)  # 9
        await until(lambda: log.last_stable_offset == 10)
        assert await aborted_in(log, 7) == [(8, 7)]
        await log.close()


async def test_a_committed_read_without_transactions_comes_from_memory():
    """KRL-12."""
    async with kafka_world() as w:
        for _ in range(3):
            await w.write(batch(3))
        log = await w.open()
        await all_read(log)
        for broker in (1, 2, 3):
            w.cluster.kill(broker)
        read = await log.read(0, max_bytes=1 << 20, committed=True)
        assert read.aborted == ()
        assert len(read.headers) == 3
        await log.close()


async def test_a_committed_read_from_memory_ends_at_the_last_stable_offset():
    """KRL-12."""
    async with kafka_world() as w:
        log = await w.open()
        await w.write(batch(2))  # 0, 1
        await w.write(transactional(7))  # 2, 3
        await w.write(batch(2))  # 4, 5
        await until(lambda: (log.last_stable_offset, log.high_watermark) == (2, 6))
        assert (await log.read(4, max_bytes=1 << 20)).headers  # they are in memory now
        for start in (2, 4):
            read = await log.read(start, max_bytes=1 << 20, end_offset=6, committed=True)
            assert read.headers == ()
        read = await log.read(0, max_bytes=1 << 20, end_offset=6, committed=True)
        assert [header.last_offset for header in read.headers] == [1]
        await log.close()
