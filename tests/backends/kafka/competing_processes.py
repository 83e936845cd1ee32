"""Processes that take one shard log from each other, and what must hold of it at every load."""

import contextlib
import random

from sharemesh.backends.kafka.shard_logs.coordinator_topics import CoordinatorTopic
from sharemesh.backends.kafka.shard_logs.shard_log import KafkaShardLog
from sharemesh.ports.brokers import Brokers
from sharemesh.ports.clock import Clock
from sharemesh.ports.shard_log import FencedError, LogFailedError, LogRecord
from tests.backends.kafka.owned_logs import EpochTable, OwnedKafkaLogs

TOPIC = "state"


class Ledger:
    """What was confirmed, in the order of the log, and every load that was made."""

    def __init__(self) -> None:
        self.confirmed: dict[bytes, int] = {}
        self.appended = 0
        self.take_overs = 0

    def check_load(
        self, expected: dict[bytes, int], log: KafkaShardLog, records: list[LogRecord]
    ) -> None:
        """A load holds all that was confirmed before it, above the log start, once and in order."""
        keys, offsets = [each.key for each in records], [each.offset for each in records]
        assert len(set(keys)) == len(keys), "a record counts twice"
        assert offsets == sorted(set(offsets))
        known = set(keys)
        missing = [
            key for key, at in expected.items() if key not in known and at >= log.start_offset
        ]
        assert not missing, f"epoch {log.epoch} does not load {missing[:5]}"


class SharedLog:
    """What the processes have in common: one log, its epochs, and the ledger."""

    def __init__(self, seed: int, topics: dict[str, CoordinatorTopic], clock: Clock) -> None:
        self.seed = seed
        self.topics = topics
        self.clock = clock
        self.table = EpochTable()
        self.epoch = 0
        self.ledger = Ledger()
        self.abandoned: list[KafkaShardLog] = []

    def next_epoch(self) -> int:
        self.epoch += 1
        return self.epoch

    async def load(self, brokers: Brokers) -> None:
        """Open the log once more, and compare it with the ledger."""
        logs = OwnedKafkaLogs(brokers, self.topics, self.clock, table=self.table, seed=99)
        expected = dict(self.ledger.confirmed)
        log = await logs.open(TOPIC, 0, self.next_epoch())
        self.ledger.check_load(expected, log, [r async for each in log.replay() for r in each])
        await log.close()


class Process:
    """Opens the log again and again, appends, reads, prunes, and dies now and then."""

    def __init__(self, number: int, world: SharedLog, brokers: Brokers) -> None:
        self.world = world
        self.rng = random.Random(f"{world.seed}/{number}")
        self.logs = OwnedKafkaLogs(
            brokers, world.topics, world.clock, seed=self.rng.getrandbits(30), table=world.table
        )

    async def live(self) -> None:
        while True:
            await self.world.clock.sleep_ms(self.rng.randrange(4_000))
            epoch = self.world.next_epoch()
            expected = dict(self.world.ledger.confirmed)
            try:
                log = await self.logs.open(TOPIC, 0, epoch)
            except (FencedError, LogFailedError):
                continue
            with contextlib.suppress(FencedError, LogFailedError):
                await self.lead(log, expected)
            if self.rng.random() < 0.7:
                await log.close()
            else:
                self.world.abandoned.append(log)  # as a process that is cut off

    async def lead(self, log: KafkaShardLog, expected: dict[bytes, int]) -> None:
        ledger = self.world.ledger
        records = [record async for chunk in log.replay() for record in chunk]
        ledger.take_overs += 1
        ledger.check_load(expected, log, records)
        for _ in range(self.rng.randrange(1, 60)):
            await self.world.clock.sleep_ms(self.rng.randrange(60))
            made = []
            for _ in range(self.rng.randrange(4)):
                ledger.appended += 1
                key = b"%d/%d" % (log.epoch, ledger.appended)
                size = self.rng.choice([1, 100, 30_000])
                first = log.end_offset
                log.append([LogRecord(key, bytes(size)), LogRecord(key + b"+", None)])
                made.append((key, first))
            await log.committed(log.end_offset)
            for key, first in made:  # confirmed: at this offset or above
                ledger.confirmed[key] = ledger.confirmed[key + b"+"] = first
            if self.rng.random() < 0.03:
                start = self.rng.randint(log.start_offset, log.committed_end_offset)
                await log.delete_before(start)
