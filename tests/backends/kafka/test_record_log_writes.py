"""What goes to Kafka through a record log: records, their deletion, and questions for times."""

import asyncio
from contextlib import nullcontext, suppress
from dataclasses import replace

from sharemesh.domain.errors import ErrorCode, RefusedError
from tests.backends.kafka.record_log_world import (
    QUICK,
    all_read,
    batch,
    kafka_world,
    refused,
    transactional,
    until,
)


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
