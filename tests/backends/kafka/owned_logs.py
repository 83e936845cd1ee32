"""Shard logs on Kafka as a cluster opens them: the epoch is raised in the store before."""

import random

from sharemesh.backends.kafka.shard_logs.coordinator_topics import (
    CoordinatorTopic,
    CoordinatorTopics,
)
from sharemesh.backends.kafka.shard_logs.log_counts import StampedLogCounts
from sharemesh.backends.kafka.shard_logs.settings import StampedLogSettings
from sharemesh.backends.kafka.shard_logs.shard_log import KafkaShardLog
from sharemesh.backends.kafka.shard_logs.shard_logs import KafkaShardLogs
from sharemesh.backends.local.coordination import LocalCoordination
from sharemesh.backends.local.coordination_store import LocalStore
from sharemesh.cluster.seen_logs import SeenLogsInStore
from sharemesh.ports.brokers import Brokers
from sharemesh.ports.clock import Clock
from sharemesh.ports.cluster import ShardKind
from sharemesh.ports.shard_log import FencedError


class EpochTable:
    """Epochs as the coordination store has them (port Ownership, its part for shards)."""

    def __init__(self) -> None:
        self.epochs: dict[tuple[str, int], int] = {}
        self.looks = 0
        self.gone = False

    def raise_to(self, name: str, shard: int, epoch: int) -> None:
        self.epochs[name, shard] = max(self.epochs.get((name, shard), 0), epoch)

    async def still(self, kind: ShardKind, shard: int, epoch: int) -> None:
        self.looks += 1
        found = self.epochs.get((str(kind), shard), 0)
        if self.gone or found != epoch:
            raise FencedError(f"epoch {found}, not {epoch}", fence_epoch=found)


class OwnedKafkaLogs:
    """Opens logs after it has raised their epoch, as the elections do."""

    def __init__(
        self,
        brokers: Brokers,
        topics: dict[str, CoordinatorTopic],
        clock: Clock,
        settings: StampedLogSettings | None = None,
        *,
        seed: int = 1,
        table: EpochTable | None = None,
        store: LocalStore | None = None,
    ) -> None:
        self.table = table or EpochTable()
        self.counts = StampedLogCounts()
        self.store = store or LocalStore(clock)
        self.coordination = LocalCoordination(self.store)
        self.logs = KafkaShardLogs(
            brokers,
            CoordinatorTopics("mesh", "kafka", topics),
            self.table,
            SeenLogsInStore(self.coordination, "mesh", clock),
            clock,
            random.Random(seed),
            node_id="node-1",
            settings=settings,
            counts=self.counts,
        )

    async def open(self, name: str, shard: int, epoch: int) -> KafkaShardLog:
        self.table.raise_to(name, shard, epoch)
        return await self.logs.open(name, shard, epoch)
