"""Consumers that are hard on a share leader: late ones, and ones that decide in parts."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Sequence

from sharemesh.client.async_consumer import AsyncShareConsumer
from sharemesh.client.records import ConsumerRecord
from tests.simulation.clients import ConsumerApplication
from tests.simulation.world import LOCK_DURATION_MS

LOCK_S = LOCK_DURATION_MS / 1_000
PAST_THE_LOCK_S = (0.97 * LOCK_S, 1.3 * LOCK_S)


class HardConsumer(ConsumerApplication, ABC):
    """Polls, and decides in a way of its own, whatever its mode."""

    async def _turn(
        self, consumer: AsyncShareConsumer, *, implicit: bool, limit: int | None
    ) -> None:
        records = await consumer.poll(1_000)
        for record in records:
            self._note(record)
        await self._settle(consumer, records)

    @abstractmethod
    async def _settle(
        self, consumer: AsyncShareConsumer, records: Sequence[ConsumerRecord]
    ) -> None:
        """Decide about what was got."""


class LateConsumer(HardConsumer):
    """Decides about what it got when its locks are over, or nearly."""

    async def _settle(
        self, consumer: AsyncShareConsumer, records: Sequence[ConsumerRecord]
    ) -> None:
        if records and not self.pace.finishing and self._rng.random() < 0.7:
            await asyncio.sleep(self._rng.uniform(*PAST_THE_LOCK_S))
        self._say(consumer, records)
        await self._commit(consumer, records)


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
            await asyncio.sleep(self._rng.uniform(*PAST_THE_LOCK_S) if late else 0.3)
            self._say(consumer, rest)
            await self._commit(consumer, rest)


HARD: dict[str, type[ConsumerApplication]] = {"late": LateConsumer, "partial": PartialConsumer}
"""By mode, as ``consumer_kinds`` of a workload."""
