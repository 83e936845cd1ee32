"""Topics that others write to, as record logs (docs/spec/kafka-record-log.md)."""

import asyncio
from contextlib import nullcontext, suppress
from dataclasses import replace

import pytest

from sharemesh.codec.record_set import COMPRESSION
from sharemesh.domain.errors import ErrorCode, RefusedError
from sharemesh.domain.ids import TopicId, TopicPartition
from sharemesh.domain.seen_partition import SeenPartition, seen_together
from sharemesh.ports.brokers import NewBrokerTopic
from sharemesh.ports.shard_log import FencedError, LogFailedError
from tests.aborted import aborted_in
from tests.backends.kafka.record_log_world import (
    QUICK,
    all_read,
    batch,
    kafka_world,
    transactional,
    until,
    values_of,
)


async def refused(awaitable, error: ErrorCode, match: str | None = None) -> None:
    with pytest.raises(RefusedError, match=match) as caught:
        await awaitable
    assert caught.value.error is error


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
            await w.write(batch(1))
            before = log.high_watermark
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


# ---- loss ---------------------------------------------------------------------------------------


async def lose(w, *, replaced: int) -> tuple[int, int]:
    """Let a replica lead that lacks the last 4 of 7 records; return who leads and led."""
    leader = w.cluster.leader("orders")
    behind = next(each for each in (1, 2, 3) if each != leader)
    w.cluster.pause_replication(behind)
    w.cluster.elect_unclean("orders", 0, behind)
    if replaced:
        await w.write(batch(replaced, value=b"other"))
    return behind, leader


async def before_the_loss(w):
    """Write 3 records everywhere and 4 that one replica does not get; return the open log."""
    await w.write(batch(3))
    leader = w.cluster.leader("orders")
    behind = next(each for each in (1, 2, 3) if each != leader)
    w.cluster.pause_replication(behind)
    w.leave_in_sync(behind)
    await w.write(batch(4))
    log = await w.open()
    assert log.high_watermark == 7
    return log


@pytest.mark.parametrize("replaced", [0, 2, 4, 9])
async def test_records_that_kafka_lost_stop_the_partition_there(replaced):
    """KRL-8, KRL-9."""
    async with kafka_world() as w:
        log = await before_the_loss(w)
        assert await all_read(log) == [*range(7)]
        await lose(w, replaced=replaced)
        await until(lambda: log.damage is not None)
        assert log.damage[0] == 3
        assert "lost the records from offset 3 to 6" in log.damage[1]
        assert log.high_watermark == 3
        assert (await log.read(0, max_bytes=1 << 20)).headers[-1].last_offset == 2
        for offset in (3, 6):
            await refused(
                log.read(offset, max_bytes=1, end_offset=offset + 1),
                ErrorCode.KAFKA_STORAGE_ERROR,
                "--before 7",
            )
        await log.close()


async def test_a_loss_is_found_before_anything_else_is_delivered():
    """KRL-8: also where the lost records were written anew before the next answer."""
    async with kafka_world(replace(QUICK, watch_wait_ms=60_000)) as w:
        log = await before_the_loss(w)
        await lose(w, replaced=9)
        await refused(
            log.read(3, max_bytes=1 << 20, end_offset=7), ErrorCode.KAFKA_STORAGE_ERROR, "lost"
        )
        assert log.damage is not None
        assert log.damage[0] == 3
        await log.close()


async def test_what_was_lost_is_given_up_by_deleting_past_all_that_was_confirmed():
    """KRL-9."""
    async with kafka_world() as w:
        log = await before_the_loss(w)
        await lose(w, replaced=2)
        await until(lambda: log.damage is not None)
        await log.delete_records(-1)  # to 5: states of 5 and 6 are still those of lost records
        assert log.damage is not None
        assert log.damage[0] == 5
        await w.write(batch(6))
        await log.delete_records(7)
        assert log.damage is None
        await until(lambda: log.high_watermark == 11)
        assert (await log.read(7, max_bytes=1 << 20)).headers[-1].last_offset == 10
        await log.close()


async def test_a_loss_above_one_that_waits_is_said_and_its_records_are_never_delivered(caplog):
    """KRL-9: nothing of it was delivered, but what is kept in memory of it is gone in Kafka."""
    async with kafka_world() as w:
        log = await before_the_loss(w)
        behind, before = await lose(w, replaced=9)
        await until(lambda: log.damage is not None)
        end = log._log.ends.lost_range[1]
        await until(lambda: w.replica_end(before) == 12)
        w.cluster.pause_replication(before)
        w.leave_in_sync(before)
        await w.write(batch(4, value=b"gone"))
        await until(lambda: log._log.ends.newest_end == 16)
        assert log._log.cache.find(12, 16, 1)
        w.cluster.elect_unclean("orders", 0, before)
        w.cluster.resume_replication(behind)
        await w.write(batch(2, value=b"new"))
        await until(lambda: "orders-0: Kafka lost the records from offset 12 to 15" in caplog.text)
        assert log._log.ends.lost_range == (3, end)
        await log.delete_records(end)
        assert log.damage is None
        await until(lambda: log.high_watermark == 14)
        assert values_of(await log.read(12, max_bytes=1 << 20)) == [b"new"] * 2
        await log.close()


async def test_a_leader_that_opens_after_a_loss_knows_of_it():
    """KRL-18: whoever led when it was found, and whatever was written since."""
    async with kafka_world() as w:
        log = await before_the_loss(w)
        await lose(w, replaced=2)
        await until(lambda: log.damage is not None)
        await log.close()
        await w.write(batch(9))
        w.logs = w.other_process()
        again = await w.open(2)
        assert again.damage is not None
        assert again.damage[0] == 3
        assert "lost the records from offset 3 to 6" in again.damage[1]
        await refused(again.read(3, max_bytes=1, end_offset=4), ErrorCode.KAFKA_STORAGE_ERROR)
        await again.delete_records(7)
        assert again.damage is None
        await again.close()
        w.logs = w.other_process()
        third = await w.open(3)
        assert third.damage is None
        assert (await third.read(7, max_bytes=1 << 20)).headers[-1].last_offset == 13
        await third.close()


@pytest.mark.parametrize("replaced", [0, 2, 9])
async def test_a_loss_that_happens_while_nobody_leads_is_found_at_the_next_opening(
    replaced, caplog
):
    """KRL-19."""
    async with kafka_world() as w:
        log = await before_the_loss(w)
        await log.close()
        await lose(w, replaced=replaced)
        w.logs = w.other_process()
        again = await w.open(2)
        assert again.damage is not None
        assert again.damage[0] == 3
        assert "orders-0: Kafka lost the records from offset 3 to 6" in caplog.text
        await refused(
            again.read(3, max_bytes=1, end_offset=4), ErrorCode.KAFKA_STORAGE_ERROR, "--before 7"
        )
        await again.close()


async def test_an_opening_after_a_leader_of_kafka_moved_without_loss_finds_none():
    """KRL-19."""
    async with kafka_world() as w:
        await w.write(batch(3))
        log = await w.open(1)
        await log.close()
        w.cluster.move_leader("orders")
        await w.write(batch(3))
        w.logs = w.other_process()
        again = await w.open(2)
        assert again.damage is None
        assert await all_read(again) == [*range(6)]
        await again.close()


async def test_a_partition_is_not_opened_while_nobody_says_how_far_it_was_confirmed():
    """KRL-19."""
    async with kafka_world() as w:
        w.coordination.cut_off = True
        with pytest.raises(LogFailedError, match="does not say how far its log was confirmed"):
            await w.open(1)


async def test_nothing_is_kept_of_partitions_that_are_led_no_more():
    """KRL-18: what could not be written is, once the store answers, and then forgotten too."""
    async with kafka_world() as w:
        values, key = w.seen._values, w.seen._key(w.partition)
        await w.write(batch(3))
        log = await w.open()
        await w.seen.settle(w.partition)
        assert list(values._known) == list(values._held) == [key]
        w.coordination.cut_off = True
        log._log.saw(1, -1)
        await log.close()
        log._log.saw(2, -1)  # as a late answer tells it
        assert values._known == values._held == {}
        w.coordination.cut_off = False
        await w.seen.settle(w.partition)
        assert (await values._read(key))[1].start == 2
        assert values._known == values._held == {}
        for broker in (1, 2, 3):
            w.cluster.kill(broker)
        with pytest.raises(LogFailedError):
            await w.open(2)
        assert values._known == values._held == {}


def test_what_two_leaders_saw_is_the_same_in_any_order():
    """KRL-18."""
    one, two = SeenPartition(3, 0, 90, (40, 50)), SeenPartition(4, 10, 80, (45, 70))
    both = SeenPartition(4, 10, 90, (40, 70))
    assert seen_together(one, two) == seen_together(two, one) == both
    assert seen_together(both, SeenPartition(4, 60, 90)) == SeenPartition(4, 60, 90, (60, 70))
    assert seen_together(both, SeenPartition(4, 70, 90)) == SeenPartition(4, 70, 90)
    assert seen_together(None, one) == one


async def test_a_leader_that_moves_without_loss_stops_nothing():
    """KRL-8."""
    async with kafka_world() as w:
        await w.write(batch(3))
        log = await w.open()
        for number in range(1, 6):
            w.cluster.move_leader("orders")
            if number % 2:
                await w.write(batch(2))
            await log.refresh()
            assert await all_read(log) == [*range(log.high_watermark)]
        assert log.high_watermark == 9
        assert log.damage is None
        await log.close()


async def test_a_cluster_that_does_not_tell_epochs_is_read_all_the_same():
    """KRL-8."""
    async with kafka_world() as w:
        w.cluster.unsupported["end_offset_of_epoch"] = None
        await w.write(batch(3))
        log = await w.open()
        w.cluster.move_leader("orders")
        await w.write(batch(2))
        await until(lambda: log.high_watermark == 5)
        assert await all_read(log) == [*range(5)]
        await log.close()


# ---- a cluster that does not answer -------------------------------------------------------------


async def test_a_log_that_ends_below_its_end_untold_is_trouble_until_it_has_passed_it(caplog):
    """KRL-10: what answers meanwhile, a check or a read before the loss, does not end it."""
    async with kafka_world(replace(QUICK, cache_bytes_max=0, read_wait_ms=60_000)) as w:
        w.cluster.unsupported["end_offset_of_epoch"] = None
        log = await before_the_loss(w)
        await lose(w, replaced=0)
        await until(lambda: "ends at offset 3 and had ended at 7" in log.unavailable)
        followed = log._log
        for _ in range(2):
            checks = followed.checks
            assert (await log.read(0, max_bytes=1, end_offset=3)).headers
            assert "had ended at 7" in log.unavailable
            await until(lambda checks=checks: followed.checks > checks)
            assert "had ended at 7" in log.unavailable
        assert caplog.text.count("orders-0 cannot be read: Kafka's log ends at offset 3") == 1
        await w.write(batch(3))
        await until(lambda: "ends at offset 6" in log.unavailable)
        await w.write(batch(3))
        await until(lambda: not log.unavailable)
        assert (log.high_watermark, log.damage) == (9, None)
        await log.close()


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


# ---- produce ------------------------------------------------------------------------------------


async def test_each_batch_of_a_request_is_written_in_order():
    """KRL-13."""
    async with kafka_world() as w:
        log = await w.open()
        landed = await log.append(batch(3) + batch(2) + batch(1))
        assert (landed.base_offset, landed.last_offset) == (0, 5)
        assert (log.high_watermark, log.last_stable_offset) == (6, 6)
        both = await asyncio.gather(*(log.append(batch(1)) for _ in range(10)))
        assert [each.base_offset for each in both] == [*range(6, 16)]
        await log.close()


async def test_a_failure_behind_the_first_batch_says_what_was_written():
    """KRL-13."""
    async with kafka_world(**{"max.message.bytes": "300"}) as w:
        log = await w.open()
        large = batch(1, value=bytes(400))
        await refused(log.append(large), ErrorCode.MESSAGE_TOO_LARGE, "orders-0")
        await refused(
            log.append(batch(3) + large),
            ErrorCode.MESSAGE_TOO_LARGE,
            "batch 2 of 2: .*; the 1 before it are written, up to offset 2",
        )
        await log.close()


async def test_an_answer_that_is_lost_means_perhaps():
    """KRL-13."""
    async with kafka_world() as w:
        log = await w.open()
        w.cluster.troubles.unanswered = 1_000
        await refused(log.append(batch(1)), ErrorCode.REQUEST_TIMED_OUT, "it may be written")
        w.cluster.troubles.end()
        await until(lambda: log.high_watermark == 1)  # it was, once: nobody repeated it
        w.cluster.troubles.too_few_after = 1_000
        await refused(log.append(batch(1)), ErrorCode.REQUEST_TIMED_OUT, "it may be written")
        w.cluster.troubles.end()
        w.cluster.troubles.too_few = 1_000
        await refused(log.append(batch(1)), ErrorCode.KAFKA_STORAGE_ERROR, "NOT_ENOUGH_REPLICAS")
        w.cluster.troubles.end()
        await log.close()


async def test_an_idempotent_producer_repeats_without_a_second_copy():
    """KRL-13."""
    async with kafka_world() as w:
        log = await w.open()
        sent = batch(2, producer_id=5, producer_epoch=0, base_sequence=0)
        first, again = await log.append(sent), await log.append(sent)
        assert first.base_offset == again.base_offset == 0
        gap = batch(2, producer_id=5, producer_epoch=0, base_sequence=9)
        await refused(log.append(gap), ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
        await log.close()


async def test_transactions_are_refused_with_the_way_to_write_them():
    """KRL-14."""
    async with kafka_world() as w:
        log = await w.open()
        await refused(
            log.append(transactional(7)), ErrorCode.INVALID_TXN_STATE, "with a Kafka producer"
        )
        await refused(log.append_txn_marker(7, 0, commit=True), ErrorCode.INVALID_TXN_STATE)
        assert log.open_transactions() == []
        assert await log.abort_transactions(0) == 0
        assert log.highest_producer_id == -1
        assert log.high_watermark == 0
        await log.close()


# ---- deletion, times, sizes ---------------------------------------------------------------------


async def test_deleting_records_is_kafkas_and_its_log_start_is_asked_for():
    """KRL-15."""
    async with kafka_world() as w:
        for _ in range(3):
            await w.write(batch(3))
        log = await w.open()
        for offset in (10, -2):
            await refused(log.delete_records(offset), ErrorCode.OFFSET_OUT_OF_RANGE)
        assert await log.delete_records(4) == 4
        assert log.log_start_offset == 4
        assert await log.delete_records(-1) == 9
        assert await log.delete_records(2) == 9
        w.cluster.configure("orders", {"cleanup.policy": "compact"})
        await w.write(batch(1))
        await refused(log.delete_records(-1), ErrorCode.INVALID_REQUEST, "cleanup.policy")
        await log.close()


async def test_a_deletion_that_a_replica_has_not_done_yet_is_done():
    """KRL-15."""
    async with kafka_world(replace(QUICK, delete_timeout_ms=30)) as w:
        await w.write(batch(3))
        log = await w.open()
        leader = w.cluster.leader("orders")
        for broker in (1, 2, 3):
            if broker != leader:
                w.cluster.pause_replication(broker)
        assert await log.delete_records(2) == 2
        await log.close()


async def test_a_cluster_without_deletion_says_so():
    """KRL-15."""
    async with kafka_world() as w:
        w.cluster.unsupported["delete_records"] = None
        log = await w.open()
        await refused(log.delete_records(0), ErrorCode.UNSUPPORTED_VERSION, "DeleteRecords")
        await log.close()


async def test_times_are_asked_of_kafka_and_sizes_are_guessed_from_what_was_read():
    """KRL-16."""
    async with kafka_world() as w:
        await w.write(batch(3, time_ms=500))
        await w.write(batch(3, time_ms=900))
        log = await w.open()
        assert await log.offset_for_timestamp(501, nullcontext) == (3, 900)
        assert await log.offset_for_timestamp(901, nullcontext) is None
        assert log.bytes_between(0, 0) == 0
        assert log.bytes_between(0, 1) >= 1
        await all_read(log)
        assert abs(log.bytes_between(0, 6) - 2 * len(batch(3))) < 10
        await log.close()


async def test_what_a_new_leader_confirmed_before_the_watch_heard_of_it_is_not_lost():
    """KRL-9."""
    async with kafka_world() as world:
        log = await world.open()
        await log.append(batch())
        world.cluster.move_leader("orders")
        while log.high_watermark < 6:
            with suppress(RefusedError):
                await log.append(batch())
        seen = log._log._seen()  # for later leaders: an end and the epoch under which it was named
        assert seen.kafka_epoch == 1 or seen.end <= 3
        await until(lambda: log._log.kafka_epoch == 1 and not log._log.is_checking)
        assert log.damage is None
        assert await all_read(log) == list(range(log.high_watermark))
        await log.close()
