"""A ShareCluster whose pods, real processes, listen for clients of Kafka (KLS-50)."""

import asyncio

import pytest
from confluent_kafka import Producer, ShareConsumer

from sharemesh.client.connect import connect
from tests.operator.sample_objects import addresses, ready

pytestmark = [pytest.mark.integration, pytest.mark.timeout(240)]

KIND = "KafkaListenerReady"
PATIENCE_S = 30


async def listening(land, reason, status="True"):
    return await land.condition("ShareCluster", "main", status, reason, condition=KIND)


def nodes(land):
    return [process.node for process in land.node.processes.values() if process]


def kafka_addresses(land):
    return [f"{node.kafka.host}:{node.kafka.port}" for node in nodes(land) if node.kafka]


def there_and_back(servers, value):
    """Take a record there and back by librdkafka."""
    producer = Producer({"bootstrap.servers": servers})
    producer.produce("orders", value)
    assert producer.flush(PATIENCE_S) == 0
    consumer = ShareConsumer({"bootstrap.servers": servers, "group.id": "billing"})
    consumer.subscribe(["orders"])
    try:
        for _ in range(PATIENCE_S):
            for message in consumer.poll(1.0) or ():
                assert message.error() is None, message.error()
                if message.value() == value:
                    return
    finally:
        consumer.close()
    raise AssertionError("the record did not come back")


async def test_listeners_come_ask_for_logins_and_go(land):
    await ready(land)
    assert kafka_addresses(land) == []

    await land.kube.patch("ShareCluster", "main", {"spec": {"kafkaListener": {}}})
    told = await listening(land, "Listening")
    status = (await land.kube.get("ShareCluster", "main"))["status"]
    assert status["kafkaBootstrap"] == "main-bootstrap-kafka.queues.svc:9092"
    assert status["kafkaBootstrap"] in told["message"]
    await land.condition("ShareCluster", "main", "False", "UpToDate", condition="Progressing")
    servers = kafka_addresses(land)
    assert len(servers) == 3, "two share leaders and a group coordinator"
    await asyncio.to_thread(there_and_back, ",".join(servers), b"by kafka")

    logins = {"spec": {"kafkaListener": {"saslMechanisms": ["ScramSha512"]}}}
    await land.kube.patch("ShareCluster", "main", logins)
    await listening(land, "NoUsers", "False")
    await land.condition("ShareCluster", "main", "False", "UpToDate", condition="Progressing")
    async with connect(addresses(land)).async_admin() as admin:
        changes = {"billing": {"SCRAM-SHA-512": "a password"}}
        assert await admin.alter_user_scram_credentials(changes) == {"billing": None}
    await listening(land, "Listening")

    await land.kube.patch("ShareCluster", "main", {"spec": {"kafkaListener": None}})

    async def gone():
        services = await land.kube.list("Service")
        return not [each for each in services if each["metadata"]["name"].endswith("-kafka")]

    await land.until(gone)

    async def is_silent():
        status = (await land.kube.get("ShareCluster", "main"))["status"]
        has_restarted = all(node and not node.kafka for node in nodes(land))
        return has_restarted and "kafkaBootstrap" not in status

    await land.until(is_silent)
    await land.condition("ShareCluster", "main", "False", "UpToDate", condition="Progressing")
