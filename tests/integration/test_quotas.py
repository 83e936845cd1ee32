"""Quotas over real gRPC, with our own clients: kept within 5%, and nothing lost (QUO-5, QUO-11)."""

import asyncio

import pytest

from sharemesh.client import AsyncAdminClient, AsyncProducer, AsyncShareConsumer
from sharemesh.client.admin_results import NewTopic
from sharemesh.client.quotas import EntityType, QuotaEntity
from sharemesh.serve.role_process import RoleProcess
from sharemesh.serve.settings.settings import ServeSettings
from sharemesh.serve.supervise.child_protocol import Reporter

pytestmark = pytest.mark.integration

JANE = QuotaEntity(EntityType.USER, "User:ANONYMOUS")
VALUE = 1_000
BATCH = 10_000
SECONDS = 6
OVERHEAD = 1.015
"""What a batch of nine such records takes beside their values."""


@pytest.fixture
async def served(tmp_path):
    settings = ServeSettings(
        cluster_id="quotas", data_directory=tmp_path, listen_port=0, health_port=-1, metrics_port=-1
    )
    process = RoleProcess(settings, Reporter(None))
    node = await process.start()
    config = {"bootstrap.servers": f"{node.host}:{node.port}"}
    admin = AsyncAdminClient(config)
    await admin.create_topics([NewTopic("t", 1)])
    yield config, admin
    await admin.close()
    await process.stop(drain=False)


def rate_of(arrivals, free):
    """Return bytes a second, from (time, bytes), once so many free bytes have come."""
    total = 0
    for at, (began_s, size) in enumerate(arrivals):
        total += size
        if total >= free:
            rest = arrivals[at + 1 :]
            return sum(each for _, each in rest) / (rest[-1][0] - began_s)
    raise AssertionError(f"only {total} bytes came")


async def produce_for(config, seconds, arrivals, *, count=1_000_000):
    """Produce as fast as it goes; note when which bytes were confirmed."""
    loop = asyncio.get_running_loop()

    def landed(future):
        if not future.cancelled() and future.exception() is None:
            arrivals.append((loop.time(), VALUE))

    producer = AsyncProducer({**config, "batch.size": BATCH, "buffer.memory": 3 * BATCH})
    ends, sent = loop.time() + seconds, 0
    while loop.time() < ends and sent < count:
        future = await producer.send("t", sent.to_bytes(8, "big") + bytes(VALUE - 8))
        future.add_done_callback(landed)
        sent += 1
    await producer.flush()
    throttled_ms = producer.metrics()["produce-throttle-time-max"]
    await producer.close()
    return throttled_ms


async def test_a_produce_quota_is_kept_by_two_producers_together(served):
    config, admin = served
    rate, arrivals = 200_000, []
    assert await admin.alter_client_quotas({JANE: {"producer_byte_rate": rate}}) == {JANE: None}
    throttled_ms = await asyncio.gather(*(produce_for(config, SECONDS, arrivals) for _ in range(2)))
    found = rate_of(arrivals, 1.5 * rate) / rate
    assert 0.95 <= found * OVERHEAD <= 1.05, found
    assert max(throttled_ms) > 0


async def test_throttled_consumers_keep_to_the_quota_and_lose_and_double_nothing(served):
    config, admin = served
    rate, count = 200_000, 1_300
    await admin.alter_group_configs("g", {"share.auto.offset.reset": "earliest"})
    await produce_for(config, 30, [], count=count)
    assert await admin.alter_client_quotas({JANE: {"consumer_byte_rate": rate}}) == {JANE: None}
    loop = asyncio.get_running_loop()
    consumers = [AsyncShareConsumer({**config, "group.id": "g"}) for _ in range(2)]
    got, arrivals = [], []

    async def consume(consumer):
        await consumer.subscribe(["t"])
        while len(got) < count:
            for record in await consumer.poll(200):
                got.append((record.offset, record.delivery_count))
                arrivals.append((loop.time(), VALUE))

    async with asyncio.timeout(30):
        await asyncio.gather(*(consume(each) for each in consumers))
    most_ms = max(each.metrics()["fetch-throttle-time-max"] for each in consumers)
    for each in consumers:
        await each.close()
    assert sorted(got) == [(offset, 1) for offset in range(count)]
    found = rate_of(arrivals, 1.5 * rate) / rate
    assert 0.95 <= found * OVERHEAD <= 1.05, found
    assert most_ms > 0
