"""A broker that is slow keeps its connection and who waits there (spec KBR-8, KBR-16)."""

import asyncio
from random import Random

import pytest

from sharemesh.backends.local.clock import SystemClock
from sharemesh.domain.ids import TopicId
from sharemesh.kafka import directory, silent_leaders
from sharemesh.kafka.brokers_client import KafkaBrokers
from sharemesh.kafka.dialing import Dialing
from sharemesh.kafka.messages import to_uuid
from sharemesh.kafka.versions import KafkaRequest
from sharemesh.ports.brokers import LATEST_TIMESTAMP, BrokerPartition, BrokerUnreachableError
from tests.kafka.scripted_broker import ScriptedBroker, answer, no_error, no_time, says, versions

ORDERS = TopicId(b"o" * 16)
PLACE = BrokerPartition(ORDERS, "orders", 0)
PINNED = {KafkaRequest.METADATA: (12, 12), KafkaRequest.LIST_OFFSETS: (7, 7)}
OFFSETS = {
    "throttle_time": no_time(),
    "topics": [
        {
            "name": "orders",
            "partitions": [
                {
                    "partition_index": 0,
                    "error_code": no_error(),
                    "timestamp": 1,
                    "offset": 5,
                    "leader_epoch": 3,
                }
            ],
        }
    ],
}


class TwoBrokers:
    """Broker 1 answers ListOffsets when it is told to; who leads is what a test says."""

    def __init__(self):
        self.leader, self.epoch = 1, 3
        self.go = asyncio.Event()
        self.asked = asyncio.Event()
        scripts = {"API_VERSIONS": versions(PINNED), "METADATA": self.metadata}
        at_once = says(KafkaRequest.LIST_OFFSETS, **OFFSETS)
        self.first = ScriptedBroker(**scripts, LIST_OFFSETS=self.slowly)
        self.second = ScriptedBroker(**scripts, LIST_OFFSETS=at_once)

    async def slowly(self, version, correlation):
        self.asked.set()
        await self.go.wait()
        return answer(KafkaRequest.LIST_OFFSETS, version, correlation, OFFSETS)

    def metadata(self, version, correlation):
        partition = {
            "error_code": no_error(),
            "partition_index": 0,
            "leader_id": self.leader,
            "leader_epoch": self.epoch,
            "replica_nodes": [1, 2],
            "isr_nodes": [1, 2],
            "offline_replicas": [],
        }
        topic = {
            "error_code": no_error(),
            "name": "orders",
            "topic_id": to_uuid(ORDERS),
            "is_internal": False,
            "partitions": [partition],
        }
        brokers = [
            {"node_id": number, "host": "127.0.0.1", "port": each.port, "rack": None}
            for number, each in enumerate((self.first, self.second), 1)
        ]
        content = {
            "throttle_time": no_time(),
            "brokers": brokers,
            "cluster_id": "c",
            "controller_id": 1,
            "topics": [topic],
        }
        return answer(KafkaRequest.METADATA, version, correlation, content)


@pytest.fixture
async def two(monkeypatch):
    monkeypatch.setattr(directory, "METADATA_PATIENCE_MS", 50)
    monkeypatch.setattr(silent_leaders, "OVERDUE_MS", 100)
    monkeypatch.setattr(silent_leaders, "ASK_EVERY_MS", 50)
    made = TwoBrokers()
    async with made.first, made.second:
        made.client = KafkaBrokers(
            [f"127.0.0.1:{made.second.port}"], Dialing(SystemClock()), Random(1)
        )
        yield made
        made.go.set()
        await made.client.close()


async def test_kbr_8_metadata_that_waits_behind_a_slow_request_does_not_end_it(two):
    asking = asyncio.create_task(two.client.list_offset(PLACE, LATEST_TIMESTAMP))
    await two.asked.wait()
    for _ in range(4):  # each goes behind it, or to the other broker in its place
        async with asyncio.timeout(20):
            await two.client.metadata(["orders"])
    assert not asking.done()
    two.go.set()
    assert (await asking).offset == 5
    assert two.first.connections == 1


async def test_kbr_16_who_is_given_up_alone_leaves_no_connection_behind(two):
    asking = asyncio.create_task(two.client.list_offset(PLACE, LATEST_TIMESTAMP))
    await two.asked.wait()
    two.leader, two.epoch = 2, 4
    with pytest.raises(BrokerUnreachableError, match="another broker leads now"):
        await asyncio.wait_for(asking, 20)
    two.leader, two.epoch = 1, 5
    two.go.set()
    async with asyncio.timeout(20):
        while True:
            try:
                assert (await two.client.list_offset(PLACE, LATEST_TIMESTAMP)).offset == 5
                break
            except BrokerUnreachableError:
                continue
    assert two.first.connections == 2
