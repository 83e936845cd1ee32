"""Tokens of deliveries, and handlers whose lock is gone (docs/spec/delivery.md, TOK)."""

import asyncio
import threading

import pytest

from sharemesh.client import AcknowledgeType, FencingToken, RunOptions
from sharemesh.client.consumer.handler_runner import HandlerRunner
from sharemesh.client.consumer.share_consumer import ThreadHandlers
from sharemesh.client.errors import UnsupportedVersionError
from tests.client.mini_cluster import MiniCluster
from tests.client.test_async_share_consumer import consumer_of, explicit_of, until

OWN_LOCKS = RunOptions(renew=False)


async def test_tok_2_a_record_has_the_token_of_its_delivery():
    cluster = MiniCluster()
    cluster.append(b"x", b"y")
    async with await explicit_of(cluster) as consumer:
        first = await consumer.poll(5_000)
        assert [each.fencing_token for each in first] == [FencingToken(5, 1, 1, 1)] * 2
        for record in first:
            consumer.acknowledge(record, AcknowledgeType.RELEASE)
        again = await consumer.poll(5_000)
        assert again[0].fencing_token == FencingToken(5, 1, 2, 2) > first[0].fencing_token
        assert not again[0].lock_lost


async def test_tok_2_columns_have_the_tokens_too():
    cluster = MiniCluster()
    cluster.append(b"x", b"y")
    async with await consumer_of(cluster) as consumer:
        [columns] = await consumer.poll_batches(5_000)
        assert columns.fencing_tokens == [FencingToken(5, 1, 1, 1)] * 2


async def test_tok_4_a_leader_of_before_gives_none():
    cluster = MiniCluster()
    cluster.numbers_acquisitions = False
    cluster.append(b"x")
    async with await consumer_of(cluster) as consumer:
        [record] = await consumer.poll(5_000)
        with pytest.raises(UnsupportedVersionError, match="upgrade"):
            _ = record.fencing_token


async def test_tok_5_a_handler_whose_lock_is_over_is_cancelled(caplog):
    cluster = MiniCluster(lock_ms=200)
    cluster.append(b"x")
    seen, cancelled = [], []

    async def handler(record):
        seen.append(record)
        if len(seen) > 1:
            return
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(record.lock_lost)
            raise

    consumer = await consumer_of(cluster)
    running = asyncio.ensure_future(consumer.run(handler, concurrency=2, options=OWN_LOCKS))
    await until(lambda: cluster.states() == ["accepted"])
    assert cancelled == [True]
    first, *_, last = seen
    assert last.fencing_token > first.fencing_token
    assert not last.lock_lost
    assert "the lock of t/0@0 is gone" in caplog.text
    consumer.stop()
    await running
    await consumer.close()


async def test_tok_5_locks_that_are_lost_together_are_one_line_of_the_log(caplog):
    """TOK-5: as when a leader dies on which a thousand handlers depend."""
    cluster = MiniCluster(lock_ms=300)
    cluster.append(*[b"x"] * 50)
    cancelled = []

    async def handler(record):
        if record.delivery_count > 1:
            return
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(record.offset)
            raise

    consumer = await consumer_of(cluster)
    running = asyncio.ensure_future(consumer.run(handler, concurrency=50, options=OWN_LOCKS))
    await until(lambda: cluster.states() == ["accepted"] * 50)
    consumer.stop()
    await running
    await consumer.close()
    assert sorted(cancelled) == list(range(50))
    [said] = [each for each in caplog.messages if "while its handler worked" in each]
    assert "the lock of each of 50 records of t/0 (0 to 49) is gone" in said


async def test_tok_5_a_member_that_let_a_lock_end_is_heard_of_and_gets_more():
    """TOK-5: its credit lasts, so nothing else would be sent, and it would be stalled (HBK-10)."""
    cluster = MiniCluster(lock_ms=200)
    cluster.append(b"x")

    async def handler(record):
        if record.delivery_count == 1:
            await asyncio.Event().wait()

    consumer = await consumer_of(cluster)
    running = asyncio.ensure_future(consumer.run(handler, concurrency=8, options=OWN_LOCKS))
    await until(lambda: cluster.states() == ["accepted"])
    consumer.stop()
    await running
    await consumer.close()


async def test_tok_5_what_a_handler_without_a_lock_says_counts_for_nothing():
    """TOK-5: a thread cannot be cancelled: it is told, and its word is dropped."""
    cluster = MiniCluster(lock_ms=200)
    cluster.append(b"x")
    said, told, go_on = [], threading.Event(), threading.Event()
    cluster.on_acknowledgement = lambda batch: said.append(list(batch.acknowledge_types))

    def handler(record):
        if record.delivery_count == 1:
            while not record.lock_lost:
                go_on.wait(0.01)
            told.set()
            go_on.wait(10)
            return AcknowledgeType.REJECT
        return None

    consumer = await consumer_of(cluster)
    with ThreadHandlers(handler, 2) as threads:
        runner = HandlerRunner(consumer._calls, threads.handle, 2, OWN_LOCKS, cancels=False)
        running = asyncio.ensure_future(runner.run())
        await until(lambda: cluster.states() == ["accepted"] and told.is_set())
        go_on.set()
        runner.stop()
        await running
    await consumer.close()
    assert said == [[AcknowledgeType.ACCEPT]]


async def test_tok_5_renewals_that_no_leader_confirms_do_not_keep_a_lock():
    cluster = MiniCluster(lock_ms=300)
    cluster.renew_error = 121
    cluster.append(b"x")
    ended = []

    async def handler(record):
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(record.lock_lost)

    consumer = await consumer_of(cluster)
    running = asyncio.ensure_future(consumer.run(handler))
    await until(lambda: ended[:1] == [True])
    consumer.stop()
    running.cancel()
    await asyncio.wait([running])
    await consumer.close()
