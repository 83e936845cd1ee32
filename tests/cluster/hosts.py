"""Hosts that only remember what they were told: verified by what the claims must never do."""

import asyncio
from collections.abc import Callable

from sharemesh.domain.ids import TopicPartition
from sharemesh.ports.cluster import GiveOn
from sharemesh.ports.shard_log import FencedError


class Fences:
    """The log directories of one cluster: the highest epoch seen a name, and who holds it."""

    def __init__(self) -> None:
        self.epochs: dict[object, int] = {}
        self.history: list[tuple[object, int, str]] = []

    def take(self, name: object, epoch: int, who: str, *, tell: bool = True) -> None:
        fence = self.epochs.get(name, 0)
        if fence >= epoch:
            raise FencedError(f"{name}: fence {fence}", fence_epoch=fence if tell else -1)
        self.epochs[name] = epoch
        self.history.append((name, epoch, who))


class FakeShardHost:
    def __init__(self, who: str, fences: Fences) -> None:
        self.who = who
        self.fences = fences
        self.serving: dict[int, int] = {}
        self.fail_with: Exception | None = None
        self.tell_fence = True
        self.ended: Callable[[int], None] = lambda shard: None

    async def start_shard(self, shard: int, epoch: int) -> None:
        if self.fail_with is not None:
            raise self.fail_with
        self.fences.take(shard, epoch, self.who, tell=self.tell_fence)
        self.serving[shard] = epoch

    async def stop_shard(self, shard: int, *, orderly: bool = False) -> None:
        self.serving.pop(shard, None)

    def on_ended(self, callback: Callable[[int], None]) -> None:
        self.ended = callback


class FakePartitionHost:
    def __init__(self, who: str, fences: Fences) -> None:
        self.who = who
        self.fences = fences
        self.serving: dict[TopicPartition, int] = {}
        self.drains: list[tuple[TopicPartition, int]] = []
        self.deleted: list[TopicPartition] = []
        self.fail_with: Exception | None = None
        self.acknowledged = asyncio.Event()
        self.acknowledged.set()
        self.gives_on = False  # the claim, while it still drains (HND-13)
        self.handing_over: dict[TopicPartition, int] = {}
        self.ended: Callable[[TopicPartition], None] = lambda partition: None

    async def start_partition(
        self, partition: TopicPartition, leader_epoch: int, *, handing_over: int = 0
    ) -> None:
        if self.fail_with is not None:
            raise self.fail_with
        self.fences.take(partition, leader_epoch, self.who)
        self.serving[partition] = leader_epoch
        self.handing_over[partition] = handing_over

    async def stop_partition(
        self, partition: TopicPartition, *, drain_ms: int = 0, give_on: GiveOn | None = None
    ) -> None:
        if self.serving.pop(partition, None) is not None:
            self.drains.append((partition, drain_ms))
            if self.gives_on and give_on is not None:
                await give_on()
            await self.acknowledged.wait()

    async def delete_partition(self, partition: TopicPartition) -> None:
        await self.stop_partition(partition)
        self.deleted.append(partition)

    def on_ended(self, callback: Callable[[TopicPartition], None]) -> None:
        self.ended = callback
