"""Metadata requests that wait for a leader cost a change of the view nothing (spec BND-22)."""

import asyncio

import pytest

from sharemesh import methods
from sharemesh.admin import leader_news
from sharemesh.admin.leader_news import LeaderNews
from sharemesh.domain.ids import NodeId, TopicPartition
from sharemesh.v1 import admin_pb2 as pb
from tests.admin.world import World

FOREVER_MS = 60_000
NEVER = 2**31 - 1


@pytest.fixture
async def world():
    made = await World().start()
    await made.register("a")
    request = pb.CreateTopicsRequest()
    request.topics.add(name="orders", partitions=3)
    await made.call(methods.CREATE_TOPICS, request)
    yield made
    await made.stop()


class Looks:
    """The view, counting how often somebody asks for a leader."""

    def __init__(self, view):
        self._view = view
        self.count = 0

    def leader(self, partition):
        self.count += 1
        return self._view.leader(partition)

    def on_leaders(self, callback):
        return self._view.on_leaders(callback)


def partitions(world, *numbers):
    (topic,) = world.view.topics()
    return [TopicPartition(topic.topic_id, number) for number in numbers]


async def claim(world, partition, epoch):
    await world.put(world.claimed(partition, NodeId("a"), epoch))
    await world.sees(lambda: world.view.leader(partition).leader_epoch == epoch)


async def waiting(news, count, awaited, may_see=lambda _: True):
    tasks = [
        asyncio.create_task(news.wait(awaited, may_see, timeout_ms=FOREVER_MS))
        for _ in range(count)
    ]
    await asyncio.sleep(0)
    return tasks


async def ended(tasks):
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_only_those_that_wait_for_a_partition_look_at_it_bnd_22(world):
    zero, one, two = partitions(world, 0, 1, 2)
    looks = Looks(world.view)
    news = LeaderNews(looks)
    others = await waiting(news, 500, {zero: NEVER, two: NEVER})
    mine = await waiting(news, 3, {one: 3, zero: NEVER})
    looks.count = 0
    await claim(world, one, 4)
    await asyncio.wait_for(asyncio.gather(*mine), 5)
    assert looks.count <= 6
    looks.count = 0
    request = pb.CreateTopicsRequest()
    request.topics.add(name="another", partitions=1)
    await world.call(methods.CREATE_TOPICS, request)
    assert looks.count == 0
    assert not any(task.done() for task in others)
    await ended(others)
    assert not news._waiters
    assert (news._waiting, news._waited_for) == (0, 0)


async def test_who_waits_for_one_partition_goes_on_in_turns_bnd_22(world):
    (zero,) = partitions(world, 0)
    news = LeaderNews(world.view)
    tasks = await waiting(news, 1_000, {zero: 3})
    most, before = 0, 0
    await world.put(world.claimed(zero, NodeId("a"), 4))
    async with asyncio.timeout(5):
        while before < len(tasks):
            await asyncio.sleep(0)
            done = sum(task.done() for task in tasks)
            most, before = max(most, done - before), done
    assert most <= 2 * leader_news.WOKEN_AT_ONCE


async def test_waits_are_bounded_bnd_22(world, monkeypatch):
    monkeypatch.setattr(leader_news, "MAX_WAITING", 3)
    monkeypatch.setattr(leader_news, "MAX_WAITED_FOR", 4)
    zero, one, two = partitions(world, 0, 1, 2)
    news = LeaderNews(world.view)
    held = await waiting(news, 2, {zero: NEVER, one: NEVER})
    await asyncio.wait_for(news.wait({two: NEVER}, lambda _: True, timeout_ms=FOREVER_MS), 5)
    await ended(held)
    held = await waiting(news, 3, {zero: NEVER})
    await asyncio.wait_for(news.wait({two: NEVER}, lambda _: True, timeout_ms=FOREVER_MS), 5)
    await ended(held)


async def test_what_may_not_be_seen_is_not_waited_for_and_ends_no_wait_bnd_22(world):
    zero, one = partitions(world, 0, 1)
    news = LeaderNews(world.view)
    await asyncio.wait_for(news.wait({zero: NEVER}, lambda _: False, timeout_ms=FOREVER_MS), 5)
    rights = {zero, one}
    [task] = await waiting(news, 1, {zero: 3, one: 3}, rights.__contains__)
    rights.remove(zero)
    await claim(world, zero, 4)
    assert not task.done()
    await claim(world, one, 4)
    await asyncio.wait_for(task, 5)


async def test_requests_are_woken_in_the_order_in_which_they_came(world):
    """A set would wake them by their addresses in memory, in another order in each run."""
    (zero,) = partitions(world, 0)
    news = LeaderNews(world.view)
    tasks = await waiting(news, 50, {zero: 3})
    order = []
    for number, task in enumerate(tasks):
        task.add_done_callback(lambda _, number=number: order.append(number))
    await claim(world, zero, 4)
    await asyncio.wait_for(asyncio.gather(*tasks), 5)
    assert order == list(range(50))
