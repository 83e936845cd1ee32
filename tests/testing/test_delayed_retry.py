"""Releases with a delay, and releases that do not count, by both clients' own calls (RTY, HND)."""

import asyncio
from datetime import timedelta

import pytest

import sharemesh.testing
from sharemesh.client import AcknowledgeType
from sharemesh.client.errors import IllegalArgumentError

RELEASE = AcknowledgeType.RELEASE


async def worker(mesh, **settings):
    admin = mesh.admin()
    await admin.create_topic("orders")
    named = {"share.auto.offset.reset": "earliest", "share.delivery.count.limit": "2", **settings}
    await admin.alter_group_configs("workers", named)
    await (await mesh.producer().send("orders", b"order 1"))
    consumer = mesh.consumer("workers", share_acknowledgement_mode="explicit")
    await consumer.subscribe(["orders"])
    return consumer


async def polled(consumer, timeout_ms=10_000):
    """Return the one record of a poll, and how long it took by the loop's clock."""
    began = asyncio.get_running_loop().time()
    (record,) = await consumer.poll(timeout_ms)
    return record, asyncio.get_running_loop().time() - began


@pytest.mark.parametrize("delay", [0.4, timedelta(milliseconds=400)])
async def test_rty_2_a_record_released_with_a_delay_comes_again_after_it(delay):
    async with sharemesh.testing.Mesh() as mesh:
        consumer = await worker(mesh)
        record, _ = await polled(consumer)
        consumer.acknowledge(record, RELEASE, delay=delay)
        assert list((await consumer.commit_sync()).values()) == [None]
        found = await mesh.admin().explain("workers", "orders", 0, record.offset)
        assert found.reason == "DELAYED"
        assert 0 < found.delay_remaining_ms <= 400
        assert found.events[-1].not_before_ms
        again, waited_s = await polled(consumer)
        assert (again.offset, again.delivery_count) == (record.offset, 2)
        assert waited_s > 0.3
        consumer.acknowledge(again)


async def test_rty_4_the_groups_schedule_holds_where_the_application_names_no_delay():
    async with sharemesh.testing.Mesh() as mesh:
        settings = {"share.retry.schedule": "400ms", "share.retry.backoff.jitter": "0"}
        consumer = await worker(mesh, **settings)
        record, _ = await polled(consumer)
        consumer.acknowledge(record, RELEASE)
        await consumer.commit_sync()
        again, waited_s = await polled(consumer)
        assert waited_s > 0.3
        consumer.acknowledge(again)


async def test_hnd_2_a_release_that_does_not_count_leaves_the_record_its_deliveries():
    async with sharemesh.testing.Mesh() as mesh:
        consumer = await worker(mesh)
        for delay in (None, 0.05, None, 0):
            record, _ = await polled(consumer)
            assert record.delivery_count == 1
            consumer.acknowledge(record, RELEASE, delay=delay, counted=False)
        record, _ = await polled(consumer)
        assert record.delivery_count == 1
        consumer.acknowledge(record)


@pytest.mark.parametrize(
    ("kind", "terms"),
    [
        (AcknowledgeType.ACCEPT, {"delay": 1}),
        (AcknowledgeType.REJECT, {"counted": False}),
        (RELEASE, {"delay": -1}),
        (RELEASE, {"delay": float("nan")}),
        (RELEASE, {"delay": timedelta(days=1, milliseconds=1)}),
    ],
)
async def test_rty_1_a_delay_that_cannot_be_is_refused_and_nothing_is_decided(kind, terms):
    async with sharemesh.testing.Mesh() as mesh:
        consumer = await worker(mesh)
        record, _ = await polled(consumer)
        with pytest.raises(IllegalArgumentError):
            consumer.acknowledge(record, kind, **terms)
        consumer.acknowledge(record)
        assert list((await consumer.commit_sync()).values()) == [None]
