"""The smallest coordinator: named counters, for tests of the runtime."""

import asyncio
import random
from dataclasses import dataclass

from sharemesh.backends.embedded.settings import LogSettings
from sharemesh.backends.embedded.shard_logs import EmbeddedShardLogs
from sharemesh.ports.shard_log import LogRecord
from sharemesh.runtime.shard_kind import Decision, RuntimeLimits, ShardDefinition, replaying
from sharemesh.runtime.shard_set import ShardSet
from sharemesh.testing.memory_disk import MemoryDisk
from tests.clocks import ManualClock


@dataclass(frozen=True)
class Added:
    name: str
    amount: int


class Counters:
    def __init__(self, shard):
        self.shard = shard
        self.values = {}
        self.offsets = []

    def apply(self, record, offset):
        self.values[record.name] = self.values.get(record.name, 0) + record.amount
        self.offsets.append(offset)


def encode(record):
    return LogRecord(record.name.encode(), str(record.amount).encode())


def decode(stored):
    if stored.key == b"unknown":
        return None
    return Added(stored.key.decode(), int(stored.value))


KIND = ShardDefinition(name="counters", new_machine=Counters, encode=encode, load=replaying(decode))


def add(*pairs):
    """Add amounts to names, all or none; the answer is the new values."""

    def decide(machine):
        return Decision(
            [Added(name, amount) for name, amount in pairs],
            [machine.values.get(name, 0) + amount for name, amount in pairs],
        )

    return decide


def values(machine):
    return dict(machine.values)


class GatedDisk(MemoryDisk):
    """Jobs wait while the gate is closed."""

    def __init__(self, seed=1):
        super().__init__(random.Random(seed))
        self.gate = asyncio.Event()
        self.gate.set()

    async def run(self, job):
        await self.gate.wait()
        return await super().run(job)


class Bench:
    """A disk, a clock, and shard sets on them."""

    def __init__(self, seed=1):
        self.disk = GatedDisk(seed)
        self.clock = ManualClock()
        self.ended = []
        self.sets = []

    def shards(self, on_loaded=None, **limits):
        made = ShardSet(
            KIND,
            EmbeddedShardLogs(self.disk, self.clock, LogSettings()),
            self.clock,
            RuntimeLimits(**limits),
            on_loaded=on_loaded,
        )
        made.on_ended(self.ended.append)
        self.sets.append(made)
        return made

    async def close(self):
        self.disk.gate.set()
        for each in self.sets:
            await each.close()


async def settle(rounds=50):
    for _ in range(rounds):
        await asyncio.sleep(0)
