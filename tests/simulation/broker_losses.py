"""Unclean elections in the Kafka cluster of the simulation: which confirmed records they cost."""

import asyncio
from random import Random
from typing import TYPE_CHECKING

from sharemesh.testing.memory_brokers.cluster import MemoryCluster
from sharemesh.testing.memory_brokers.replica import Replica
from sharemesh.testing.memory_brokers.replica_log import ReplicaLog
from tests.simulation.broker_faults import NEWS_MS

if TYPE_CHECKING:
    from tests.simulation.world import World

TAIL_S = 0.5
ELECTED_S = 12.0


def leading(cluster: MemoryCluster, topic: str, partition: int) -> Replica | None:
    """Return the leader's replica by the controller's word, if that broker knows of it."""
    image, each = cluster.controller.partition(topic, partition)
    broker = cluster.brokers.get(each.leader)
    replica = None if broker is None else broker.replicas.get((image.topic_id, partition))
    return replica if replica is not None and replica.is_leader else None


class BrokerLosses:
    """Breaks Kafka's promise in two ways."""

    def __init__(self, world: "World", cluster: MemoryCluster, rng: Random) -> None:
        self._world = world
        self._cluster = cluster
        self._rng = rng

    async def lose_tail(self, topic: str, partition: int, behind_s: float) -> range | None:
        """Let a replica lead that copied nothing for a time; return which offsets were lost."""
        _, image = self._cluster.controller.partition(topic, partition)
        behind = self._rng.choice([each for each in image.replicas if each != image.leader])
        self._cluster.pause_replication(behind)
        await asyncio.sleep(behind_s)
        _, image = self._cluster.controller.partition(topic, partition)
        before = leading(self._cluster, topic, partition)
        lost = None
        if before is not None and image.leader != behind and behind not in image.in_sync:
            follower = self._cluster.brokers[behind].replicas[before.key]
            if follower.log.end_offset < before.high_watermark:
                lost = range(follower.log.end_offset, before.high_watermark)
                self._cluster.news_ms = (0.0, 0.0)  # else the old leader goes on for a moment
                self._cluster.elect_unclean(topic, partition, behind)
                self._cluster.news_ms = NEWS_MS
        self._cluster.resume_replication(behind)
        return lost

    async def lead_with_own_tail(self, topic: str, partition: int, behind_s: float) -> range | None:
        """Let a leader that died with records that only it has lead again, alone.

        Returns which confirmed offsets were lost; None: none was, or nobody led meanwhile.
        """
        before = leading(self._cluster, topic, partition)
        if before is None:
            return None
        _, image = self._cluster.controller.partition(topic, partition)
        dead = image.leader
        others = [each for each in image.replicas if each != dead]
        for each in others:
            self._cluster.pause_replication(each)
        await asyncio.sleep(TAIL_S)
        self._cluster.kill(dead)
        for each in others:
            self._cluster.resume_replication(each)
        await self._world.until(
            lambda: leading(self._cluster, topic, partition) not in (None, before), ELECTED_S
        )
        await asyncio.sleep(behind_s / 2)
        self._cluster.pause_replication(dead)
        self._cluster.start(dead)
        lost = None
        new = leading(self._cluster, topic, partition)
        if new is not None and new is not before:
            first = _first_difference(before.log, new.log)
            if first < new.high_watermark:
                lost = range(first, new.high_watermark)
                self._cluster.news_ms = (0.0, 0.0)  # else the other one goes on for a moment
                self._cluster.elect_unclean(topic, partition, dead)
                self._cluster.news_ms = NEWS_MS
        self._cluster.resume_replication(dead)
        return lost


def _first_difference(one: ReplicaLog, other: ReplicaLog) -> int:
    """Return where two logs of a partition begin to differ, at the latest where one ends."""
    start = max(one.start_offset, other.start_offset)
    mine, theirs = ({b.base_offset: b for b in log.batches(start)} for log in (one, other))
    for base, batch in sorted(mine.items()):
        found = theirs.get(base)
        if found is None or found.frame.leader_epoch != batch.frame.leader_epoch:
            return base
    return one.end_offset
