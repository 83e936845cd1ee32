"""Shard logs on real brokers: the contract suite's promises, compression behind our back, kills."""

import asyncio
import random

import pytest

from sharemesh.backends.kafka.shard_logs.coordinator_topics import (
    CoordinatorTopic,
    coordinator_topic_problems,
    create_coordinator_topics,
)
from sharemesh.kafka.brokers_client import KafkaBrokers
from sharemesh.kafka.dialing import Dialing
from sharemesh.ports.brokers import BrokerLane, BrokerPartition
from sharemesh.ports.shard_log import LogRecord
from tests.backends.kafka.competing_processes import TOPIC, Process, SharedLog
from tests.backends.kafka.owned_logs import OwnedKafkaLogs
from tests.clocks import LoopClock
from tests.kafka.jars import KafkaMissingError
from tests.kafka.real_broker import RealBrokers, real_brokers

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(240)]


def a_client(bootstrap: str) -> KafkaBrokers:
    return KafkaBrokers(bootstrap.split(","), Dialing(LoopClock()), random.Random(1))


async def make_topics(client: KafkaBrokers, replicas: int = 1) -> dict[str, CoordinatorTopic]:
    name = f"logs-{random.SystemRandom().randrange(1 << 40):x}"
    return await create_coordinator_topics(
        client,
        LoopClock(),
        {"state": (f"{name}-state", 2), "group": (f"{name}-group", 2)},
        replication_factor=replicas,
        min_insync_replicas=max(1, replicas - 1),
        servers="",
    )


@pytest.fixture
async def client(kafka_broker):
    client = a_client(kafka_broker.bootstrap)
    yield client
    await client.close()


async def test_stl_22_stl_23_topics_are_made_as_they_must_be(client):
    topics = await make_topics(client)
    for each in topics.values():
        configs = await client.topic_configs(each.topic)
        assert (
            coordinator_topic_problems(each.topic, configs, 1, servers="a:1", single_replica=True)
            == ()
        )
        (few, one) = coordinator_topic_problems(
            each.topic, configs, 1, servers="a:1", single_replica=False
        )
        assert "min.insync.replicas=1" in few
        assert "1 replica" in one
    again = await make_topics(client)
    assert again["state"].topic_id != topics["state"].topic_id


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
async def test_stl_3_units_that_the_cluster_compressed_count(client, codec):
    """Called void they would be lost without a word, and their number given again."""
    topics = await make_topics(client)
    logs = OwnedKafkaLogs(client, topics, LoopClock())
    log = await logs.open("state", 0, 1)
    topic = topics["state"].topic
    for n in range(6):
        if n in (2, 4):
            change = {"compression.type": codec if n == 2 else None}
            await client.alter_topic_configs(topic, change)
            await until_set(client, topic, codec if n == 2 else "producer")
        log.append([LogRecord(b"%d" % n, b"x" * 1_000)] * 3)
        await log.committed(log.end_offset)
    await log.close()
    place = BrokerPartition(topics["state"].topic_id, topic, 0)
    fetched = await client.fetch(place, 0, max_bytes=1 << 20)
    assert len(fetched.records) < 18_000  # two units are small
    again = await logs.open("state", 0, 2)
    found = [record.key async for chunk in again.replay() for record in chunk]
    assert found == [b"%d" % n for n in range(6) for _ in range(3)]
    await again.close()


async def until_set(client: KafkaBrokers, topic: str, value: str) -> None:
    async with asyncio.timeout(20):
        while (await client.topic_configs(topic))["compression.type"] != value:
            await asyncio.sleep(0.05)
    await asyncio.sleep(0.2)  # told is not yet done: the log's own copy of it comes later


async def test_stl_20_a_start_is_declared_and_deleted_below(client):
    topics = await make_topics(client)
    logs = OwnedKafkaLogs(client, topics, LoopClock())
    log = await logs.open("state", 1, 1)
    for n in range(30):
        log.append([LogRecord(b"%d" % n, b"x")] * 2)
        await log.committed(log.end_offset)
    start = log.committed_end_offset - 11  # inside a unit
    await log.delete_before(start)
    place = BrokerPartition(topics["state"].topic_id, topics["state"].topic, 1)
    assert (await client.list_offset(place, -2)).offset == start
    expected = [record.offset async for chunk in log.replay() for record in chunk]
    assert expected == list(range(start, start + 11))
    await log.close()
    again = await logs.open("state", 1, 2)
    assert [record.offset async for chunk in again.replay() for record in chunk] == expected
    await again.close()


async def test_stl_8_late_copies_of_a_unit_are_void(client):
    topics = await make_topics(client)
    logs = OwnedKafkaLogs(client, topics, LoopClock())
    place = BrokerPartition(topics["state"].topic_id, topics["state"].topic, 0)
    sent: list[bytes] = []
    produce = client.produce

    async def recorded(partition, batch, *, timeout_ms, lane=BrokerLane.PRODUCE):
        sent.append(batch)
        return await produce(partition, batch, timeout_ms=timeout_ms, lane=lane)

    client.produce = recorded
    log = await logs.open("state", 0, 1)
    for n in range(10):
        log.append([LogRecord(b"%d" % n, b"x")])
        await log.committed(log.end_offset)
        for batch in sent[-3:]:  # as requests that come after their time-out
            await produce(place, batch, timeout_ms=5_000)
    await log.close()
    new = await logs.open("state", 0, 2)
    for batch in list(sent):
        await produce(place, batch, timeout_ms=5_000)
    new.append([LogRecord(b"new", b"x")])
    await new.committed(new.end_offset)
    found = [record.key async for chunk in new.replay() for record in chunk]
    assert found == [*(b"%d" % n for n in range(10)), b"new"]
    await new.close()


@pytest.mark.slow
async def test_what_was_confirmed_survives_kills_and_freezes_of_leaders(tmp_path):
    """Three brokers, three processes that take the log from each other, a kill and a freeze."""
    try:
        with real_brokers(tmp_path / "kafka", 3) as kafka:
            await survive(kafka)
    except KafkaMissingError as error:
        pytest.skip(str(error))


async def survive(kafka: RealBrokers) -> None:
    client, *clients = [a_client(kafka.bootstrap) for _ in range(4)]
    topics = await make_topics(client, 3)
    shared = SharedLog(3, topics, LoopClock())
    tasks = [
        asyncio.ensure_future(Process(n, shared, each).live()) for n, each in enumerate(clients)
    ]
    for number in range(2):
        await asyncio.sleep(4)
        [topic] = (await client.metadata([topics[TOPIC].topic])).topics
        await fault(kafka, max(1, topic.partitions[0].leader), is_kill=number % 2 == 0)
        for task in tasks:
            if task.done():
                task.result()
    await asyncio.sleep(5)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    for log in shared.abandoned:
        await log.close()
    await shared.load(client)
    assert shared.ledger.take_overs > 2
    assert len(shared.ledger.confirmed) > 20
    for each in (client, *clients):
        await each.close()


async def fault(kafka: RealBrokers, broker: int, *, is_kill: bool) -> None:
    if is_kill:
        kafka.kill(broker)
        await asyncio.sleep(2)
        kafka.start(broker)
        await kafka.started(broker)
    else:
        kafka.freeze(broker)
        await asyncio.sleep(6)
        kafka.thaw(broker)
