"""A mesh under load on a Kafka cluster: records come from Kafka's own producer, states go there."""

import asyncio
import json
import random
import re
import shutil
import time
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewTopic

from sharemesh.backends.etcd.coordination import EtcdCoordination
from sharemesh.backends.local.clock import SystemClock
from sharemesh.client.admin_results import TopicDescription
from sharemesh.cluster.store.storage_record import StorageRecord, stored_storage
from sharemesh.domain.ids import TopicId
from tests.history.checker import History, Promise, Report
from tests.history.journal import now_ms
from tests.mesh.kafka_state import KafkaStateLog, ShardContent, kafka_durable_state
from tests.mesh.loaded_mesh import DELIVERY_COUNT_LIMIT, Load, LoadedMesh, RowProducer
from tests.mesh.outcome import DurableState
from tests.mesh.state_timeline import StateTimeline

CREATE_S = 60
LED_S = 60
READ_S = 60
POLL_S = 0.02
DELIVERY_MS = 180_000
"""How long a record is tried: longer than any fault."""

SILENT_MS = 2_000
NAMED_MAX = 20
PLACE = re.compile(r"(\S+/\d+)@(\d+)")


@dataclass(frozen=True, slots=True)
class ConfirmedRecord:
    """Where Kafka confirmed a record."""

    topic: str
    partition: int
    offset: int | None
    """None: a repetition was taken for what it is, and nobody told the place."""


class KafkaRowProducer:
    """librdkafka, idempotent and with acks=all, behind what a run asks of a producer."""

    def __init__(self, bootstrap: str, told: Callable[[ConfirmedRecord], None]) -> None:
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "acks": "all",
                "enable.idempotence": True,
                "linger.ms": 5,
                "delivery.timeout.ms": DELIVERY_MS,
                "socket.timeout.ms": SILENT_MS,  # else it waits a minute for a frozen broker
                "request.timeout.ms": SILENT_MS,
                "reconnect.backoff.max.ms": 500,
                "retry.backoff.max.ms": 500,
                "log_level": 2,  # that brokers are gone is what trials are about
            }
        )
        self._told = told

    async def send(
        self, topic: str, value: bytes, *, key: bytes, partition: int | None
    ) -> "asyncio.Future[object]":
        """Queue one record."""
        future: asyncio.Future[object] = asyncio.get_running_loop().create_future()

        def delivered(error: KafkaError | None, message: Message) -> None:
            if error is not None:
                future.set_exception(RuntimeError(f"Kafka's producer gave a record up: {error}"))
                return
            where = ConfirmedRecord(message.topic(), message.partition(), message.offset())
            self._told(where)
            if not future.done():
                future.set_result(where)

        place = {} if partition is None else {"partition": partition}
        self._producer.produce(topic, value=value, key=key, on_delivery=delivered, **place)
        self._producer.poll(0)
        return future

    async def flush(self) -> None:
        """Wait for every record."""
        while len(self._producer):
            self._producer.poll(0)
            await asyncio.sleep(POLL_S)


class KafkaMesh(LoadedMesh):
    """One run on brokers that stand already.

    Args:
        work: Where the run writes.
        load: What is produced; its settings name the brokers.
        producers: Addresses of the brokers for producers and for the verdict.
        replicas: Of the topic.
        kept: Where journals and logs of a run with violations are left.
    """

    def __init__(
        self,
        work: Path,
        load: Load,
        *,
        producers: str,
        replicas: int = 3,
        kept: Path | None = None,
    ) -> None:
        super().__init__(work, load)
        self._kept = kept
        self._producers = producers
        self._replicas = replicas
        self._storage: StorageRecord | None = None
        self._contents: list[ShardContent] = []
        self._deletions: dict[str, list[tuple[float, int]]] = defaultdict(list)
        self.newest: dict[str, int] = {}
        """The newest offset that was confirmed, by partition."""
        self.written_ms: dict[str, list[float]] = defaultdict(list)
        """When Kafka confirmed records to their producer, by partition."""
        self.deleted: dict[str, set[int]] = {}
        """Offsets that somebody had Kafka delete; nobody need have seen them."""

    async def prepare(self) -> None:
        """Create the topic in Kafka, attach it, and let the group begin at the first record."""
        load = self.load
        await asyncio.to_thread(self._create_topic)
        await self._attach()
        async with asyncio.timeout(LED_S):
            while not await self._is_led():
                await asyncio.sleep(0.1)
        self.topic_id = TopicId(bytes.fromhex((await self._described()).topic_id))
        await self.admin.alter_group_configs(load.group, {"share.auto.offset.reset": "earliest"})
        store = EtcdCoordination(
            self.cluster.etcd_endpoints, clock=SystemClock(), rng=random.SystemRandom()
        )
        try:
            self._storage = await stored_storage(store, load.settings.cluster_id)
        finally:
            await store.close()

    def _create_topic(self) -> None:
        admin = AdminClient({"bootstrap.servers": self._producers})
        topic = NewTopic(self.load.topic, self.load.partitions, self._replicas)
        admin.create_topics([topic])[self.load.topic].result(CREATE_S)

    async def _attach(self) -> None:
        """Ask until the brokers show the topic to whoever is asked."""
        async with asyncio.timeout(LED_S):
            while (await self.admin.attach_topics([self.load.topic]))[self.load.topic] is not None:
                await asyncio.sleep(POLL_S)

    async def _is_led(self) -> bool:
        found = (await self.admin.describe_topics([self.load.topic]))[self.load.topic]
        return (
            isinstance(found, TopicDescription)
            and len(found.partitions) == self.load.partitions
            and all(each.leader_id for each in found.partitions)
        )

    def producer(self) -> AbstractAsyncContextManager[RowProducer]:
        """Return Kafka's own producer: it writes straight to the brokers."""
        return _open(KafkaRowProducer(self._producers, self._written))

    def _written(self, where: ConfirmedRecord) -> None:
        if where.offset is None:
            return
        name = f"{where.topic}/{where.partition}"
        self.newest[name] = where.offset
        self.written_ms[name].append(now_ms())

    def shards(self) -> list[ShardContent]:
        """Return the shards of the state topic, judged from the first batch to the last."""
        assert self._storage is not None
        where = KafkaStateLog(self._producers, self.load.settings.cluster_id, self._storage)
        return where.read()

    def said(self, words: str) -> int:
        """Return how many lines of the processes' logs hold these words."""
        logs = self.cluster.logs.glob("*.log")
        return sum(path.read_text(errors="replace").count(words) for path in logs)

    def deletes_below(self, partition: str, end: int) -> None:
        """Note that Kafka is to delete records below an offset."""
        self._deletions[partition].append((now_ms(), end))
        self.deleted[partition] = set(range(end))

    def state(self) -> DurableState:
        """Return the durable state of the group, folded from the state topic."""
        load = self.load
        self._contents = self.shards()
        state = kafka_durable_state(self._contents, load.group, load.topic, self.topic_id)
        for partition, offsets in self.deleted.items():
            state.acknowledged.update((partition, offset) for offset in offsets)
        return state

    def _timeline(self) -> StateTimeline:
        timeline = StateTimeline(self.load.group, self.load.topic, self.topic_id)
        for shard, content in enumerate(self._contents):
            timeline.read(shard, content.records)
        return timeline

    def repeated(self) -> int:
        """Read the topic, and return how many records Kafka's producer wrote once more.

        librdkafka resends under a new epoch what it is not sure of; values tell, each is unique.
        """
        values: Counter[bytes] = Counter()
        config = {"bootstrap.servers": self._producers, "group.id": "of-nobody"}
        reader = Consumer({**config, "enable.auto.commit": False, "enable.partition.eof": True})
        try:
            places = [
                TopicPartition(self.load.topic, number, OFFSET_BEGINNING)
                for number in range(self.load.partitions)
            ]
            reader.assign(places)
            left, deadline = len(places), time.monotonic() + READ_S
            while left:
                if time.monotonic() > deadline:
                    raise TimeoutError(f"{left} partitions were not read within {READ_S} s")
                for message in reader.consume(1_000, POLL_S):
                    if message.error() is None:
                        values[message.value()] += 1
                    elif message.error().code() == KafkaError._PARTITION_EOF:
                        left -= 1
        finally:
            reader.close()
        return values.total() - len(values)

    def verdict(self, state: DurableState) -> Report:
        """Judge all journals; what was deleted is excused."""
        ahead_ms = time.time() * 1_000 - now_ms()
        timeline = self._timeline()

        def deleted_at(partition: str, time_ms: float) -> int:
            ends = [end for at_ms, end in self._deletions[partition] if at_ms <= time_ms]
            return max(ends, default=0)

        def start_offset_at(partition: str, time_ms: float) -> int:
            passed = timeline.start_offset_at(partition, time_ms + ahead_ms)
            return max(passed, deleted_at(partition, time_ms))

        def finished_at(partition: str, time_ms: float) -> int:
            told = timeline.told_start_offset_at(partition, time_ms + ahead_ms)
            return max(told, deleted_at(partition, time_ms))

        history = History(delivery_count_limit=DELIVERY_COUNT_LIMIT)
        entries = self.entries()
        history.add(entries)
        report = history.judge(
            state.start_offsets,
            state.terminal,
            start_offset_at,
            excused=self.deleted,
            finished_at=finished_at,
        )
        for text in timeline.told_before(entries, ahead_ms):
            report.breaks(Promise.FINAL, text)
        return report

    def keep(self, violations: Sequence[str]) -> None:
        """Leave all that explains violations, once the run is judged.

        That is journals, what processes said, each batch of the state topic, and of each offset
        that is named what members and log say of it.
        """
        kept = self._kept
        if kept is None:
            return
        ahead_ms = time.time() * 1_000 - now_ms()
        timeline = self._timeline()
        for folder in (self.journals, self.cluster.logs):
            shutil.copytree(folder, kept / folder.name, dirs_exist_ok=True)
        for shard, content in enumerate(self._contents):
            text = "".join(f"{line}\n" for line in content.dump(ahead_ms))
            (kept / f"state-{shard}.txt").write_text(text)
        named = dict.fromkeys(found for text in violations for found in PLACE.findall(text))
        told = [*violations]
        entries = self.entries()
        for partition, offset in list(named)[:NAMED_MAX]:
            told.append(f"\n{partition}@{offset}, by time of the journals (ms):")
            lines = [*timeline.about(partition, int(offset), ahead_ms)]
            lines += [
                (each.time_ms, f"{each.who} {each.event} {json.dumps(each.fields)}")
                for each in entries
                if each.fields.get("p") == partition
                and any(found[0] <= int(offset) <= found[1] for found in each.fields["r"])
            ]
            told += [f"{at_ms:.1f} {words}" for at_ms, words in sorted(lines)]
        (kept / "violations.txt").write_text("\n".join(told) + "\n")


@asynccontextmanager
async def _open(producer: KafkaRowProducer) -> AsyncIterator[KafkaRowProducer]:
    yield producer
