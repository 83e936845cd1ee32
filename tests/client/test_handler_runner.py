"""``run(handler)``: acknowledgement apart from polling, renewal, graceful stop."""

import asyncio

import pytest

from sharemesh.client import AcknowledgeType, RunOptions
from sharemesh.client.errors import TopicAuthorizationFailedError
from sharemesh.domain.errors import ErrorCode
from tests.client.mini_cluster import MiniCluster
from tests.client.test_async_consumer import consumer_of, until


async def test_each_record_is_acknowledged_as_its_handler_says():
    cluster = MiniCluster()
    cluster.append(b"accept", b"reject", b"raise", batched=False)
    complaints = []

    async def handler(record):
        if record.value == b"reject":
            return AcknowledgeType.REJECT
        if record.value == b"raise" and record.delivery_count == 1:
            raise ValueError("no")
        return None

    options = RunOptions(complain=lambda record, error: complaints.append((record.offset, error)))
    consumer = await consumer_of(cluster)
    running = asyncio.ensure_future(consumer.run(handler, concurrency=2, options=options))
    await until(lambda: cluster.states() == ["accepted", "rejected", "accepted"])
    consumer.stop()
    await running
    assert cluster.counts() == [1, 1, 2]
    assert [(offset, str(error)) for offset, error in complaints] == [(2, "no")]
    await consumer.close()


async def test_a_partition_that_cannot_be_read_for_the_time_being_does_not_end_a_run():
    """A coordinator's volume was full: the leader had no state (UNKNOWN_SERVER_ERROR)."""
    cluster = MiniCluster()
    cluster.append(b"x")
    cluster.refuse_partition = [-1, 15]
    complaints = []
    options = RunOptions(complain=lambda record, error: complaints.append((record, error.code)))
    consumer = await consumer_of(cluster)
    running = asyncio.ensure_future(consumer.run(_nothing, options=options))
    await until(lambda: cluster.states() == ["accepted"])
    consumer.stop()
    await running
    assert complaints == [
        (None, ErrorCode.UNKNOWN_SERVER_ERROR),
        (None, ErrorCode.COORDINATOR_NOT_AVAILABLE),
    ]
    await consumer.close()


async def test_a_partition_that_is_not_allowed_ends_a_run():
    cluster = MiniCluster()
    cluster.append(b"x")
    cluster.refuse_partition = [29]
    consumer = await consumer_of(cluster)
    with pytest.raises(TopicAuthorizationFailedError):
        await consumer.run(_nothing)
    await consumer.close()


async def _nothing(_):
    return None


async def test_a_slow_record_holds_nothing_back_and_keeps_its_lock():
    cluster = MiniCluster(lock_ms=300)
    cluster.append(*[b"%d" % n for n in range(20)], batched=False)
    go = asyncio.Event()

    async def handler(record):
        if record.offset == 0:
            await go.wait()

    consumer = await consumer_of(cluster)
    told = []
    consumer.set_acknowledgement_commit_callback(
        lambda offsets, error: told.extend((n, error) for each in offsets.values() for n in each)
    )
    running = asyncio.ensure_future(consumer.run(handler, concurrency=3))
    await until(lambda: cluster.states()[1:] == ["accepted"] * 19)
    await asyncio.sleep(0.7)  # more than two lock durations: the lock must have been renewed
    assert cluster.states()[0] == "acquired"
    go.set()
    await until(lambda: cluster.states()[0] == "accepted")
    assert cluster.counts() == [1] * 20
    consumer.stop()
    await running
    assert sorted(told) == [(n, None) for n in range(20)]  # of renewals nobody is told
    await consumer.close()


async def test_renewal_has_a_cap():
    cluster = MiniCluster(lock_ms=150)
    cluster.append(b"x")
    go = asyncio.Event()

    async def handler(record):
        await go.wait()

    consumer = await consumer_of(cluster)
    options = RunOptions(renew_max_ms=100)
    running = asyncio.ensure_future(consumer.run(handler, concurrency=1, options=options))
    await until(lambda: cluster.counts() and cluster.counts()[0] >= 1)
    await until(lambda: cluster.states() == ["available"] or cluster.counts()[0] > 1)
    go.set()
    consumer.stop()
    await running
    await consumer.close()


async def test_stop_finishes_what_runs_and_releases_what_waits():
    cluster = MiniCluster()
    cluster.append(*[b"x"] * 10)
    started = asyncio.Event()
    go = asyncio.Event()

    async def handler(record):
        started.set()
        await go.wait()

    consumer = await consumer_of(cluster, share_acquire_mode="batch_optimized")
    running = asyncio.ensure_future(consumer.run(handler, concurrency=1))
    await started.wait()
    consumer.stop()
    await until(lambda: cluster.states().count("available") == 9)
    assert cluster.counts() == [1] + [0] * 9  # nobody saw those that waited
    go.set()
    await running
    assert sorted(cluster.states()) == ["accepted"] + ["available"] * 9
    await consumer.close()


async def test_handlers_never_run_more_than_concurrency_at_once():
    cluster = MiniCluster()
    cluster.append(*[b"x"] * 50)
    now = most = 0

    async def handler(record):
        nonlocal now, most
        now += 1
        most = max(most, now)
        await asyncio.sleep(0)
        now -= 1

    consumer = await consumer_of(cluster)
    running = asyncio.ensure_future(consumer.run(handler, concurrency=4))
    await until(lambda: cluster.states() == ["accepted"] * 50)
    consumer.stop()
    await running
    assert most == 4
    await consumer.close()
