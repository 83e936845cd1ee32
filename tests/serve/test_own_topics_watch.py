"""What becomes wrong with the own topics while a cluster runs is said (STL-28)."""

import logging
import random

import pytest

from sharemesh.backends.kafka.shard_logs.coordinator_topics import (
    CoordinatorTopic,
    CoordinatorTopics,
    coordinator_topic_configs,
)
from sharemesh.ports.brokers import BrokerUnreachableError, NewBrokerTopic
from sharemesh.serve.storage.own_topics_watch import OwnTopicsWatch
from sharemesh.testing.cluster_records import ClusterRecords
from sharemesh.testing.memory_brokers.cluster import MemoryCluster
from tests.clocks import LoopClock

MINUTE_MS = 60_000


class WatchClock:
    """Time that a test sets."""

    def __init__(self) -> None:
        self.at_ms = 0

    def now_ms(self) -> int:
        return self.at_ms


class World(ClusterRecords):
    """A view of a cluster in memory, and three brokers with its two topics."""

    def __init__(self) -> None:
        super().__init__(LoopClock(), cluster_id="c")
        self.kafka = MemoryCluster(self.clock, random.Random(5))
        self.time = WatchClock()

    async def start(self) -> "World":
        await self.open(group_shards=2, state_shards=2)
        configs = coordinator_topic_configs(2)
        topics = {
            kind: CoordinatorTopic(name, self.kafka.create(NewBrokerTopic(name, 2, 3, configs)))
            for kind, name in {"state": "c-state", "group": "c-group"}.items()
        }
        self.client = self.kafka.client()
        self.watch = OwnTopicsWatch(
            self.client,
            self.coordination,
            self.view,
            self.time,
            CoordinatorTopics("c", self.kafka.cluster_id, topics),
            servers="a:9092",
            single_replica=False,
        )
        return self

    async def stop(self) -> None:
        await self.kafka.close()
        await self.close()


@pytest.fixture
async def world():
    world = await World().start()
    yield world
    await world.stop()


async def test_stl_28_a_setting_that_was_changed_is_said_once_and_shown_until_it_is_repaired(
    world, caplog
):
    await world.watch.check()
    assert world.view.storage_problems() == ()
    await world.client.alter_topic_configs("c-state", {"retention.ms": "1000"})
    with caplog.at_level(logging.INFO):
        await world.watch.check()
        await world.watch.check()
    await world.sees(world.view.storage_problems)
    (words,) = world.view.storage_problems()
    assert words.startswith(
        "topic c-state has retention.ms=1000, it must be -1: kafka-configs --boot"
    )
    assert [each.getMessage() for each in caplog.records if each.levelno == logging.ERROR] == [
        words
    ]
    await world.client.alter_topic_configs("c-state", {"retention.ms": "-1"})
    with caplog.at_level(logging.INFO):
        await world.watch.check()
    await world.sees(lambda: not world.view.storage_problems())
    assert "topic c-state is as it must be again" in caplog.text


async def test_stl_28_a_topic_counts_as_gone_after_three_answers_of_two_brokers(world):
    await world.client.delete_topic("c-group", timeout_ms=1_000)
    for _ in range(2):
        await world.watch.check()
        world.time.at_ms += MINUTE_MS
    assert world.view.storage_problems() == ()
    for _ in range(4):  # until a second broker was asked
        await world.watch.check()
        world.time.at_ms += MINUTE_MS
    await world.sees(world.view.storage_problems)
    (words,) = world.view.storage_problems()
    assert words.startswith("topic c-group is gone from the Kafka cluster")


async def test_stl_28_what_cannot_be_asked_changes_nothing(world, monkeypatch):
    await world.client.alter_topic_configs("c-state", {"cleanup.policy": "compact"})
    await world.watch.check()
    await world.sees(world.view.storage_problems)
    for broker in (1, 2, 3):
        world.kafka.kill(broker)
    with pytest.raises(BrokerUnreachableError):
        await world.watch.check()
    assert len(world.view.storage_problems()) == 1
