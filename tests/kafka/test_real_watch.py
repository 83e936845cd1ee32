"""A watch at real brokers: news of many partitions, lost sessions, brokers that go (spec KBR)."""

import asyncio
from dataclasses import replace

import pytest

from sharemesh.domain.ids import TopicId
from sharemesh.ports.brokers import BrokerPartition, BrokerUnreachableError, NewBrokerTopic
from sharemesh.ports.brokers import WatchedPartition as Watched
from tests.kafka.real_broker import real_brokers
from tests.kafka.test_real_requests import (  # noqa: F401 - fixtures
    a_batch,
    a_client,
    a_topic,
    bootstrap,
    client,
    until,
)

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(120)]

MIB = 1 << 20


async def news(watch, wanted, *, wait_ms=500):
    """Poll until something is said of partitions for which ``wanted`` is true."""
    async with asyncio.timeout(40):
        while True:
            found = [each for each in await watch.poll(wait_ms) if wanted(each)]
            if found:
                return found


def siblings(partition, count):
    return [replace(partition, partition=number) for number in range(count)]


async def test_kbr_14_news_of_one_of_many_partitions_come_at_once(client):  # noqa: F811
    first = await a_topic(client, 8)
    places = siblings(first, 8)
    watch = client.watch()
    watch.set([Watched(each, 0, MIB) for each in places])
    await news(watch, lambda _: True)
    for target in (places[3], places[5]):
        waiting = asyncio.create_task(news(watch, lambda each: each.fetched.records))
        await client.produce(target, a_batch(), timeout_ms=5_000)
        (said,) = await waiting
        assert said.partition == target
        assert said.fetched.high_watermark == 3
        assert said.fetched.leader_epoch >= 0
        watch.set([Watched(each, 3 if each == target else 0, MIB) for each in places])
    await watch.close()


async def test_a_partition_at_its_end_tells_a_moved_high_watermark(client):  # noqa: F811
    place = await a_topic(client)
    watch = client.watch()
    watch.set([Watched(place, 0, 1)])
    for end in (3, 6):
        await client.produce(place, a_batch(), timeout_ms=5_000)
        said = await news(watch, lambda each: each.fetched.high_watermark >= end)  # noqa: B023
        assert said[-1].fetched.high_watermark == end
        watch.set([Watched(place, end, 1)])
    await watch.close()


async def test_an_idle_poll_ends_after_its_wait(client):  # noqa: F811
    place = await a_topic(client)
    watch = client.watch()
    assert await watch.poll(10) == []
    watch.set([Watched(place, 0, MIB)])
    await news(watch, lambda _: True)
    began = asyncio.get_running_loop().time()
    assert await watch.poll(300) == []
    assert asyncio.get_running_loop().time() - began >= 0.25
    await watch.close()
    await watch.close()


async def test_kbr_15_errors_of_partitions_are_told_once_and_asked_again(client):  # noqa: F811
    place = await a_topic(client)
    missing = BrokerPartition(TopicId(b"x" * 16), "never-made", 0)
    watch = client.watch()
    watch.set([Watched(place, 99, MIB), Watched(missing, 0, MIB)])
    said = {}
    async with asyncio.timeout(30):
        while len(said) < 2:
            for each in await watch.poll(500):
                assert each.partition not in said
                said[each.partition] = each.error
    assert said == {place: 1, missing: 3}
    assert await watch.poll(300) == []
    watch.set([Watched(place, 0, MIB), Watched(missing, 0, MIB)])
    await client.produce(place, a_batch(), timeout_ms=5_000)
    (found,) = await news(watch, lambda each: each.fetched is not None and each.fetched.records)
    assert found.partition == place
    await watch.close()


async def test_kbr_15_a_broker_that_dies_is_told_and_its_partitions_move(tmp_path):
    with real_brokers(tmp_path, 3) as kafka:
        client = a_client(kafka.bootstrap)
        name = "moving"
        await until(lambda: client.create_topic(NewBrokerTopic(name, 3, 3), timeout_ms=5_000), {38})

        async def led():
            (topic,) = (await client.metadata([name])).topics
            return topic

        topic = await led()
        while topic.error or len({each.leader for each in topic.partitions} - {-1}) < 2:
            topic = await led()
        places = [BrokerPartition(topic.topic_id, name, each) for each in range(3)]
        watch = client.watch()
        watch.set([Watched(each, 0, MIB) for each in places])
        heard = {}
        while len(heard) < 3:
            for each in await watch.poll(500):
                if each.fetched is not None:
                    heard[each.partition] = each
        victim = topic.partitions[0].leader
        lost = {places[each.partition] for each in topic.partitions if each.leader == victim}
        kafka.kill(victim)
        told = await news(watch, lambda each: each.error)
        assert {each.partition for each in told} <= lost

        async def produced():
            async with asyncio.timeout(40):
                while True:
                    try:
                        return await until(
                            lambda: client.produce(places[0], a_batch(), timeout_ms=2_000),
                            {3, 5, 6, 7, 19, 20, 74, 75},
                        )
                    except BrokerUnreachableError:
                        continue

        await produced()
        (found,) = await news(watch, lambda each: each.fetched and each.fetched.records)
        assert found.partition == places[0]
        assert found.fetched.leader_epoch > heard[places[0]].fetched.leader_epoch
        await watch.close()
        await client.close()
