"""Leader epochs of Kafka and what was confirmed under them: which answers count (KRL-3, KRL-8)."""

import asyncio
from dataclasses import replace

import pytest

from sharemesh.cluster.store.seen_records import decode_partition, encode_partition
from sharemesh.domain.errors import ErrorCode
from sharemesh.domain.seen_partition import SeenPartition, seen_together
from tests.backends.kafka.record_log_world import (
    QUICK,
    batch,
    hear_nothing_of_epoch,
    kafka_world,
    one_behind,
    refused,
    transactional,
    until,
    values_of,
)

OFTEN = replace(QUICK, watch_wait_ms=50)


async def tail_of_one(w) -> tuple[int, list[int]]:
    """Write 3 records everywhere, and 4 to a leader that dies before others have them.

    Then others lead, and write 9 records from offset 3 on. Returns who died, and the others.
    """
    await w.write(batch(3))
    leader = w.cluster.leader("orders")
    others = [each for each in (1, 2, 3) if each != leader]
    for each in others:
        w.cluster.pause_replication(each)
    w.cluster.append("orders", 0, batch(4, value=b"tail"))
    w.cluster.kill(leader)
    for each in others:
        w.cluster.resume_replication(each)
    await until(lambda: w.cluster.leader("orders") in others)
    w.leave_in_sync(leader)
    await w.write(batch(9, value=b"good"))
    return leader, others


def comes_back_alone(w, leader: int, others: list[int]) -> None:
    """Let the one that died lead, with its tail."""
    for each in others:
        w.cluster.kill(each)
    for each in (leader, *others):
        w.cluster.pause_replication(each)
    w.cluster.start(leader)
    w.cluster.elect_unclean("orders", 0, leader)


@pytest.mark.parametrize("is_opened_after", [False, True])
async def test_a_leader_that_comes_back_with_a_tail_of_its_own_is_told_from_what_was_confirmed(
    is_opened_after,
):
    """KRL-9: its log ends above where the epoch that it lacks began."""
    async with kafka_world(OFTEN) as w:
        leader, others = await tail_of_one(w)
        log = await w.open()
        assert log.high_watermark == 12
        if is_opened_after:
            await log.close()
            comes_back_alone(w, leader, others)
            w.logs = w.other_process()
            log = await w.open(2)
        else:
            comes_back_alone(w, leader, others)
        await until(lambda: log.damage is not None)
        assert log._log.ends.lost_range == (3, 12)
        await refused(log.read(3, max_bytes=1 << 20), ErrorCode.KAFKA_STORAGE_ERROR, "--before 12")
        await log.close()


async def test_an_answer_that_comes_after_the_close_is_remembered_under_no_older_epoch(monkeypatch):
    """KRL-18: else the next leader would take what is there for lost."""
    async with kafka_world(OFTEN) as w:
        log = await w.open()
        await w.write(batch(3))
        await until(lambda: log.high_watermark == 3)
        answered, real = asyncio.Event(), w.client.list_offset
        begun = asyncio.Event()
        monkeypatch.setattr(log._log, "heard", lambda answer: False)
        w.cluster.move_leader("orders")
        await w.write(batch(4, value=b"fine"))

        async def late(*words, **named):
            answer = await real(*words, **named)
            begun.set()
            await answered.wait()
            return answer

        monkeypatch.setattr(w.client, "list_offset", late)
        asking = asyncio.create_task(log.refresh())
        await begun.wait()
        await log.close()
        answered.set()
        await asking
        monkeypatch.undo()
        await w.seen.settle(w.partition)
        w.logs = w.other_process()
        again = await w.open(2)
        assert again.damage is None
        assert values_of(await again.read(3, max_bytes=1 << 20)) == [b"fine"] * 4
        await again.close()


async def test_what_produce_confirmed_before_a_comparison_and_answers_after_it_is_no_end(
    monkeypatch, caplog
):
    """KRL-3: nothing lies there any more; what may be lost is said."""
    async with kafka_world(OFTEN) as w:
        log, _, behind = await one_behind(w)
        answered, real = asyncio.Event(), w.client.produce

        async def late(*words, **named):
            answer = await real(*words, **named)
            await answered.wait()
            return answer

        monkeypatch.setattr(w.client, "produce", late)
        hear_nothing_of_epoch(log, 0, monkeypatch)
        writing = asyncio.create_task(log.append(batch(4, value=b"lost")))
        await until(lambda: w.cluster.high_watermark("orders") == 7)
        w.cluster.elect_unclean("orders", 0, behind)
        await until(lambda: log._log.kafka_epoch == 1 and not log._log.is_checking)
        answered.set()
        assert (await writing).last_offset == 6
        assert log.high_watermark == 3
        await until(lambda: "it may have lost the records from offset 3 to 6" in caplog.text)
        assert (log.high_watermark, log._log.ends.newest_end) == (3, 3)
        await w.write(batch(2, value=b"new"))
        await until(lambda: log.high_watermark == 5)
        assert values_of(await log.read(3, max_bytes=1 << 20)) == [b"new"] * 2
        await log.close()


async def test_what_a_deposed_leader_answers_late_does_not_count(monkeypatch):
    """KRL-8: the ends that it names were confirmed under its epoch, and are gone."""
    async with kafka_world(OFTEN) as w:
        log, _, behind = await one_behind(w)
        real = w.client.list_offset
        hear_nothing_of_epoch(log, 0, monkeypatch)
        await w.write(batch(4, value=b"lost"))
        answered, asked = asyncio.Event(), []

        async def late(*words, **named):
            asked.append(words)
            mine = len(asked)
            answer = await real(*words, **named)
            if mine == 3:
                await answered.wait()
            return answer

        monkeypatch.setattr(w.client, "list_offset", late)
        asking = asyncio.create_task(log.refresh())
        await until(lambda: len(asked) >= 3)
        w.cluster.elect_unclean("orders", 0, behind)
        await until(lambda: log._log.kafka_epoch == 1 and not log._log.is_checking)
        answered.set()
        await asking
        assert (log.high_watermark, log.damage) == (3, None)
        await w.write(batch(2, value=b"new"))
        await until(lambda: log.high_watermark == 5)
        assert log.damage is None
        await log.close()


async def test_a_log_that_ends_below_its_start_is_said_and_goes_on_at_its_start(caplog):
    """KRL-9: all that was lost had been deleted; there is nothing to give up."""
    async with kafka_world(OFTEN) as w:
        log, _, behind = await one_behind(w)
        await w.write(batch(4))
        await until(lambda: log.high_watermark == 7)
        w.cluster.trim("orders", 0, 7)
        await until(lambda: log.log_start_offset == 7)
        w.cluster.elect_unclean("orders", 0, behind)
        await until(lambda: "log ends at offset 3, and had started at 7" in caplog.text)
        assert (log.log_start_offset, log.high_watermark, log.damage) == (7, 7, None)
        await log.close()
        w.logs = w.other_process()
        again = await w.open(2)
        assert (again.log_start_offset, again.high_watermark, again.damage) == (7, 7, None)
        await w.write(batch(6, value=b"new"))
        await until(lambda: again.high_watermark == 9)
        assert values_of(await again.read(7, max_bytes=1 << 20)) == [b"new"] * 6
        await again.close()


async def test_a_fall_takes_the_last_stable_offset_back(monkeypatch):
    """KRL-3: else committed reads would ask for ever for what an open transaction holds back."""
    async with kafka_world(OFTEN) as w:
        log, _, behind = await one_behind(w)
        hear_nothing_of_epoch(log, 0, monkeypatch)
        await log.append(batch(4, value=b"lost"))
        w.cluster.elect_unclean("orders", 0, behind)
        await w.write(transactional(77, count=2))
        await until(lambda: log.high_watermark == 5)
        assert log.last_stable_offset == 3
        await log.close()


async def test_where_epochs_begin_is_remembered_for_the_next_leader():
    """KRL-18."""
    async with kafka_world(OFTEN) as w:
        log = await w.open()
        await w.write(batch(3))
        w.cluster.move_leader("orders")
        await w.write(batch(4))
        w.cluster.move_leader("orders")
        await until(lambda: log._log.kafka_epoch == 2 and not log._log.is_checking)
        await log.close()
        stored = await w.seen.stored(w.partition)
        assert (stored.kafka_epoch, stored.epoch_starts) == (2, ((1, 3), (2, 7)))


async def test_what_was_remembered_without_epochs_learns_where_they_begin():
    """KRL-8: a process of before did not write it down."""
    async with kafka_world(OFTEN) as w:
        leader, others = await tail_of_one(w)
        log = await w.open()
        await log.close()
        stored = await w.seen.stored(w.partition)
        w.seen.note(w.partition, lambda: replace(stored, epoch_starts=()))
        await w.seen.settle(w.partition)
        for epoch in (2, 3):
            w.logs = w.other_process()
            log = await w.open(epoch)
            assert log._log._starts.known == ((1, 3),)
        comes_back_alone(w, leader, others)
        await until(lambda: log.damage is not None)
        assert log._log.ends.lost_range == (3, 12)
        await log.close()


async def test_what_is_produced_while_epochs_are_compared_is_no_end(monkeypatch):
    """KRL-3: the leader that confirms it may be deposed already."""
    async with kafka_world(OFTEN) as w:
        log, _, behind = await one_behind(w)
        answered, real = asyncio.Event(), w.client.list_offset
        monkeypatch.setattr(log._log, "heard", lambda answer: False)

        async def late(*words, **named):
            await answered.wait()
            return await real(*words, **named)

        monkeypatch.setattr(w.client, "list_offset", late)
        log._log.compare()
        writing = asyncio.create_task(log.append(batch(4, value=b"lost")))
        await until(lambda: w.cluster.high_watermark("orders") == 7)
        assert (await writing).last_offset == 6
        w.cluster.elect_unclean("orders", 0, behind)
        answered.set()
        await until(lambda: not log._log.is_checking)
        assert (log.high_watermark, log._log.ends.newest_end) == (3, 3)
        await log.close()


async def test_a_read_waits_for_a_comparison_that_is_repeated():
    """KRL-3, KRL-11: a batch was on its way when the first one began."""
    async with kafka_world(OFTEN) as w:
        log = await w.open()
        await w.write(batch(3))
        await until(lambda: log.high_watermark == 3)
        log._log.compare()
        log._log.was_produced(0, 0, 4, log._log.checks_begun - 1)
        assert values_of(await log.read(0, max_bytes=1 << 20)) == [b"v"] * 3
        assert log._log.checks == log._log.checks_begun == 2
        await log.close()


async def test_a_comparison_that_is_cancelled_is_not_repeated():
    """KRL-3: its owner stops, and nothing may begin behind it."""
    async with kafka_world(OFTEN) as w:
        log = await w.open()
        log._log.compare()
        log._log.was_produced(0, 0, 4, log._log.checks_begun - 1)
        await asyncio.sleep(0)  # it has begun
        log._log._checking.cancel()
        await until(lambda: not log._log.is_checking)
        assert log._log.checks == log._log.checks_begun == 1
        await log.close()


async def test_nobody_waits_for_a_comparison_that_never_had_a_turn():
    """KRL-11: a log that is closed in the turn in which one begins holds up no loop."""
    async with kafka_world(OFTEN) as w:
        log = await w.open()
        log._log.compare()
        log._log.close()
        await asyncio.sleep(0)
        async with asyncio.timeout(1):
            await log._log.until_checked(60_000)
        await log.close()


async def test_a_start_above_the_end_is_said_at_the_opening_too(caplog):
    """KRL-9, KRL-19."""
    async with kafka_world(OFTEN) as w:
        log, _, behind = await one_behind(w)
        await w.write(batch(4))
        w.cluster.trim("orders", 0, 7)
        await until(lambda: log.log_start_offset == 7)
        await log.close()
        w.cluster.elect_unclean("orders", 0, behind)
        w.logs = w.other_process()
        again = await w.open(2)
        assert (again.log_start_offset, again.damage) == (7, None)
        assert "log ends at offset 3, and had started at 7" in caplog.text
        await again.close()


async def test_fetches_name_no_epoch_where_the_ends_name_none(monkeypatch):
    """KRL-8: else each fetch would be one of a newer epoch, and nothing would be delivered."""
    async with kafka_world(OFTEN) as w:
        real = w.client.list_offset

        async def without(*words, **named):
            return replace(await real(*words, **named), leader_epoch=-1)

        monkeypatch.setattr(w.client, "list_offset", without)
        log = await w.open()
        await w.write(batch(3))
        w.cluster.move_leader("orders")
        await w.write(batch(2))
        await until(lambda: log.high_watermark == 5)
        assert len(values_of(await log.read(0, max_bytes=1 << 20))) == 5
        await log.refresh()
        assert log.damage is None
        await log.close()


def test_where_epochs_begin_is_known_by_the_newest_epoch_and_survives_the_store():
    """KRL-18: epochs of before may be lost since."""
    old = SeenPartition(3, 0, 9, None, ((2, 4), (3, 8)))
    new = SeenPartition(5, 0, 7, None, ((2, 4), (5, 6)))
    assert seen_together(old, new) == seen_together(new, old)
    assert seen_together(old, new).epoch_starts == ((2, 4), (5, 6))
    more = SeenPartition(5, 0, 7, None, ((4, 5), (5, 6)))
    assert seen_together(more, new).epoch_starts == ((2, 4), (4, 5), (5, 6))
    assert decode_partition(encode_partition(new)) == new
    for odd in (b'"x"', b'[["x",1]]', b"[[1]]"):
        value = encode_partition(new).replace(b"[[2,4],[5,6]]", odd)
        assert decode_partition(value) == replace(new, epoch_starts=())
