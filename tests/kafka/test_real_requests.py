"""Every request of the port, at a real broker of Apache Kafka and at kfake (spec KBR)."""

import asyncio
import random
import secrets

import pytest
from aiokafka.record.default_records import DefaultRecordBatchBuilder

from sharemesh.domain.ids import TopicId
from sharemesh.kafka.brokers_client import KafkaBrokers
from sharemesh.kafka.dialing import Dialing
from sharemesh.ports.brokers import (
    EARLIEST_TIMESTAMP,
    LATEST_TIMESTAMP,
    NO_TOPIC_ID,
    BrokerLane,
    BrokerPartition,
    BrokerRefusedError,
    BrokerUnreachableError,
    NewBrokerTopic,
)
from tests.clocks import LoopClock

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(120)]


def a_batch(count=3, first_ms=1_000):
    builder = DefaultRecordBatchBuilder(2, 0, 0, -1, -1, -1, 1 << 20)
    for n in range(count):
        builder.append(n, timestamp=first_ms + n, key=b"k", value=b"v%d" % n, headers=[])
    return bytes(builder.build())


def a_client(bootstrap, clock=None):
    return KafkaBrokers(bootstrap.split(","), Dialing(clock or LoopClock()), random.Random(1))


async def until(what, codes):
    """Repeat a request that a broker refuses only for now."""
    async with asyncio.timeout(30):
        while True:
            try:
                return await what()
            except BrokerRefusedError as error:
                if error.code not in codes:
                    raise


@pytest.fixture(params=["kafka_broker", "kfake_bootstrap"])
def bootstrap(request):
    found = request.getfixturevalue(request.param)
    return found if isinstance(found, str) else found.bootstrap


@pytest.fixture
async def client(bootstrap):
    client = a_client(bootstrap)
    yield client
    await client.close()


async def a_topic(client, partitions=1, **configs):
    name = f"t-{secrets.token_hex(6)}"
    await client.create_topic(NewBrokerTopic(name, partitions, 1, configs), timeout_ms=5_000)

    async def found():
        (topic,) = (await client.metadata([name])).topics
        if topic.error or any(each.leader < 0 for each in topic.partitions):
            raise BrokerRefusedError(topic.error or 5, "not yet")
        return topic

    topic = await until(found, {3, 5, 100})
    made = [BrokerPartition(topic.topic_id, name, each) for each in range(partitions)]
    for each in made:  # a leader hears of its partition a little later than metadata does

        async def leads(each=each):
            await client.list_offset(each, LATEST_TIMESTAMP)

        await until(leads, {3, 5, 6, 75, 100})
    return made[0]


async def test_what_is_produced_is_fetched_as_the_same_bytes(client):
    partition = await a_topic(client)
    first = await client.produce(partition, a_batch(), timeout_ms=5_000)
    second = await client.produce(partition, a_batch(2), timeout_ms=5_000, lane=BrokerLane.SHARD)
    assert (first.base_offset, second.base_offset) == (0, 3)
    found = await client.fetch(partition, 1, max_bytes=1 << 20)
    assert found.records.count(b"v0") == 2, "from the batch that holds the offset"
    assert found.high_watermark == found.last_stable_offset == 5
    assert found.log_start_offset == 0
    assert found.leader_epoch >= 0
    assert type(found.records) is bytes
    only_one = await client.fetch(partition, 0, max_bytes=1)
    assert len(only_one.records) >= len(a_batch()), "a whole batch, whatever the bound"


async def test_without_a_topic_id_names_are_used(client):
    partition = await a_topic(client)
    named = BrokerPartition(NO_TOPIC_ID, partition.topic, 0)
    assert (await client.produce(named, a_batch(), timeout_ms=5_000)).base_offset == 0
    assert (await client.fetch(named, 0, max_bytes=1 << 20)).high_watermark == 3


async def test_a_fetch_at_the_end_waits_for_records(client):
    partition = await a_topic(client)
    assert (await client.fetch(partition, 0, max_bytes=100, max_wait_ms=10)).records == b""
    waiting = asyncio.create_task(client.fetch(partition, 0, max_bytes=1 << 20, max_wait_ms=20_000))
    await client.list_offset(partition, LATEST_TIMESTAMP)
    await client.produce(partition, a_batch(), timeout_ms=5_000)
    assert b"v0" in (await waiting).records


async def test_offsets_are_found_by_time_epoch_and_at_both_ends(client):
    partition = await a_topic(client)
    await client.produce(partition, a_batch(), timeout_ms=5_000)
    assert (await client.list_offset(partition, LATEST_TIMESTAMP)).offset == 3
    assert (await client.list_offset(partition, EARLIEST_TIMESTAMP)).offset == 0
    found = await client.list_offset(partition, 1_001)
    assert (found.offset, found.timestamp_ms) == (1, 1_001)
    assert (await client.list_offset(partition, 9_999)).offset == -1
    assert (await client.end_offset_of_epoch(partition, 0))[1] == 3


async def test_records_are_deleted_up_to_an_offset_and_to_the_end(client):
    partition = await a_topic(client)
    await client.produce(partition, a_batch(), timeout_ms=5_000)
    assert await client.delete_records(partition, 2, timeout_ms=5_000) == 2
    assert (await client.list_offset(partition, EARLIEST_TIMESTAMP)).offset == 2
    assert await client.delete_records(partition, -1, timeout_ms=5_000) == 3
    for outside in (0, 9):
        with pytest.raises(BrokerRefusedError, match="OFFSET_OUT_OF_RANGE") as refused:
            await client.fetch(partition, outside, max_bytes=100)
        assert refused.value.code == 1
        assert not refused.value.may_be_done


async def test_topics_grow_get_settings_and_are_deleted(client):
    partition = await a_topic(client, **{"retention.ms": "3600000"})
    name = partition.topic
    assert (await client.topic_configs(name))["retention.ms"] == "3600000"
    await client.alter_topic_configs(name, {"retention.ms": None, "max.message.bytes": "2000000"})

    async def changed():
        configs = await client.topic_configs(name)
        if configs["max.message.bytes"] != "2000000" or configs["retention.ms"] == "3600000":
            raise BrokerRefusedError(0, "not yet")

    await until(changed, {0})
    await client.create_partitions(name, 3, timeout_ms=5_000)
    with pytest.raises(BrokerRefusedError) as refused:
        await client.create_partitions(name, 2, timeout_ms=5_000)
    assert refused.value.code == 37
    with pytest.raises(BrokerRefusedError) as refused:
        await client.create_topic(NewBrokerTopic(name, 1, 1), timeout_ms=5_000)
    assert refused.value.code == 36
    await client.delete_topic(name, timeout_ms=5_000)
    with pytest.raises(BrokerRefusedError) as refused:
        await client.delete_topic(name, timeout_ms=5_000)
    assert refused.value.code == 3


async def test_kbr_9_a_topic_that_was_made_again_is_another(client):
    partition = await a_topic(client)
    await client.produce(partition, a_batch(), timeout_ms=5_000)
    await client.delete_topic(partition.topic, timeout_ms=5_000)
    again = NewBrokerTopic(partition.topic, 1, 1)
    await until(lambda: client.create_topic(again, timeout_ms=5_000), {36})

    async def gone():
        await client.produce(partition, a_batch(), timeout_ms=5_000)
        raise AssertionError("taken")

    with pytest.raises(BrokerRefusedError) as refused:
        await until(gone, {3, 5, 6})
    assert refused.value.code == 100
    with pytest.raises(BrokerRefusedError) as refused:
        await until(lambda: client.delete_records(partition, -1, timeout_ms=5_000), {3, 5, 6})
    assert refused.value.code == 100


async def test_topics_are_found_by_id(client):
    partition = await a_topic(client)
    (found,) = (await client.metadata(topic_ids=[partition.topic_id])).topics
    assert found.topic == partition.topic
    (missing,) = (await client.metadata(topic_ids=[TopicId(b"x" * 16)])).topics
    assert missing.error == 100


async def test_kbr_8_asking_for_a_topic_does_not_make_it(client):
    for _ in range(2):
        (topic,) = (await client.metadata(["never-made"])).topics
        assert topic.error == 3


async def test_a_cluster_says_who_it_is(client):
    found = await client.metadata()
    assert found.cluster_id
    assert found.topics == ()
    assert found.answered_by in {each.broker_id for each in found.brokers}


async def test_producer_ids_differ(client):
    # A broker that has just started loads the state of transactions first.
    one = await until(client.new_producer_id, {14, 15, 16})
    assert one != await client.new_producer_id()


async def test_after_closing_nothing_is_answered(client):
    partition = await a_topic(client)
    waiting = asyncio.create_task(client.fetch(partition, 0, max_bytes=100, max_wait_ms=20_000))
    await client.list_offset(partition, LATEST_TIMESTAMP)
    await client.close()
    with pytest.raises(BrokerUnreachableError):
        await waiting
    with pytest.raises(BrokerUnreachableError):
        await client.metadata()
