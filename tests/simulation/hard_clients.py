"""Consumers that are hard on a leader: late ones, and ones that renew, or decide in parts."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from sharemesh.client.consumer.async_share_consumer import AsyncShareConsumer
from sharemesh.client.records import ConsumerRecord
from sharemesh.domain.delivery_state import AcknowledgeType
from tests.simulation.checkers.tokens import GuardedStore
from tests.simulation.clients import ConsumerApplication
from tests.simulation.world import DELIVERY_COUNT_LIMIT

Grant = tuple[str, int, int, int]
PAST_THE_LOCK = (0.97, 1.3)
ABOUT_THE_LOCK = (0.8, 1.15)


class HardConsumer(ConsumerApplication, ABC):
    """Polls, and decides in a way of its own, whatever its mode."""

    def _part_of_the_lock_s(self, shares: tuple[float, float]) -> float:
        """Return how long it thinks, from shares of the acquisition lock."""
        return self._rng.uniform(*shares) * self.world.lock_duration_ms / 1_000

    async def _turn(
        self, consumer: AsyncShareConsumer, *, implicit: bool, limit: int | None
    ) -> None:
        records = await consumer.poll(1_000)
        for record in records:
            self._note(record)
        await self._while_stalled()
        await self._settle(consumer, records)

    @abstractmethod
    async def _settle(
        self, consumer: AsyncShareConsumer, records: Sequence[ConsumerRecord]
    ) -> None:
        """Decide about what was got."""


class LateConsumer(HardConsumer):
    """Decides about what it got when its locks are over, or nearly."""

    thinks = PAST_THE_LOCK

    async def _settle(
        self, consumer: AsyncShareConsumer, records: Sequence[ConsumerRecord]
    ) -> None:
        if records and not self.pace.finishing and self._rng.random() < 0.7:
            await asyncio.sleep(self._part_of_the_lock_s(self.thinks))
        self._say(consumer, records)
        await self._commit(consumer, records)


class RenewingConsumer(LateConsumer):
    """Renews its locks once, in time or too late, and decides later."""

    thinks = ABOUT_THE_LOCK


class PartialConsumer(HardConsumer):
    """Decides about a part of what it got, and about the rest later, often past the lock."""

    async def _settle(
        self, consumer: AsyncShareConsumer, records: Sequence[ConsumerRecord]
    ) -> None:
        if self.pace.finishing:
            first, rest = records, []
        else:
            chosen = [self._rng.random() < 0.5 for _ in records]
            first = [record for record, now in zip(records, chosen, strict=True) if now]
            rest = [record for record, now in zip(records, chosen, strict=True) if not now]
        if first:
            self._say(consumer, first)
            await consumer.commit_sync(2_000)
        if rest:
            late = self._rng.random() < 0.5
            await asyncio.sleep(self._part_of_the_lock_s(PAST_THE_LOCK) if late else 0.3)
            self._say(consumer, rest)
            await self._commit(consumer, rest)


class HoldingConsumer(HardConsumer):
    """Renews one record again and again, for several locks, and decides about others at once."""

    renewals_max = 8
    between = (0.05, 0.3)

    def __init__(self, *words: Any) -> None:
        super().__init__(*words)
        self._held: Grant | None = None
        self._renewals = 0

    async def _settle(
        self, consumer: AsyncShareConsumer, records: Sequence[ConsumerRecord]
    ) -> None:
        if any(_grant(record) == self._held for record in records) and not self.pace.finishing:
            await asyncio.sleep(self._part_of_the_lock_s(self.between))
        elif self._rng.random() < 0.02:
            self._held = None  # it may never come back
        self._say(consumer, records)
        await self._commit(consumer, records)

    def _decide(self, record: ConsumerRecord) -> AcknowledgeType:
        grant = _grant(record)
        if self.pace.finishing or self._held not in (None, grant):
            return super()._decide(record)
        if self._held is None:
            self._held, self._renewals = grant, 0
        if self._renewals == self.renewals_max:
            self._held = None
            return super()._decide(record)
        self._renewals += 1
        self._renewed.add(grant)
        return AcknowledgeType.RENEW


class DelayingConsumer(HardConsumer):
    """Releases a part of what it got, mostly with a delay of its own."""

    delays_s = (None, None, 0, 0.3, 2.0, 6.0, 12.0)

    async def _settle(
        self, consumer: AsyncShareConsumer, records: Sequence[ConsumerRecord]
    ) -> None:
        self._say(consumer, records)
        if not self.pace.finishing:
            delay = self._rng.choice(self.delays_s)
            for record in records:
                if record.delivery_count < DELIVERY_COUNT_LIMIT and self._rng.random() < 0.4:
                    self._say_again(record, AcknowledgeType.RELEASE)
                    counted = not delay or self._rng.random() < 0.7
                    if not counted:
                        self._hands_back(record)
                    consumer.acknowledge(
                        record, AcknowledgeType.RELEASE, delay=delay, counted=counted
                    )
        await self._commit(consumer, records)

    def _hands_back(self, record: ConsumerRecord) -> None:
        self.world.event_log.counters["delayed hand-backs"] += 1
        partition, offset, epoch, count = _grant(record)
        self.journal.handed_back(self.name, partition, epoch, offset, count)


class StoringConsumer(LateConsumer):
    """Writes to a store what it got, often when its locks are over, and says so then."""

    thinks = (0.97, 2.0)
    store: GuardedStore
    group: str

    async def _settle(
        self, consumer: AsyncShareConsumer, records: Sequence[ConsumerRecord]
    ) -> None:
        if records and not self.pace.finishing and self._rng.random() < 0.35:
            await asyncio.sleep(self._part_of_the_lock_s(self.thinks))
        for record in records:
            await asyncio.sleep(0)  # where it may be frozen
            self.store.write(self.group, self._member_id, record)
        self._say(consumer, records)
        await self._commit(consumer, records)


def _grant(record: ConsumerRecord) -> Grant:
    name = f"{record.topic}/{record.partition}"
    return name, record.offset, record.leader_epoch, record.delivery_count


HARD: dict[str, type[ConsumerApplication]] = {
    "late": LateConsumer,
    "renewing": RenewingConsumer,
    "partial": PartialConsumer,
}
"""By mode, as ``consumer_kinds`` of a workload."""
