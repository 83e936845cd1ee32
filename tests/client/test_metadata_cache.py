"""What a client asks metadata for while it looks for leaders, and what it believes."""

import asyncio
import random

from sharemesh import methods
from sharemesh.backends.local.clock import SystemClock
from sharemesh.backoff import Backoff
from sharemesh.client.config import ADMIN_SETTINGS, ClientConfig
from sharemesh.client.environment import ClientEnvironment
from sharemesh.client.metadata.metadata_cache import Leader, MetadataCache
from sharemesh.client.producer.batches import Batch, PartitionQueue
from sharemesh.client.producer.delivery import BatchOutcome, Reports
from sharemesh.client.producer.leader_discovery import LeaderDiscovery
from sharemesh.codec.client_batches import BatchWriter
from sharemesh.testing.network import LocalNetwork
from sharemesh.v1 import admin_pb2
from sharemesh.v1.common_pb2 import CurrentLeader

TOPIC_ID = b"0123456789abcdef"
KEY = (TOPIC_ID, 0)


class Scripted:
    """Answers metadata with one partition, as told; remembers what was awaited."""

    def __init__(self) -> None:
        self.leader = ("", -1)
        self.awaited: list[int] = []
        network = LocalNetwork()
        network.listener("a:1").offer(methods.METADATA, self._metadata)
        self.caller = network.caller("User:jane")
        config = ClientConfig(ADMIN_SETTINGS, {"bootstrap.servers": "a:1"})
        chance = random.Random(1)
        environment = ClientEnvironment(lambda: self.caller, SystemClock(), chance, lambda: "id")
        self.leaders = MetadataCache(environment, config, self.caller)

    async def _metadata(self, request, _context):
        self.awaited += [each.above_leader_epoch for each in request.awaited]
        leader, epoch = self.leader
        partition = admin_pb2.PartitionMetadata(partition=0, leader_id=leader, leader_epoch=epoch)
        topic = admin_pb2.TopicMetadata(name="t", topic_id=TOPIC_ID, partitions=[partition])
        return admin_pb2.MetadataResponse(cluster_id="c", topics=[topic])

    async def refresh(self, leader: str, epoch: int) -> Leader | None:
        self.leader = (leader, epoch)
        await self.leaders.refresh(["t"], timeout_ms=1_000, awaited=[KEY], wait_ms=500)
        return self.leaders.leader(*KEY)


async def test_a_newer_leader_than_the_known_one_is_awaited():
    cluster = Scripted()
    assert await cluster.refresh("a", 4) == Leader("a", 4)
    assert await cluster.refresh("b", 5) == Leader("b", 5)
    assert await cluster.refresh("b", 5) == Leader("b", 5)
    assert cluster.awaited == [-1, 4, 5]


async def test_an_older_leader_of_a_process_that_lags_is_not_believed():
    cluster = Scripted()
    cluster.leaders.learn_leader(TOPIC_ID, 0, CurrentLeader(leader_id="b", leader_epoch=5))
    assert await cluster.refresh("a", 4) == Leader("b", 5)


async def test_a_leader_that_was_lost_sight_of_is_awaited_in_the_same_epoch():
    """Who lags may not know the new leader yet: the next one that does must answer at once."""
    cluster = Scripted()
    cluster.leaders.learn_leader(TOPIC_ID, 0, CurrentLeader(leader_id="b", leader_epoch=5))
    assert await cluster.refresh("", -1) is None
    assert await cluster.refresh("a", 4) is None
    assert await cluster.refresh("b", 5) == Leader("b", 5)
    assert cluster.awaited == [5, 4, 4]


async def test_what_is_lost_in_the_turn_in_which_the_look_ends_is_looked_for_too():
    cluster = Scripted()
    news_of: list[PartitionQueue] = []
    ended: list[asyncio.Task[None]] = []
    news = LeaderDiscovery(
        cluster.leaders, SystemClock(), lambda: news_of.append(queue), ended.append
    )
    queue = PartitionQueue("t", TOPIC_ID, 0, Backoff(100, 1_000))
    outcome = BatchOutcome("t", 0, Reports(lambda _topic, _partition: ""))
    queue.batches.append(Batch(BatchWriter("none", 100), 0, outcome, 0))
    queue.asked = await cluster.refresh("a", 4)
    cluster.leader = ("b", 5)
    news.lost(queue)
    look = news._task
    assert look is not None
    async with asyncio.timeout(10):
        while not look.done():
            await asyncio.sleep(0)
        assert not ended, "its end was dealt with: the test came too late"
        queue.asked = cluster.leaders.leader(*KEY)
        cluster.leader = ("c", 6)
        news.lost(queue)
        while len(news_of) < 2:
            await asyncio.sleep(0.01)
    await news.close()
