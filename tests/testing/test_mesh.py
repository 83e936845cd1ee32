"""A mesh in memory keeps the promises of a cluster, under a test's time and faults."""

import asyncio

import pytest

from sharemesh.client import AcknowledgeType, AsyncAdminClient
from sharemesh.client.errors import IllegalArgumentError
from sharemesh.client.quotas import EntityType, QuotaEntity, QuotaName
from sharemesh.testing import Mesh, MeshClock

EARLIEST = {"share.auto.offset.reset": "earliest"}
EXPLICIT = {"share_acknowledgement_mode": "explicit"}
LOCK_S = 31
"""A second longer than a lock lasts by default."""


async def one_record(mesh: Mesh, topic: str = "orders", group: str = "workers") -> None:
    """Create a topic and a group that begins at its only record."""
    admin = mesh.admin()
    await admin.create_topic(topic)
    await admin.alter_group_configs(group, EARLIEST)
    await (await mesh.producer(linger_ms=0).send(topic, "first"))


async def polled(consumer, timeout_ms=10_000):
    [record] = await consumer.poll(timeout_ms)
    return record


async def test_a_record_is_produced_consumed_and_acknowledged():
    async with Mesh() as mesh:
        await one_record(mesh)
        consumer = mesh.consumer("workers", **EXPLICIT)
        await consumer.subscribe(["orders"])
        record = await polled(consumer)
        assert record.value == b"first"
        consumer.acknowledge(record)
        assert set((await consumer.commit_sync()).values()) == {None}
        assert await consumer.poll(200) == []


async def test_a_lock_expires_when_the_clock_is_advanced():
    async with Mesh() as mesh:
        await one_record(mesh)
        slow, other = (mesh.consumer("workers", **EXPLICIT) for _ in range(2))
        await slow.subscribe(["orders"])
        assert (await polled(slow)).delivery_count == 1
        await other.subscribe(["orders"])
        assert await other.poll(300) == []
        await mesh.clock.advance(LOCK_S)
        assert (await polled(other)).delivery_count == 2


@pytest.mark.parametrize("nodes", [1, 2])
async def test_an_unacknowledged_record_comes_again_after_its_leader_was_dropped(nodes):
    async with Mesh(nodes=nodes) as mesh:
        await one_record(mesh)
        consumer = mesh.consumer("workers")
        await consumer.subscribe(["orders"])
        first = await mesh.leader("orders")
        await mesh.drop_leader("orders")
        assert first is not await mesh.leader("orders")
        assert (await polled(consumer, 30_000)).value == b"first"


async def test_a_consumer_goes_on_after_its_connections_were_cut():
    async with Mesh() as mesh:
        await one_record(mesh)
        consumer = mesh.consumer("workers")
        await consumer.subscribe(["orders"])
        assert (await polled(consumer)).offset == 0
        await consumer.commit_sync()
        await mesh.cut_connections()
        await (await mesh.producer(linger_ms=0).send("orders", "second"))
        assert (await polled(consumer, 30_000)).value == b"second"


async def test_an_acknowledgement_is_not_confirmed_while_state_writes_fail():
    async with Mesh() as mesh:
        await one_record(mesh)
        consumer = mesh.consumer("workers", **EXPLICIT)
        await consumer.subscribe(["orders"])
        consumer.acknowledge(await polled(consumer), AcknowledgeType.ACCEPT)
        mesh.faults.state_writes_fail = True
        [problem] = (await consumer.commit_sync(1_000)).values()
        assert problem is not None
        mesh.faults.state_writes_fail = False


async def test_the_loops_timers_are_due_with_the_clock_and_in_order():
    clock = MeshClock()
    woken = []

    async def sleeper(seconds):
        await asyncio.sleep(seconds)
        woken.append((seconds, clock.now_ms()))

    start_ms = clock.now_ms()
    tasks = [asyncio.ensure_future(sleeper(seconds)) for seconds in (20, 5, 3_600)]
    await clock.advance(30)
    assert [seconds for seconds, _ in woken] == [5, 20]
    assert all(now_ms - start_ms < (seconds + 5) * 1_000 for seconds, now_ms in woken)
    tasks[2].cancel()


async def test_time_does_not_go_back():
    with pytest.raises(ValueError, match="does not go back"):
        await MeshClock().advance(-1)


async def test_a_mesh_has_a_process():
    with pytest.raises(IllegalArgumentError, match="at least one"):
        Mesh(nodes=0)


async def test_access_rules_hold_for_all_but_super_users():
    async with Mesh(super_users=["User:root"]) as mesh:
        settings = {"bootstrap.servers": mesh.bootstrap}
        root = AsyncAdminClient(settings, environment=mesh.environment("User:root"))
        jane = AsyncAdminClient(settings, environment=mesh.environment("User:jane"))
        async with root, jane:
            await root.create_topic("orders")
            assert await root.list_topics() == ["orders"]
            assert await jane.list_topics() == []


async def test_quotas_hold_in_a_mesh_and_its_producer_obeys_them():
    """QUO-11."""
    async with Mesh() as mesh:
        await mesh.admin().create_topic("orders")
        anybody = QuotaEntity(EntityType.USER, None)
        problems = await mesh.admin().alter_client_quotas({anybody: {"producer_byte_rate": 1_000}})
        assert problems == {anybody: None}
        view = mesh.nodes[0].view
        rate = QuotaName.PRODUCER_BYTE_RATE
        assert await view.wait_for(
            lambda: view.tables.quotas.limit(rate, "User:ANONYMOUS") == 1_000, timeout_ms=5_000
        )
        producer = mesh.producer(linger_ms=0)
        await (await producer.send("orders", bytes(2_000)))
        second = await producer.send("orders", b"x")
        await asyncio.sleep(0.05)
        assert not second.done()
        await mesh.clock.advance(2)
        assert (await second).offset == 1
        assert producer.metrics()["produce-throttle-time-max"] > 900
