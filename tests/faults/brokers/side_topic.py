"""A second topic with a group of its own, for what loses records or forbids to read them.

The load goes on beside it, and its history is judged as ever; what happens here a trial judges.
"""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from confluent_kafka import KafkaError, Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from sharemesh.client import AsyncShareConsumer, connect
from sharemesh.client.errors import SharemeshError
from sharemesh.client.records import TopicIdPartition
from tests.faults.brokers.broker_load import BrokerLoad
from tests.history.journal import now_ms

ADMIN_S = 30
CONSUMED_S = 30
POLL_MS = 200


@dataclass(slots=True)
class SideTopic:
    """One topic of one partition: who wrote what where, and what its group had of it."""

    load: BrokerLoad
    name: str
    values: dict[int, bytes] = field(default_factory=dict)
    seen: list[tuple[int, bytes]] = field(default_factory=list)
    accepted: set[int] = field(default_factory=set)
    refused: list[str] = field(default_factory=list)

    @property
    def group(self) -> str:
        """Its only group."""
        return f"of-{self.name}"

    def _admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.load.brokers.bootstrap, "log_level": 2})

    async def make(self, brokers: Sequence[int], config: Mapping[str, str] | None = None) -> None:
        """Create it on these brokers; the first one leads."""
        topic = NewTopic(self.name, 1, replica_assignment=[[*brokers]], config=dict(config or {}))
        admin = self._admin()  # what it promises ends with it
        await asyncio.to_thread(admin.create_topics([topic])[self.name].result, ADMIN_S)

    async def remove(self) -> None:
        """Have the brokers delete it."""
        admin = self._admin()
        await asyncio.to_thread(admin.delete_topics([self.name])[self.name].result, ADMIN_S)

    async def write(self, count: int, what: str) -> None:
        """Produce with acks=all; ``values`` knows what lies where, as far as Kafka confirmed it."""
        await asyncio.to_thread(self._write, [f"{what} {n}".encode() for n in range(count)])

    def _write(self, values: Sequence[bytes]) -> None:
        def confirmed(error: KafkaError | None, message: Message) -> None:
            if error is None:
                offset, value = message.offset(), message.value()
                assert offset is not None
                self.values[offset] = bytes(value or b"")

        settings = {"bootstrap.servers": self.load.brokers.bootstrap, "acks": "all", "log_level": 2}
        producer = Producer({**settings, "delivery.timeout.ms": ADMIN_S * 1_000})
        for value in values:
            producer.produce(self.name, value=value, partition=0, on_delivery=confirmed)
        if producer.flush(ADMIN_S):
            raise TimeoutError(f"{self.name}: not confirmed within {ADMIN_S} s")

    async def attach(self) -> None:
        """Attach it, and let the group begin at the first record."""
        admin = self.load.mesh.admin
        async with asyncio.timeout(ADMIN_S):
            while (await admin.attach_topics([self.name]))[self.name] is not None:
                await asyncio.sleep(0.1)
        await admin.alter_group_configs(self.group, {"share.auto.offset.reset": "earliest"})

    async def consume(self, wanted: set[bytes], timeout_s: float = CONSUMED_S) -> float:
        """Accept what comes until all that is wanted did; return ms, infinite if it did not."""
        began_ms = now_ms()
        missing = wanted - {value for _, value in self.seen}
        async with connect(self.load.mesh.bootstrap).async_share_consumer(self.group) as consumer:
            consumer.set_acknowledgement_commit_callback(self._answered)
            await consumer.subscribe([self.name])
            with suppress(TimeoutError):
                async with asyncio.timeout(timeout_s):
                    while missing:
                        missing -= await self._polled(consumer)
            await consumer.commit_sync()
        return float("inf") if missing else now_ms() - began_ms

    async def _polled(self, consumer: AsyncShareConsumer) -> set[bytes]:
        try:
            records = await consumer.poll(POLL_MS)
        except SharemeshError as error:
            self.refused.append(str(error))
            await asyncio.sleep(POLL_MS / 1_000)
            return set()
        found = [(each.offset, bytes(each.value or b"")) for each in records]
        self.seen += found
        return {value for _, value in found}

    def _answered(
        self, offsets: Mapping[TopicIdPartition, set[int]], error: SharemeshError | None
    ) -> None:
        if error is None:
            for numbers in offsets.values():
                self.accepted |= numbers

    async def reason(self, offset: int) -> str:
        """Return why a record is not delivered, in the word of ``explain`` and in its sentence."""
        try:
            told = await self.load.mesh.admin.explain(self.group, self.name, 0, offset)
        except SharemeshError as error:
            return f"nobody says: {error}"
        return f"{told.reason}: {told.explanation}"

    async def until_reason(self, word: str, offset: int, timeout_s: float = CONSUMED_S) -> float:
        """Wait until ``explain`` gives a reason; return ms. A violation if it never does."""
        began_ms, told = now_ms(), ""
        while now_ms() - began_ms < timeout_s * 1_000:
            told = await self.reason(offset)
            if told.startswith(f"{word}:"):
                return now_ms() - began_ms
            await asyncio.sleep(0.1)
        self.load.steady.violations.append(f"{self.name}@{offset} is not {word}, but {told}")
        return float("inf")

    def lost(self, values: set[bytes], what: str) -> None:
        """Note a violation for each of these that its group has not had."""
        missing = values - {value for _, value in self.seen}
        if missing:
            text = f"{self.name}: {len(missing)} records {what}, {min(missing)!r} for one"
            self.load.steady.violations.append(text)
