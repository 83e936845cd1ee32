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
MEASURED_S = 3
"""The shortest time for which a mean says how a rate is kept."""

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


def assert_is_kept(arrivals, rate, began_s, lot):
    """Check bytes that came, as (time, bytes), against a quota in bytes a second (QUO-5).

    Never more came than one second brings at once, what time brought since, and one lot. What a
    busy machine held up is caught up within the second that an account saves for, so there is
    some time by which as much came as the quota allows, however late the last bytes were.
    """
    total, last_s, since_s, before, means = 0, began_s, 0.0, 0, []
    for at_s, size in arrivals:
        if at_s - last_s > 0.005:  # the first bytes of a lot
            if not since_s and total >= 1.5 * rate:
                since_s, before = at_s, total
            elif since_s and at_s - since_s >= MEASURED_S:
                means.append((total - before) / (at_s - since_s))
        total, last_s = total + size, at_s
        allowed = rate * (1 + at_s - began_s) + lot
        assert total * OVERHEAD <= allowed, f"{total} bytes came in {at_s - began_s} s"
    assert means, f"only {total} bytes came"
    assert max(means) * OVERHEAD >= 0.95 * rate, max(means)


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
    began_s = asyncio.get_running_loop().time()
    throttled_ms = await asyncio.gather(*(produce_for(config, SECONDS, arrivals) for _ in range(2)))
    assert_is_kept(arrivals, rate, began_s, BATCH)
    assert max(throttled_ms) > 0


async def test_throttled_consumers_keep_to_the_quota_and_lose_and_double_nothing(served):
    config, admin = served
    rate, count = 200_000, 1_300
    await admin.alter_group_configs("g", {"share.auto.offset.reset": "earliest"})
    await produce_for(config, 30, [], count=count)
    assert await admin.alter_client_quotas({JANE: {"consumer_byte_rate": rate}}) == {JANE: None}
    loop = asyncio.get_running_loop()
    consumers = [AsyncShareConsumer({**config, "group.id": "g"}) for _ in range(2)]
    got, arrivals, began_s = [], [], loop.time()

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
    assert_is_kept(arrivals, rate, began_s, 0.25 * rate + BATCH)
    assert most_ms > 0
