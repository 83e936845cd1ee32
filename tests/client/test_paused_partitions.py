"""A member leaves partitions out for a while (docs/spec/delivery.md, PAU-6, PAU-7)."""

import asyncio

import pytest

from sharemesh.client import AcknowledgeType, TopicPartition
from sharemesh.client.errors import IllegalArgumentError, IllegalStateError
from tests.client.mini_cluster import MiniCluster
from tests.client.test_async_share_consumer import consumer_of, explicit_of, until
from tests.client.test_share_consumer import consumer_to_nowhere

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def appended(cluster, count, partition):
    cluster.append(*[b"x"] * count, partition=partition, batched=False)


def states(cluster, partition):
    return [each.state for each in cluster.partitions[partition].records.values()]


def counts(cluster, partition):
    return [each.delivery_count for each in cluster.partitions[partition].records.values()]


async def assigned(cluster, **config):
    consumer = await consumer_of(cluster, **config)
    await until(lambda: consumer.assignment() == {T0, T1})
    return consumer


async def test_pau_6_nothing_is_returned_of_a_paused_partition():
    cluster = MiniCluster(2)
    consumer = await assigned(cluster)
    consumer.pause([T1])
    assert consumer.paused() == {T1}
    appended(cluster, 3, 0)
    appended(cluster, 3, 1)
    seen = []
    while len(seen) < 3:
        seen += await consumer.poll(5_000)
    assert {each.partition for each in seen} == {0}
    assert await consumer.poll(50) == []
    assert counts(cluster, 1) == [0] * 3
    consumer.resume([T1])
    assert consumer.paused() == frozenset()
    assert {each.partition for each in await consumer.poll(5_000)} == {1}
    await consumer.close()


async def test_pau_6_only_what_is_assigned_can_be_paused_and_pausing_twice_is_fine():
    cluster = MiniCluster(2)
    consumer = await assigned(cluster)
    for call in (consumer.pause, consumer.resume):
        with pytest.raises(IllegalStateError, match="t/7"):
            call([T0, TopicPartition("t", 7)])
    assert consumer.paused() == frozenset()
    consumer.pause([T0])
    consumer.pause([T0])
    consumer.resume([T1])
    assert consumer.paused() == {T0}
    await consumer.close()
    with pytest.raises(IllegalStateError, match="closed"):
        consumer.pause([T0])


async def test_pau_6_what_is_assigned_away_and_an_unsubscribe_end_a_pause():
    cluster = MiniCluster(2)
    consumer = await assigned(cluster)
    consumer.pause([T0, T1])
    cluster.assigned = []
    await until(lambda: not consumer.assignment())
    assert consumer.paused() == frozenset()
    await consumer.close()
    consumer = await assigned(MiniCluster(2))
    consumer.pause([T1])
    await consumer.unsubscribe()
    assert consumer.paused() == consumer.assignment() == frozenset()
    await consumer.close()


async def test_pau_7_what_waits_goes_back_uncounted_and_what_is_held_is_acknowledged():
    cluster = MiniCluster(2)
    appended(cluster, 10, 1)
    consumer = await explicit_of(cluster, max_poll_records=2, prefetch_records=20)
    held = await consumer.poll(5_000)
    consumer.pause([T1])
    await until(lambda: states(cluster, 1).count("available") == 8)
    assert counts(cluster, 1) == [1, 1] + [0] * 8
    for record in held:
        consumer.acknowledge(record, AcknowledgeType.ACCEPT)
    await consumer.commit_sync()
    assert states(cluster, 1) == ["accepted"] * 2 + ["available"] * 8
    await consumer.close()


async def test_pau_7_run_begins_no_handler_of_a_paused_partition():
    cluster = MiniCluster(2)
    appended(cluster, 4, 1)
    seen, go = [], asyncio.Event()

    async def handler(record):
        seen.append(record.partition)
        if record.partition == 1 and not consumer.paused():
            consumer.pause([T1])  # from a handler
            await go.wait()

    consumer = await assigned(cluster, share_acquire_mode="batch_optimized")
    running = asyncio.ensure_future(consumer.run(handler))
    await until(lambda: sorted(states(cluster, 1)) == ["acquired"] + ["available"] * 3)
    go.set()
    appended(cluster, 3, 0)
    await until(lambda: states(cluster, 0) == ["accepted"] * 3)
    assert sorted(seen) == [0, 0, 0, 1]
    assert sorted(counts(cluster, 1)) == [0, 0, 0, 1]
    consumer.stop()
    await running
    await consumer.close()


def test_pau_6_a_consumer_on_threads_has_it_too():
    consumer = consumer_to_nowhere()
    for _ in range(2):  # before its event loop runs, and then
        assert consumer.assignment() == consumer.paused() == frozenset()
        with pytest.raises(IllegalStateError, match="not assigned"):
            consumer.pause([T0])
        consumer.subscribe(["t"])
    consumer.close(timeout_ms=0)
    assert consumer.paused() == frozenset()


@pytest.mark.parametrize("given", ["jobs", T0, [("t",)], [3]])
async def test_what_is_no_partition_is_refused_pau_6(given):
    consumer = await assigned(MiniCluster(2))
    with pytest.raises(IllegalArgumentError, match="is no partition: give several"):
        consumer.pause(given)
    assert not consumer.paused()
    await consumer.close()
