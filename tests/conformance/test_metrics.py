"""Section T, metrics: what operators of Kafka know, with Kafka's meaning."""

import asyncio

from sharemesh.domain.errors import ErrorCode
from sharemesh.domain.ids import MemberId, SharePartitionKey, TopicPartition
from sharemesh.domain.share_partition.effects import WriteState
from sharemesh.domain.share_partition.events import (
    Acquire,
    AcquireMode,
    Initialize,
    LogBatch,
    StateRead,
    StateWritten,
    Tick,
)
from sharemesh.domain.share_partition.machine import SharePartition
from sharemesh.share_leader.telemetry.partition_telemetry import PartitionTelemetry
from sharemesh.telemetry import names
from sharemesh.telemetry.telemetry import without_export
from tests.conformance.scenario import scenario
from tests.conformance.world import KAFKAS
from tests.share_leader.world import FOO, acquired, world

KEY = SharePartitionKey("g", FOO, 0)


class Watched:
    """A machine whose every step is seen by the watch, as its shell does it."""

    def __init__(self):
        self.telemetry = without_export(lambda: 0)
        self.watch = PartitionTelemetry(self.telemetry, KEY, "foo", 1)
        self.machine = SharePartition(KEY, 1, KAFKAS)
        self.step(Initialize())
        self.step(StateRead(ErrorCode.NONE, state_epoch=1, start_offset=0))

    def step(self, event, now_ms=0):
        effects = self.machine.step(event, now_ms=now_ms)
        self.watch.saw(event, effects)
        for effect in effects:
            if isinstance(effect, WriteState):
                self.step(StateWritten(effect.write_id), now_ms)

    def acquire(self, first, last, now_ms=0):
        batches = (LogBatch(first, last),)
        mode, count = AcquireMode.BATCH_OPTIMIZED, last - first + 1
        event = Acquire(first + 1, MemberId("m"), mode, count, count, first, batches)
        self.step(event, now_ms)


@scenario("MET-S01")
def test_records_whose_lock_expired_are_counted():
    watched = Watched()
    watched.acquire(0, 9)
    watched.acquire(10, 14)
    expired = watched.telemetry.registry.counter(names.LOCKS_EXPIRED, "g", "foo", "")
    watched.step(Tick(), now_ms=29_999)
    assert expired.value == 0
    watched.step(Tick(), now_ms=30_000)
    assert expired.value == 15


@scenario("MET-S03")
async def test_the_share_of_partitions_that_a_fetch_could_lock():
    async with world() as w:
        partitions = [TopicPartition(FOO, number) for number in range(4)]
        await w.configure("g", auto_offset_reset="earliest")
        for partition in partitions:
            await w.lead(partition)
            await w.produce(partition, 5)
        client = w.client()
        await client.join(*partitions)
        for partition in partitions[:2]:  # another fetch is at work there
            assert w.runner(partition).try_lock("another fetch")
        fetched = await asyncio.wait_for(client.fetch(), timeout=5)
        assert [bool(acquired(fetched, p)) for p in partitions] == [False, False, True, True]
        locked = w.service.telemetry.registry.histogram(names.FETCH_PARTITIONS_LOCKED, "g")
        assert (locked.count, locked.total) == (1, 50)
