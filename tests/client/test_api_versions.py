"""What a cluster of before RENEW is not asked for (spec WIRE-4, CL-24)."""

import asyncio

import pytest

from sharemesh.client import AcknowledgeType
from sharemesh.client.errors import UnsupportedVersionError
from tests.client.mini_cluster import MiniCluster
from tests.client.test_async_share_consumer import consumer_of, explicit_of, until


@pytest.fixture
def old_cluster():
    cluster = MiniCluster()
    cluster.share_version = 1
    cluster.append(b"x", b"y")
    return cluster


async def test_renew_is_refused_before_it_is_sent(old_cluster):
    async with await explicit_of(old_cluster) as consumer:
        first, second = await consumer.poll(5_000)
        with pytest.raises(UnsupportedVersionError, match="RENEW"):
            consumer.acknowledge(first, AcknowledgeType.RENEW)
        for record in (first, second):
            consumer.acknowledge(record)
        await consumer.commit_sync()
    assert old_cluster.states() == ["accepted", "accepted"]


async def test_record_limit_mode_is_refused(old_cluster):
    async with await consumer_of(old_cluster, share_acquire_mode="record_limit") as consumer:
        with pytest.raises(UnsupportedVersionError, match="record_limit"):
            await consumer.poll(5_000)


async def test_run_goes_without_renewals_and_limits(old_cluster):
    old_cluster.lock_ms = 150
    seen = []

    async def handler(record):
        seen.append(record.offset)
        await asyncio.sleep(0.3)

    async with await consumer_of(old_cluster) as consumer:
        running = asyncio.ensure_future(consumer.run(handler, concurrency=2))
        await until(lambda: len(seen) >= 2)
        await asyncio.sleep(0.4)  # longer than both locks: a renewal would have come
        consumer.stop()
        await running
    sent = [kind for *_, kinds in old_cluster.acknowledged for kind in kinds]
    assert AcknowledgeType.RENEW not in sent


async def test_a_cluster_without_api_versions_speaks_the_first_version():
    cluster = MiniCluster(has_api_versions=False)
    cluster.append(b"x")
    async with await explicit_of(cluster) as consumer:
        (record,) = await consumer.poll(5_000)
        with pytest.raises(UnsupportedVersionError):
            consumer.acknowledge(record, AcknowledgeType.RENEW)
        consumer.acknowledge(record)
