"""Record logs on topics of a real Kafka cluster, which others write to with Kafka's own client."""

from __future__ import annotations

import random
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from sharemesh.backends.kafka.record_logs.record_logs import KafkaRecordLogs
from sharemesh.backends.kafka.record_logs.settings import TopicLogBounds
from sharemesh.backends.local.coordination import LocalCoordination
from sharemesh.backends.local.coordination_store import LocalStore
from sharemesh.cluster.seen_logs import SeenPartitionsInStore
from sharemesh.domain.ids import TopicId, TopicPartition
from sharemesh.kafka.brokers_client import KafkaBrokers
from sharemesh.kafka.dialing import Dialing
from sharemesh.ports.brokers import (
    LATEST_TIMESTAMP,
    BrokerPartition,
    BrokerRefusedError,
    NewBrokerTopic,
)
from tests.backends.kafka.record_log_world import ClaimsOfATest
from tests.clocks import LoopClock

PATIENT = TopicLogBounds(open_wait_ms=60_000, read_wait_ms=60_000)  # a broker may be starved

NOT_YET = {3, 5, 6, 75, 100}  # metadata and leaders hear of a topic one after the other


class RealTopics:
    """One process's client of the cluster, and record logs over topics made here."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.claims = ClaimsOfATest()
        self.brokers = KafkaBrokers(bootstrap.split(","), Dialing(LoopClock()), random.Random(1))
        self._names: dict[TopicId, str] = {}
        clock = LoopClock()
        seen = SeenPartitionsInStore(LocalCoordination(LocalStore(clock)), "mesh", clock)
        self.logs = KafkaRecordLogs(
            self.brokers, clock, self.claims, seen, self._names.get, PATIENT
        )

    async def topic(self, **configs: str) -> BrokerPartition:
        """Create a topic of one partition and return it once its leader answers.

        Records of 1970 stay, unless a setting says otherwise: Kafka's own would delete them.
        """
        name = f"orders-{secrets.token_hex(6)}"
        configs = {"retention.ms": "-1"} | configs
        await self.brokers.create_topic(NewBrokerTopic(name, 1, 1, configs), timeout_ms=5_000)
        while True:
            try:
                (made,) = (await self.brokers.metadata([name])).topics
                if made.error or made.partitions[0].leader < 0:
                    continue
                where = BrokerPartition(made.topic_id, name, 0)
                await self.brokers.list_offset(where, LATEST_TIMESTAMP)
            except BrokerRefusedError as error:
                if error.code not in NOT_YET:
                    raise
            else:
                self._names[made.topic_id] = name
                return where

    async def open(self, where: BrokerPartition, epoch: int = 1):
        partition = TopicPartition(where.topic_id, 0)
        self.claims.epochs[partition] = epoch
        return await self.logs.open(partition, epoch)


@asynccontextmanager
async def real_topics(bootstrap: str) -> AsyncIterator[RealTopics]:
    topics = RealTopics(bootstrap)
    try:
        yield topics
    finally:
        await topics.brokers.close()
