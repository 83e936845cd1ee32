"""Slow and fast applications of one group, in virtual time: nobody hoards what others could do."""

import asyncio
from collections import Counter

import pytest

from sharemesh.client.admin.client import AsyncAdminClient
from sharemesh.client.consumer.async_share_consumer import AsyncShareConsumer
from sharemesh.client.producer.async_producer import AsyncProducer
from tests.simulation.event_log import EventLog
from tests.simulation.world import Options, World

_ENDED: list[World] = []  # never collected: the ``finally`` blocks of its tasks must not run

GROUP, TOPIC, PARTITIONS = "tower", "flights", 2


@pytest.fixture(params=range(1, 6))
def world(request) -> World:
    options = Options(leaders=2, share_coordinators=1, group_coordinators=1)
    world = World(request.param, options, EventLog())
    _ENDED.append(world)
    return world


class Work:
    """What the consumers of a group did: deliveries by place, and when each first had a record."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.deliveries: Counter[tuple[int, int]] = Counter()
        self.counts: Counter[int] = Counter()
        self.done: Counter[str] = Counter()
        self.idle_s: dict[str, float] = {}
        self.handed_back = 0

    def consumer(
        self, name: str, record_s: float, total: int, begin_s: float = 0.0
    ) -> asyncio.Task:
        process, environment = self.world.new_client(name)
        return process.start(self._consume(environment, name, record_s, total, begin_s))

    async def _consume(self, environment, name, record_s, total, begin_s):
        await asyncio.sleep(begin_s)
        config = {"bootstrap.servers": self.world.bootstrap, "group.id": GROUP}
        async with AsyncShareConsumer(config, environment=environment) as consumer:
            await consumer.subscribe([TOPIC])
            began_s = self.world.now_s
            while len(self.deliveries) < total:
                records = await consumer.poll(500)
                assert len(records) <= 500
                if records:
                    self.idle_s.setdefault(name, self.world.now_s - began_s)
                for record in records:
                    self.deliveries[record.partition, record.offset] += 1
                    self.counts[record.delivery_count] += 1
                    await asyncio.sleep(record_s)
                    self.done[name] += 1
            self.handed_back += consumer.metrics()["records-handed-back-total"]
            assert not any((await consumer.commit_sync()).values())


async def filled(world: World, total: int) -> None:
    """Begin, and produce small records in few large batches."""
    await world.begin()
    _, environment = world.new_client("filler")
    config = {"bootstrap.servers": world.bootstrap}
    async with AsyncAdminClient(config, environment=environment) as admin:
        await admin.create_topic(TOPIC, PARTITIONS)
        await admin.alter_group_configs(GROUP, {"share.auto.offset.reset": "earliest"})
    async with AsyncProducer({**config, "linger.ms": 50}, environment=environment) as producer:
        for number in range(total):
            await producer.send(TOPIC, b"%d" % number, partition=number % PARTITIONS)


def run(world: World, work) -> None:
    world.loop.run_until_complete(world.loop.world.start(work))
    assert world.event_log.violations == []


def test_a_late_consumer_is_busy_within_a_second_and_nothing_is_done_twice(world):
    total = 6_000
    work = Work(world)

    async def course():
        await filled(world, total)
        tasks = [
            work.consumer("fast", 0.001, total),
            work.consumer("slow", 0.02, total),
            work.consumer("late", 0.02, total, begin_s=2),
        ]
        began_s = world.now_s
        await asyncio.gather(*tasks)
        return world.now_s - began_s

    run(world, course())
    assert set(work.deliveries.values()) == {1}, f"seed {world.seed}"
    assert len(work.deliveries) == total
    assert set(work.counts) == {1}
    assert work.idle_s["late"] < 1, f"seed {world.seed}: {work.idle_s}"


def test_fast_consumers_give_nothing_back(world):
    total = 20_000
    work = Work(world)

    async def course():
        await filled(world, total)
        await asyncio.gather(*(work.consumer(f"c{n}", 0.00001, total) for n in range(3)))

    run(world, course())
    assert len(work.deliveries) == total
    assert work.handed_back == 0, f"seed {world.seed}"
