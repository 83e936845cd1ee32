"""``prefetch.records``: how far ahead of poll leaders may send."""

import asyncio
from contextlib import suppress

import pytest

from sharemesh.client.consumer import consume_stream
from sharemesh.client.errors import TopicAuthorizationFailedError
from sharemesh.domain.errors import ErrorCode
from tests.client.mini_cluster import MiniCluster
from tests.client.test_async_share_consumer import consumer_of, explicit_of, until


def held(cluster: MiniCluster) -> int:
    return cluster.states().count("acquired")


async def test_a_fast_application_is_sent_more_ahead():
    cluster = MiniCluster()
    cluster.append(*[b"%d" % n for n in range(400)], batched=False)
    async with await consumer_of(cluster, max_poll_records=10) as consumer:
        for _ in range(5):
            assert await consumer.poll(5_000)
        await until(lambda: held(cluster) > 20)  # 10 handed out, 10 ahead, and more
        assert held(cluster) <= 10 + 8 * 10


async def test_the_largest_poll_fits_a_request():
    cluster = MiniCluster()
    cluster.append(b"1")
    async with await consumer_of(cluster, max_poll_records=2**31 - 1) as consumer:
        assert len(await consumer.poll(5_000)) == 1


async def test_nothing_is_sent_ahead_in_explicit_mode():
    cluster = MiniCluster()
    cluster.append(*[b"%d" % n for n in range(40)], batched=False)
    async with await explicit_of(cluster, max_poll_records=10) as consumer:
        for record in await consumer.poll(5_000):
            consumer.acknowledge(record)
        await consumer.commit_sync()
        assert held(cluster) == 0


async def test_a_fixed_number_is_kept():
    cluster = MiniCluster()
    cluster.append(*[b"%d" % n for n in range(400)], batched=False)
    async with await consumer_of(cluster, max_poll_records=10, prefetch_records=3) as consumer:
        for _ in range(5):
            assert await consumer.poll(5_000)
        assert held(cluster) <= 10 + 10


async def ahead_of_poll(cluster: MiniCluster, consumer) -> None:
    """Return when 10 records are handed out, and 40 wait."""
    assert len(await consumer.poll(5_000)) == 10
    await until(lambda: held(cluster) == 50)


async def test_acknowledgements_of_a_busy_consumer_go_with_the_next_message(monkeypatch):
    """CL-34."""
    monkeypatch.setattr(consume_stream, "HOLD_MS", 600_000)
    cluster = MiniCluster()
    cluster.append(*[b"%d" % n for n in range(400)], batched=False)
    async with await consumer_of(cluster, max_poll_records=10, prefetch_records=40) as consumer:
        await ahead_of_poll(cluster, consumer)
        assert len(await consumer.poll(5_000)) == 10
        assert cluster.acknowledged == []
        assert len(await consumer.poll(5_000)) == 10  # half is gone: more is asked for
        await until(lambda: cluster.acknowledged)
        assert [each[1:] for each in cluster.acknowledged] == [(0, 19, [1])]
        assert not any((await consumer.commit_sync()).values())
        assert [each[1:3] for each in cluster.acknowledged] == [(0, 19), (20, 29)]


async def test_acknowledgements_wait_a_few_milliseconds_for_a_message_to_go_with():
    """CL-34."""
    cluster = MiniCluster()
    cluster.append(*[b"%d" % n for n in range(400)], batched=False)
    async with await consumer_of(cluster, max_poll_records=10, prefetch_records=40) as consumer:
        await ahead_of_poll(cluster, consumer)
        assert len(await consumer.poll(5_000)) == 10
        await until(lambda: cluster.acknowledged)
        assert [each[1:] for each in cluster.acknowledged] == [(0, 9, [1])]


async def test_acknowledgements_that_wait_when_the_session_ends_fail(monkeypatch):
    """CL-34."""
    monkeypatch.setattr(consume_stream, "HOLD_MS", 600_000)
    cluster = MiniCluster()
    cluster.append(*[b"%d" % n for n in range(400)], batched=False)
    failed = []
    async with await consumer_of(cluster, max_poll_records=10, prefetch_records=40) as consumer:
        consumer.set_acknowledgement_commit_callback(
            lambda offsets, error: failed.append((offsets, error))
        )
        await ahead_of_poll(cluster, consumer)
        await consumer.poll(5_000)
        await cluster.network.disconnect("a:1")
        async with asyncio.timeout(20):
            while not failed:
                await consumer.poll(100)
        (offsets,) = failed[0][0].values()
        assert offsets == set(range(10))
        assert failed[0][1] is not None


async def test_records_of_a_partition_whose_right_is_lost_are_not_handed_out():
    """CL-35."""
    cluster = MiniCluster()
    cluster.append(*[b"%d" % n for n in range(400)], batched=False)
    async with await consumer_of(cluster, max_poll_records=10, prefetch_records=40) as consumer:
        await ahead_of_poll(cluster, consumer)
        cluster.refuse_partition = [ErrorCode.TOPIC_AUTHORIZATION_FAILED]
        cluster.append(b"more")
        await until(lambda: not cluster.refuse_partition)
        with pytest.raises(TopicAuthorizationFailedError):
            await consumer.poll(1_000)
        with suppress(TopicAuthorizationFailedError):
            assert all(record.offset >= 50 for record in await consumer.poll(1_000))
