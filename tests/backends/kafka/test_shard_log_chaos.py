"""Shard logs on brokers that fail in every way: what was confirmed is in every later load."""

import asyncio
import contextlib
import random

import pytest

from sharemesh.backends.kafka.shard_logs.coordinator_topics import (
    CoordinatorTopic,
    coordinator_topic_configs,
)
from sharemesh.ports.brokers import NewBrokerTopic
from sharemesh.ports.shard_log import FencedError, LogFailedError, LogRecord
from sharemesh.testing.memory_brokers import MemoryCluster
from tests.backends.kafka.owned_logs import EpochTable, OwnedKafkaLogs
from tests.clocks import ManualClock

TOPIC = "state"
DURATION_MS = 120_000
STEP_MS = 20


class Ledger:
    """What was confirmed, in the order of the log, and every load that was made."""

    def __init__(self) -> None:
        self.confirmed: dict[bytes, int] = {}
        self.loads: list[tuple[int, list[bytes]]] = []
        self.appended = 0
        self.take_overs = 0

    def check_load(self, epoch: int, keys: list[bytes], start: int, offsets: list[int]) -> None:
        """A load holds all that was confirmed above the log start, once, and in order."""
        self.loads.append((epoch, keys))
        assert len(set(keys)) == len(keys), "a record counts twice"
        assert offsets == sorted(set(offsets))
        known = set(keys)
        missing = [key for key, at in self.confirmed.items() if key not in known and at >= start]
        assert not missing, f"epoch {epoch} does not load {missing[:5]}"


class Process:
    """Opens the log again and again, appends, reads, prunes, and dies now and then."""

    def __init__(self, number: int, world: "ChaosWorld") -> None:
        self.number = number
        self.world = world
        self.rng = random.Random(f"{world.seed}/{number}")
        self.logs = OwnedKafkaLogs(
            world.cluster.client(), world.topics, world.clock, seed=self.rng.getrandbits(30),
            table=world.table,
        )  # fmt: skip

    async def live(self) -> None:
        while True:
            await self.world.clock.sleep_ms(self.rng.randrange(4_000))
            epoch = self.world.next_epoch()
            try:
                log = await self.logs.open(TOPIC, 0, epoch)
            except (FencedError, LogFailedError):
                continue
            with contextlib.suppress(FencedError, LogFailedError):
                await self.lead(log, epoch)
            if self.rng.random() < 0.7:
                await log.close()
            else:
                self.world.abandoned.append(log)  # as a process that is cut off

    async def lead(self, log, epoch: int) -> None:
        ledger = self.world.ledger
        records = [record async for chunk in log.replay() for record in chunk]
        ledger.take_overs += 1
        keys = [record.key for record in records]
        ledger.check_load(epoch, keys, log.start_offset, [record.offset for record in records])
        for _ in range(self.rng.randrange(1, 60)):
            await self.world.clock.sleep_ms(self.rng.randrange(60))
            made = []
            for _ in range(self.rng.randrange(4)):
                ledger.appended += 1
                key = b"%d/%d" % (epoch, ledger.appended)
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


class ChaosWorld:
    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.clock = ManualClock()
        self.rng = random.Random(seed)
        self.cluster = MemoryCluster(self.clock, random.Random(f"cluster {seed}"))
        self.cluster.session_ms = (2_000, 3_000)
        self.cluster.replication_ms = (0, 20)
        self.cluster.news_ms = (0, 500)
        new = NewBrokerTopic(TOPIC, 1, 3, coordinator_topic_configs(2))
        self.topics = {TOPIC: CoordinatorTopic(TOPIC, self.cluster.create(new))}
        self.table = EpochTable()
        self.epoch = 0
        self.ledger = Ledger()
        self.abandoned: list = []

    def next_epoch(self) -> int:
        self.epoch += 1
        return self.epoch

    def trouble(self) -> None:
        """Something goes wrong, or is mended."""
        troubles, rng = self.cluster.troubles, self.rng
        step = rng.randrange(8)
        if step == 0:
            troubles.end()
        elif step == 1:
            for name in ("lost", "unanswered", "late", "doubled", "too_few", "too_few_after"):
                setattr(troubles, name, rng.choice([0, 20, 100]))
            troubles.travel_ms = (0.0, 3.0)
        elif step == 2:
            with contextlib.suppress(ValueError):
                self.cluster.move_leader(TOPIC)
        elif step == 3:
            self.cluster.heal()
        elif step == 4:
            self.cluster.kill(self.cluster.leader(TOPIC) if rng.random() < 0.5 else 1)
        elif step == 5:
            leader = self.cluster.leader(TOPIC)
            if leader > 0:
                self.cluster.cut_off(leader, from_brokers=rng.random() < 0.5)
        elif step == 6:
            self.cluster.freeze(rng.randint(1, 3))
        else:
            self.cluster.pause_replication(rng.randint(1, 3))

    async def run(self) -> None:
        tasks = [asyncio.ensure_future(Process(n, self).live()) for n in range(3)]
        next_trouble_ms = 0
        for now_ms in range(0, DURATION_MS, STEP_MS):
            if now_ms >= next_trouble_ms:
                self.trouble()
                next_trouble_ms = now_ms + self.rng.randrange(4_000)
            await self.clock.advance(STEP_MS)
            for task in tasks:
                if task.done():
                    task.result()
        self.cluster.heal()
        await self.clock.advance(20_000)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for log in self.abandoned:
            await self.until_done(log.close())

    async def until_done(self, work):
        """Let time pass until the work is done."""
        task = asyncio.ensure_future(work)
        for _ in range(2_000):
            await self.clock.advance(STEP_MS)
            if task.done():
                break
        assert task.done(), "it hangs"
        return task.result()


@pytest.mark.parametrize("seed", range(2))
async def test_what_was_confirmed_is_in_every_later_load(seed):
    world = ChaosWorld(seed)
    await world.run()
    last = OwnedKafkaLogs(
        world.cluster.client(), world.topics, world.clock, table=world.table, seed=99
    )

    async def load():
        log = await last.open(TOPIC, 0, world.next_epoch())
        return log, [record async for chunk in log.replay() for record in chunk]

    log, records = await world.until_done(load())
    keys, offsets = [r.key for r in records], [r.offset for r in records]
    world.ledger.check_load(world.epoch, keys, log.start_offset, offsets)
    assert world.ledger.take_overs > 3
    assert len(world.ledger.confirmed) > 50
    await world.until_done(log.close())
    await world.cluster.close()
