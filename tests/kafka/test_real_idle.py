"""A broker that closes idle connections after a second: nobody hears of it (spec KBR)."""

import asyncio

import pytest

from sharemesh.backends.kafka.record_logs.record_logs import KafkaRecordLogs
from sharemesh.backends.kafka.shard_logs.coordinator_topics import (
    CoordinatorTopic,
    coordinator_topic_configs,
)
from sharemesh.backends.local.coordination import LocalCoordination
from sharemesh.backends.local.coordination_store import LocalStore
from sharemesh.cluster.seen_logs import SeenPartitionsInStore
from sharemesh.domain.ids import TopicPartition
from sharemesh.ports.brokers import LATEST_TIMESTAMP, BrokerLane
from sharemesh.ports.shard_log import LogRecord
from tests.backends.kafka.owned_logs import OwnedKafkaLogs
from tests.backends.kafka.record_log_world import ClaimsOfATest
from tests.clocks import LoopClock
from tests.kafka.real_broker import QUICK, real_brokers
from tests.kafka.test_real_requests import a_batch, a_client, a_topic

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(120)]

IDLE_MS = 1_000
CLOSED_S = 30


@pytest.fixture(scope="module")
def impatient(tmp_path_factory, kafka_broker):
    settings = {**QUICK, "connections.max.idle.ms": IDLE_MS}
    with real_brokers(tmp_path_factory.mktemp("idle"), settings=settings) as brokers:
        yield brokers.bootstrap


async def until_closed(client, *lanes):
    """Wait until the broker has closed all connections of lanes; return how many there were."""
    slots = [
        slot for key, found in client._lanes._slots.items() if key[2] in lanes for slot in found
    ]
    async with asyncio.timeout(CLOSED_S):
        while not all(each.connection().closed for each in slots):
            await asyncio.sleep(0.05)
    return len(slots)


async def test_kbr_7_requests_after_a_quiet_time_meet_no_closed_connection(impatient):
    client = a_client(impatient)
    place = await a_topic(client)
    for round_ in range(3):
        landed = await client.produce(place, a_batch(), timeout_ms=5_000)
        assert landed.base_offset == 3 * round_
        assert (await client.list_offset(place, LATEST_TIMESTAMP)).offset == 3 * (round_ + 1)
        assert (await client.fetch(place, 0, max_bytes=1 << 20)).records
        lanes = (BrokerLane.PRODUCE, BrokerLane.CONTROL, BrokerLane.READ)
        assert await until_closed(client, *lanes) >= len(lanes)
    await client.close()


async def test_kbr_7_logs_go_on_after_a_quiet_time(impatient):
    """A batch of a producer, and a unit of a shard: neither has an unknown outcome."""
    clock = LoopClock()
    client = a_client(impatient, clock)
    place = await a_topic(client)
    seen = SeenPartitionsInStore(LocalCoordination(LocalStore(clock)), "idle", clock)
    names = {place.topic_id: place.topic}
    records = KafkaRecordLogs(client, clock, ClaimsOfATest(), seen, names.get)
    log = await records.open(TopicPartition(place.topic_id, 0), 1)
    state = await a_topic(client, **coordinator_topic_configs(1))
    topics = {"state": CoordinatorTopic(state.topic, state.topic_id)}
    logs = OwnedKafkaLogs(client, topics, clock)
    shard = await logs.open("state", 0, 1)
    for round_ in range(3):
        written = await log.append(a_batch())
        assert (written.base_offset, written.last_offset) == (3 * round_, 3 * round_ + 2)
        shard.append([LogRecord(b"k", b"v%d" % round_)])
        await shard.committed(shard.end_offset)
        assert await until_closed(client, BrokerLane.PRODUCE) >= 1
    assert (logs.counts.void, logs.counts.restamps) == (0, 0)
    await shard.close()
    await log.close()
    await client.close()
