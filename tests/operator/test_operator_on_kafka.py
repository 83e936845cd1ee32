"""A whole operator with pods on Kafka storage; the Kafka cluster is in memory."""

import asyncio
from random import Random

import pytest

from sharemesh.backends.local.clock import SystemClock
from sharemesh.client.connect import connect
from sharemesh.kafka.traffic import BrokerTraffic
from sharemesh.ports.brokers import BrokerPartition, NewBrokerTopic
from sharemesh.serve.storage import broker_connection
from sharemesh.testing.memory_brokers import MemoryCluster
from sharemesh_operator.cluster import kafka_mirror
from tests.contract.broker_fillings import batch_of
from tests.operator.sample_objects import addresses

pytestmark = [pytest.mark.integration, pytest.mark.timeout(180)]

DEADLINE_S = 30
STORAGE = {"type": "Kafka", "kafka": {"bootstrapServers": ["kafka:9092"]}}


@pytest.fixture
async def kafka(monkeypatch):
    cluster = MemoryCluster(SystemClock(), Random(1))

    def connected(*_):
        client = cluster.client()
        client.traffic = BrokerTraffic()  # what a process reads of it for its metrics
        return client

    for module in (broker_connection, kafka_mirror):
        monkeypatch.setattr(module, "connect_brokers", connected)
    yield cluster
    await cluster.close()


async def produced(kafka, topic, topic_id, *values):
    """Write as any producer does: straight to the brokers."""
    client = kafka.client()
    for number, value in enumerate(values):
        place = BrokerPartition(topic_id, topic, number % 2)
        await client.produce(place, batch_of(value), timeout_ms=5_000)
    await client.close()


async def consumed(land, group, topic, count):
    found = []
    mesh = connect(addresses(land))
    async with asyncio.timeout(DEADLINE_S), mesh.async_share_consumer(group) as consumer:
        await consumer.subscribe([topic])
        while len(found) < count:
            found += [record.value for record in await consumer.poll(1_000)]
            await consumer.commit_sync()
    return sorted(found)


async def test_records_of_kafka_are_shared_out_and_its_topic_stays(land, kafka):
    topic_id = kafka.create(NewBrokerTopic("orders", 2, 3, {"retention.ms": "1234567"}))
    await land.start_operator()
    await land.cluster(storage=STORAGE)
    await land.topic(deletionPolicy="Delete")
    await land.group(autoOffsetReset="Earliest")
    await land.condition("ShareCluster", "main", "True", "AllLeadersServing")
    await land.condition("ShareCluster", "main", "True", "KafkaCluster", "StorageReady")
    await land.condition("ShareTopic", "orders", "True", "InSync")
    await land.condition("ShareGroup", "billing", "True", "InSync")
    await produced(kafka, "orders", topic_id, b"one", b"two", b"three")
    assert await consumed(land, "billing", "orders", 3) == [b"one", b"three", b"two"]
    await land.kube.delete("ShareTopic", "orders")

    async def gone():
        return await land.kube.get("ShareTopic", "orders") is None

    await land.until(gone)
    client = kafka.client()
    [shown] = (await client.metadata(["orders"])).topics
    assert (shown.topic_id, shown.error) == (topic_id, 0)
    assert (await client.topic_configs("orders"))["retention.ms"] == "1234567"
    await client.close()


async def test_a_topic_that_kafka_does_not_have_is_said_and_taken_when_it_is_there(land, kafka):
    await land.start_operator()
    await land.cluster(storage=STORAGE)
    await land.topic()
    said = await land.condition("ShareTopic", "orders", "False", "NotInKafka")
    assert "no topic 'orders'" in said["message"]
    kafka.create(NewBrokerTopic("orders", 2, 3, {}))
    await land.condition("ShareTopic", "orders", "True", "InSync")
