"""Owners of a shard log on three brokers come, go, sleep and die while everything goes wrong."""

import asyncio
import multiprocessing
from collections.abc import Iterator
from random import Random

import pytest

from sharemesh.backends.kafka.shard_logs import log_partition, unit_writer
from sharemesh.backends.kafka.shard_logs.coordinator_topics import (
    CoordinatorTopic,
    CoordinatorTopics,
    coordinator_topic_configs,
)
from sharemesh.backends.kafka.shard_logs.shard_logs import KafkaShardLogs
from sharemesh.backends.local.coordination import LocalCoordination
from sharemesh.backends.local.coordination_store import LocalStore
from sharemesh.cluster.seen_logs import SeenLogsInStore
from sharemesh.codec.batch_frame import COMPRESSION_MASK
from sharemesh.domain.stamped_log import judgement
from sharemesh.domain.stamped_log.stamp import StampKind
from sharemesh.domain.stamped_log.writing import StampAnew, UnitCounts
from sharemesh.ports.brokers import NewBrokerTopic
from sharemesh.ports.shard_log import CorruptLogError, FencedError, LogFailedError, LogRecord
from sharemesh.testing.memory_brokers import MemoryCluster
from tests.backends.kafka.owned_logs import EpochTable
from tests.simulation.broker_faults import BROKER_FAULTS, NEWS_MS, BrokerFaults
from tests.simulation.brokers import SimSchedule
from tests.simulation.loop import Process, SimClock, SimLoop

RUN_S = 90.0
HEALED_S = 40.0
PRUNE = 0.03


class Owners:
    """One shard of a state log, those who own it in turn, and what each of them was told."""

    def __init__(self, seed: int) -> None:
        self.loop = SimLoop(Random(seed))
        self.rng = Random(f"owners {seed}")
        self.clock = SimClock(self.loop)
        cluster = self.cluster = MemoryCluster(
            self.clock, Random(seed), schedule=SimSchedule(self.loop)
        )
        cluster.session_ms, cluster.replication_ms = (1_000.0, 3_000.0), (0.2, 8.0)
        cluster.news_ms, cluster.troubles.travel_ms = NEWS_MS, (0.1, 2.0)
        new = NewBrokerTopic("state", 1, 3, coordinator_topic_configs(2))
        self.topics = {"state": CoordinatorTopic("state", cluster.create(new))}
        self.table = EpochTable()
        self.store = LocalStore(self.clock)
        self.faults = BrokerFaults(cluster, self.rng, self._happens)
        self.happened: dict[str, int] = {}
        self.confirmed: list[bytes] = []
        self.history: dict[int, bytes] = {}
        self.spans: list[tuple[int, int]] = []
        self.take_overs = 0
        self.fenced = 0
        self.broken: list[str] = []
        self.epoch = 0

    def _happens(self, name: str) -> None:
        self.happened[name] = self.happened.get(name, 0) + 1

    async def run(self) -> None:
        begin = asyncio.create_task
        troubles = [begin(self._trouble()) for _ in range(2)]
        owners = begin(self._successions())
        await asyncio.sleep(RUN_S)
        for task in (*troubles, owners):
            task.cancel()
        self.faults.heal()
        await asyncio.sleep(HEALED_S)
        confirmed = len(self.confirmed)
        Process(self.loop, "last").start(self._own("last"))
        await asyncio.sleep(HEALED_S)
        if len(self.confirmed) == confirmed:
            self.broken.append("nothing is confirmed although all is well")

    async def _trouble(self) -> None:
        while True:
            await asyncio.sleep(self.rng.uniform(0.2, 5))
            await self.faults.begin(self.rng.choice(sorted(BROKER_FAULTS)))

    async def _successions(self) -> None:
        """One owner after the other; the one before dies, sleeps, or does not know."""
        number = 0
        while True:
            number += 1
            process = Process(self.loop, f"owner-{number}")
            process.start(self._own(process.name))
            await asyncio.sleep(self.rng.uniform(0.5, 12))
            fate = self.rng.choice(("dies", "sleeps", "goes on"))
            if fate == "dies":
                process.kill()
            elif fate == "sleeps":
                process.freeze()
                self.loop.call_later(
                    self.rng.uniform(1, 20), process.thaw, context=self.loop.world.context()
                )

    async def _own(self, name: str) -> None:
        client = self.cluster.client()
        logs = KafkaShardLogs(
            client,
            CoordinatorTopics("mesh", self.cluster.cluster_id, self.topics),
            self.table,
            SeenLogsInStore(LocalCoordination(self.store), "mesh", self.clock),
            self.clock,
            Random(f"{name} {self.rng.random()}"),
        )
        try:
            while True:
                await self._lead(logs, name)
        except FencedError:
            self.fenced += 1
        except CorruptLogError as error:
            self.broken.append(f"{self.loop.time():.3f} {name}: {error}")

    async def _lead(self, logs: KafkaShardLogs, name: str) -> None:
        """Take the log over and write, until the cluster refuses for too long."""
        self.epoch += 1
        epoch = self.epoch
        self.table.raise_to("state", 0, epoch)
        confirmed = list(self.confirmed)
        try:
            log = await logs.open("state", 0, epoch)
            loaded = [(each.offset, each.key) async for part in log.replay() for each in part]
            self._loaded(name, log.start_offset, loaded, confirmed)
            await self._write(log, f"{name}-{epoch}")
        except LogFailedError:
            await asyncio.sleep(0.5)

    def _loaded(self, name, start, loaded, confirmed) -> None:
        self.take_overs += 1
        keys = [key for _, key in loaded]
        if len(set(keys)) != len(keys):
            self.broken.append(f"{name} loaded a record twice")
        held = set(keys)
        known = {key: offset for offset, key in self.history.items()}
        missing = [key for key in confirmed if key not in held and known.get(key, start) >= start]
        if missing and (start == 0 or any(key in known for key in missing)):
            self.broken.append(f"{name} loaded {len(keys)} and misses {missing[:3]}")
        self._agrees(name, start, dict(loaded))

    def _agrees(self, name: str, start: int, loaded: dict[int, bytes]) -> None:
        """Where loads overlap they say the same."""
        end = max(loaded, default=start - 1)
        for offset, key in self.history.items():
            if start <= offset <= end and loaded.get(offset) != key:
                self.broken.append(f"{name} loaded {loaded.get(offset)!r} at {offset}, not {key!r}")
        for first, last in self.spans:
            others = [each for each in loaded if first <= each <= last and each not in self.history]
            if others:
                self.broken.append(f"{name} loaded {others[:3]}, which an owner before did not")
        self.history.update(loaded)
        self.spans.append((start, end))

    async def _write(self, log, name: str) -> None:
        number = 0
        while True:
            keys = []
            for _ in range(self.rng.randint(1, 3)):
                number += 1
                keys.append(f"{name}-{number}".encode())
                log.append([LogRecord(keys[-1], bytes(self.rng.randrange(60)))])
            await log.committed(log.end_offset)
            self.confirmed += keys
            if self.rng.random() < PRUNE and log.committed_end_offset > 20:
                await log.delete_before(log.committed_end_offset - 20)
            await asyncio.sleep(self.rng.uniform(0, 0.2))


def _no_base_check() -> None:
    unit_writer.after_answer = lambda stamp, base: UnitCounts(base + stamp.record_count)


def _anew_without_reading() -> None:
    unit_writer.after_reading = lambda stamp, batches, end: StampAnew(end)


def _void_units_replayed() -> None:
    real = judgement.judge

    def judge(batch, log):
        found = real(batch, log)
        is_unit = batch.stamp is not None and batch.stamp.kind is StampKind.UNIT
        return judgement.Judgement.COUNTS if is_unit else found

    judgement.judge = judge


def _compressed_is_void() -> None:
    real = log_partition.read_stamped_batch

    def read(frame, batch):
        found = real(frame, batch)
        return found._replace(stamp=None) if frame.attributes & COMPRESSION_MASK else found

    log_partition.read_stamped_batch = read


MUTANTS = {
    "": lambda: None,
    "confirm without base check": _no_base_check,
    "stamp anew without reading": _anew_without_reading,
    "void units replayed": _void_units_replayed,
    "compressed units are void": _compressed_is_void,
}


def _in_processes(tasks: list[tuple[int, str]]) -> Iterator[tuple]:
    """Run each in a new process: what a mutant replaces stays replaced there.

    Not forked: the test's own process has threads, and a child would wait for their locks.
    """
    with multiprocessing.get_context("spawn").Pool(1, maxtasksperchild=1) as pool:
        yield from pool.imap(_lived, tasks, chunksize=1)


def _lived(task: tuple[int, str]) -> tuple[list[str], int, int, dict[str, int]]:
    seed, mutant = task
    MUTANTS[mutant]()
    owners = Owners(seed)
    owners.loop.run_until_complete(owners.loop.world.start(owners.run()))
    return owners.broken, owners.take_overs, owners.fenced, owners.happened


@pytest.mark.parametrize("seed", [1, 2, 3, 27, 33])
def test_stl_11_what_was_confirmed_is_loaded_by_every_later_owner_once_and_in_order(seed):
    [(broken, take_overs, fenced, happened)] = _in_processes([(seed, "")])
    assert not broken, broken
    assert take_overs > 5
    assert fenced
    assert len(happened) > 5


@pytest.mark.parametrize("mutant", [each for each in MUTANTS if each])
def test_a_writer_or_reader_that_breaks_a_rule_is_found(mutant):
    tasks = [(seed, mutant) for seed in range(1, 9)]
    assert any(found for found, *_ in _in_processes(tasks))
