"""Records that Kafka lost: what a record log delivers then, and what it says (KRL-8, KRL-9)."""

import asyncio
from dataclasses import replace

import pytest

from sharemesh.domain.errors import ErrorCode
from sharemesh.domain.seen_partition import SeenPartition, seen_together
from sharemesh.ports.shard_log import LogFailedError
from tests.backends.kafka.record_log_world import (
    QUICK,
    all_read,
    batch,
    hear_nothing_of_epoch,
    kafka_world,
    one_behind,
    refused,
    until,
    values_of,
)


class Calls:
    """How often something was called."""

    times = 0


def count_of(client, name, monkeypatch) -> Calls:
    """Count the calls of one kind from now on."""
    calls, real = Calls(), getattr(client, name)

    async def call(*words, **named):
        calls.times += 1
        return await real(*words, **named)

    monkeypatch.setattr(client, name, call)
    return calls


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


async def test_what_was_written_through_us_and_lost_unseen_leaves_no_end_behind(monkeypatch):
    """KRL-3, KRL-13: else each poll asked behind Kafka's end, and groups waited in front of it."""
    async with kafka_world() as w:
        log, _, behind = await one_behind(w)
        hear_nothing_of_epoch(log, 0, monkeypatch)
        written = await log.append(batch(4, value=b"lost"))
        assert (written.base_offset, written.last_offset) == (3, 6)
        w.cluster.elect_unclean("orders", 0, behind)
        await w.write(batch(1, value=b"new"))
        asked = count_of(w.client, "list_offset", monkeypatch)
        await until(lambda: log.high_watermark == 4)
        assert values_of(await log.read(3, max_bytes=1 << 20)) == [b"new"]
        await asyncio.sleep(0.2)
        assert (log.high_watermark, log._log.ends.newest_end) == (4, 4)
        assert asked.times <= 12
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
        log._log.saw(2, -1)  # as a late answer tells it: nobody takes it in
        assert values._known == values._held == {}
        w.coordination.cut_off = False
        await w.seen.settle(w.partition)
        assert (await values._read(key))[1].start == 1
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
