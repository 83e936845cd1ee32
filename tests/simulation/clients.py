"""Applications: producers and consumers of each mode, on the production client."""

import asyncio
import math
from collections import defaultdict, deque
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from random import Random

from sharemesh.client.consumer.async_share_consumer import AsyncShareConsumer
from sharemesh.client.consumer.handler_failures import RunOptions
from sharemesh.client.errors import CorruptRecordError, RecordDeserializationError, SharemeshError
from sharemesh.client.producer.async_producer import AsyncProducer
from sharemesh.client.records import ConsumerRecord, TopicIdPartition
from sharemesh.domain.delivery_state import AcknowledgeType
from tests.simulation.invariants import LIMITS, PROGRESS
from tests.simulation.journal import Client, Handed, SimJournal
from tests.simulation.world import World

KINDS = {
    AcknowledgeType.ACCEPT: "accept",
    AcknowledgeType.REJECT: "reject",
    AcknowledgeType.RELEASE: "release",
    AcknowledgeType.RENEW: "renew",
}
MODES = ("explicit", "implicit", "record_limit", "renewing", "hoarding", "runner")
POISON = b"poison"
TROUBLE_S = 0.2


@dataclass(slots=True)
class Pace:
    """How applications behave until they are told to finish; ``stretch`` slows producers down."""

    finishing: bool = False
    stopping: bool = False
    stretch: float = 1.0


class ProducerApplication:
    """Sends batches of records until the pace says to finish."""

    def __init__(self, world: World, journal: SimJournal, name: str, pace: Pace) -> None:
        self.world, self.journal, self.name, self.pace = world, journal, name, pace
        self.process, self._environment = world.new_client(name)
        self._rng = Random(world.rng.getrandbits(64))
        self._sent = 0
        self.done = False

    def start(self, topics: list[str], gap_s: tuple[float, float]) -> None:
        """Begin."""
        self.process.start(self._run(topics, gap_s))

    def kill(self) -> None:
        """kill -9."""
        self.world.kill_client(self.process)

    async def _run(self, topics: list[str], gap_s: tuple[float, float]) -> None:
        config = {"bootstrap.servers": self.world.bootstrap, "linger.ms": 5}
        async with AsyncProducer(config, environment=self._environment) as producer:
            waiting: set[asyncio.Task[None]] = set()
            while not self.pace.finishing:
                topic = self._rng.choice(topics)
                for _ in range(self._rng.choice((1, 1, 2, 5, 30))):
                    task = asyncio.create_task(self._send(producer, topic))
                    waiting.add(task)
                    task.add_done_callback(waiting.discard)
                await asyncio.sleep(self._rng.uniform(*gap_s) * self.pace.stretch)
            if waiting:
                await asyncio.wait(set(waiting))
        self.done = True

    async def _send(self, producer: AsyncProducer, topic: str) -> None:
        self._sent += 1
        poison = self._rng.random() < 0.01
        value = b"%s %s %d" % (POISON if poison else b"fine", self.name.encode(), self._sent)
        self.journal.sent(value)
        try:
            metadata = await producer.send_and_wait(topic, value, key=b"%d" % (self._sent % 97))
        except SharemeshError:
            self.world.event_log.counters["produce failed"] += 1
            return
        if metadata.offset >= 0:
            name = f"{metadata.topic}/{metadata.partition}"
            self.journal.produced(self.name, name, metadata.offset, value)


class ConsumerApplication:
    """One member of a share group; ``mode`` is one of ``MODES``."""

    def __init__(self, world: World, journal: SimJournal, name: str, mode: str, pace: Pace) -> None:
        self.world, self.journal, self.name = world, journal, name
        self.mode, self.pace = mode, pace
        self.process, self._environment = world.new_client(name)
        self._rng = Random(world.rng.getrandbits(64))
        # What was said of each record and not answered yet, oldest first: a record that was
        # released may come again, and be accepted, before the release is answered.
        self._sent: dict[tuple[str, int], deque[AcknowledgeType | None]] = defaultdict(deque)
        self._seen: set[tuple[str, int, int, int]] = set()
        self._renewed: set[tuple[str, int, int, int]] = set()
        self.trouble: SharemeshError | None = None  # the last that a call raised
        self._member_id = ""
        self._stalled_until_s = 0.0
        self.done = False

    def start(self, group: str, topics: list[str]) -> None:
        """Begin."""
        self.process.start(self._run(group, topics))

    def kill(self) -> None:
        """kill -9."""
        self.world.kill_client(self.process)

    def stall(self, duration_s: float) -> None:
        """Come back from what it is given next only after so long; infinite: never."""
        self._stalled_until_s = self.world.now_s + duration_s

    @property
    def is_stalled(self) -> bool:
        """Whether it does not poll."""
        return self._stalled_until_s > self.world.now_s

    @property
    def hangs(self) -> bool:
        """Whether it will never poll again."""
        return self._stalled_until_s == math.inf

    async def _while_stalled(self) -> None:
        while (left_s := self._stalled_until_s - self.world.now_s) > 0:
            await asyncio.sleep(min(left_s, 1.0))

    async def _run(self, group: str, topics: list[str]) -> None:
        implicit = self.mode == "implicit"
        config = {
            "bootstrap.servers": self.world.bootstrap,
            "group.id": group,
            "share.acknowledgement.mode": "implicit" if implicit else "explicit",
            "max.poll.records": self._rng.choice((1, 10, 50, 500)),
            "prefetch.records": self._rng.choice((-1, 0, 20, 100)),
        }
        if self.mode == "record_limit":
            config["share.acquire.mode"] = "record_limit"
        consumer = AsyncShareConsumer(config, environment=self._environment)
        self._member_id = consumer.member_id
        self.journal.members[consumer.member_id] = Client(self.process, hands_back=True)
        consumer.set_acknowledgement_commit_callback(self._committed)
        await consumer.subscribe(topics)
        limit = int(config["max.poll.records"]) if self.mode == "record_limit" else None
        runner: asyncio.Task[None] | None = None
        while not self.pace.stopping:
            try:
                if self.mode == "runner":
                    if runner is not None and runner.done():
                        ended, runner = runner, None
                        self.world.event_log.violation(
                            self.world.now_s, f"run of {self.name} ended: {ended.exception()!r}"
                        )
                    if runner is None:
                        runner = asyncio.create_task(
                            consumer.run(
                                self._handle,
                                concurrency=self._rng.choice((1, 8, 32)),
                                options=RunOptions(renew=False),  # results do not tell the type
                            )
                        )
                    await asyncio.wait([runner], timeout=0.5)
                else:
                    await self._turn(consumer, implicit=implicit, limit=limit)
            except (RecordDeserializationError, CorruptRecordError) as error:
                self.world.event_log.violation(self.world.now_s, f"{self.name} read {error!r}")
                await asyncio.sleep(TROUBLE_S)
            except SharemeshError as error:
                self.world.event_log.counters["client troubles"] += 1
                self.trouble = error
                await asyncio.sleep(TROUBLE_S)
        if runner is not None:
            consumer.stop()
            await asyncio.wait([runner])
        before_s = self.world.now_s
        timeout_ms = self._rng.choice((0, 500, 5_000, 20_000))
        await consumer.close(timeout_ms)
        PROGRESS.judged(self.world.event_log.counters)
        if self._is_overdue(before_s, timeout_ms):
            text = f"close({timeout_ms}) of {self.name} took {self.world.now_s - before_s:.3f} s"
            self.world.event_log.violation(self.world.now_s, PROGRESS.broken(text))
        self.done = True

    async def _turn(
        self, consumer: AsyncShareConsumer, *, implicit: bool, limit: int | None
    ) -> None:
        records = await consumer.poll(self._rng.choice((50, 1_000, 3_000, 5_000)))
        LIMITS.judged(self.world.event_log.counters)
        if limit is not None and len(records) > limit:
            text = f"{self.name} got {len(records)} records, limit {limit}"
            self.world.event_log.violation(self.world.now_s, LIMITS.broken(text))
        for record in records:
            self._note(record)
        await self._while_stalled()
        if implicit:
            for record in records:
                self._sent[_name(record), record.offset].append(AcknowledgeType.ACCEPT)
            if not self.pace.finishing:
                await asyncio.sleep(self._rng.choice((0.0, 0.05, 0.5)))
            return
        if records and not self.pace.finishing:
            if self.mode == "hoarding" and self._rng.random() < 0.3:
                await asyncio.sleep(self._rng.uniform(5, 40))
            else:
                await asyncio.sleep(self._rng.choice((0.0, 0.01, 0.2, 1.0)))
        self._say(consumer, records)
        await self._commit(consumer, records)

    def _say(self, consumer: AsyncShareConsumer, records: Sequence[ConsumerRecord]) -> None:
        """Decide about records, and say so; nothing is sent yet."""
        for record in records:
            kind = self._decide(record)
            self._sent[_name(record), record.offset].append(kind)
            consumer.acknowledge(record, kind)

    def _say_again(self, record: ConsumerRecord, kind: AcknowledgeType) -> None:
        """Note another decision about a record of which nothing is sent yet."""
        self._sent[_name(record), record.offset][-1] = kind

    async def _commit(
        self, consumer: AsyncShareConsumer, records: Sequence[ConsumerRecord]
    ) -> None:
        choice = self._rng.randrange(3)
        if not records or choice == 0:
            return  # the next poll carries them
        if choice == 1:
            await consumer.commit_async()
            return
        timeout_ms = self._rng.choice((100, 2_000, 10_000))
        before_s = self.world.now_s
        await consumer.commit_sync(timeout_ms)
        PROGRESS.judged(self.world.event_log.counters)
        if self._is_overdue(before_s, timeout_ms):  # KAFKA-21485
            text = f"commit_sync({timeout_ms}) took {self.world.now_s - before_s:.3f} s"
            self.world.event_log.violation(self.world.now_s, PROGRESS.broken(text))

    def _is_overdue(self, before_s: float, timeout_ms: int) -> bool:
        """Return whether a call took longer than it may; while frozen nobody can keep time."""
        took_s = self.world.now_s - before_s
        return took_s > timeout_ms / 1_000 + 0.1 and self.process.thawed_s < before_s

    async def _handle(self, record: ConsumerRecord) -> AcknowledgeType | None:
        self._note(record)
        in_hand = (self._member_id, _name(record), record.offset)
        self.journal.in_hand.add(in_hand)
        try:
            await self._while_stalled()
            await asyncio.sleep(self._rng.choice((0.0, 0.01, 0.1, 1.0)))
        finally:
            self.journal.in_hand.discard(in_hand)  # it is cancelled when its lock is gone (TOK-5)
        kind = self._decide(record)
        self._sent[_name(record), record.offset].append(kind)
        return kind

    def _note(self, record: ConsumerRecord) -> None:
        name = _name(record)
        grant = (name, record.offset, record.leader_epoch, record.delivery_count)
        handed = Handed(self._member_id, name, record.leader_epoch, record.offset, grant[3])
        self.journal.handed_out(handed)
        self.journal.delivered_values[name, record.offset].add(record.value)
        if grant in self._renewed and grant in self._seen:
            return
        self._seen.add(grant)
        self.journal.delivered(self.name, handed)

    def _decide(self, record: ConsumerRecord) -> AcknowledgeType:
        grant = (_name(record), record.offset, record.leader_epoch, record.delivery_count)
        if record.value.startswith(POISON):
            return AcknowledgeType.RELEASE
        if self.pace.finishing:
            return AcknowledgeType.ACCEPT
        if self.mode == "renewing" and grant not in self._renewed:
            self._renewed.add(grant)
            return AcknowledgeType.RENEW
        return self._rng.choices(
            (AcknowledgeType.ACCEPT, AcknowledgeType.REJECT, AcknowledgeType.RELEASE), (90, 4, 6)
        )[0]

    def _committed(
        self,
        offsets: Mapping[TopicIdPartition, Collection[int]],
        error: SharemeshError | None,
    ) -> None:
        for source, numbers in offsets.items():
            by_kind: dict[str, list[int]] = defaultdict(list)
            for offset in numbers:
                kind = self._answered(str(source), offset)
                if kind is not None:
                    by_kind[KINDS[kind]].append(offset)
            for kind_name, found in by_kind.items():
                self.journal.acknowledged(
                    self.name,
                    str(source),
                    kind_name,
                    found,
                    None if error is None else f"{type(error).__name__}: {error}",
                )

    def _answered(self, source: str, offset: int) -> AcknowledgeType | None:
        """Return what was said of the record that an answer is about; None if that is unclear.

        Results do not tell the type, and what was said to a deposed leader may be answered after
        what was said to its successor. So as soon as two words differ, nothing is known of either.
        """
        sent = self._sent[source, offset]
        if len(set(sent)) > 1:
            self._sent[source, offset] = sent = deque([None] * len(sent))
        if not sent:
            return None
        kind = sent.popleft()
        if kind is None:
            self.world.event_log.counters["unclear acknowledgements"] += 1
        return kind


def _name(record: ConsumerRecord) -> str:
    return f"{record.topic}/{record.partition}"
