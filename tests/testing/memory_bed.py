"""Three brokers in memory in virtual time, and what their logs hold."""

import asyncio
from contextlib import closing
from random import Random

import pytest

from sharemesh.codec.batch_frame import walk_frames
from sharemesh.codec.record_set import decode_records
from sharemesh.ports.brokers import (
    BrokerPartition,
    BrokerRefusedError,
    BrokerUnreachableError,
    NewBrokerTopic,
)
from sharemesh.testing.memory_brokers import MemoryCluster
from tests.contract.broker_fillings import batch_of
from tests.simulation.brokers import SimSchedule
from tests.simulation.loop import SimClock, SimLoop

FAILED = (BrokerRefusedError, BrokerUnreachableError)


class Bed:
    """Three brokers in virtual time, and one topic of three replicas."""

    def __init__(self, loop: SimLoop, seed: int = 7, min_in_sync: str = "2") -> None:
        self.loop = loop
        self.cluster = MemoryCluster(SimClock(loop), Random(seed), schedule=SimSchedule(loop))
        configs = {"min.insync.replicas": min_in_sync}
        topic_id = self.cluster.create(NewBrokerTopic("t", 1, 3, configs))
        self.place = BrokerPartition(topic_id, "t", 0)
        self.client = self.cluster.client()

    async def put(self, value: bytes = b"x", timeout_ms: int = 1_000) -> int:
        produced = await self.client.produce(self.place, batch_of(value), timeout_ms=timeout_ms)
        return produced.base_offset

    async def read(self) -> list[bytes]:
        fetched = await self.again(lambda: self.client.fetch(self.place, 0, max_bytes=1 << 20))
        return values(fetched.records)

    async def again(self, call):
        """Repeat what is refused or unanswered."""
        for _ in range(100):
            try:
                return await call()
            except FAILED:
                await asyncio.sleep(0.1)
        pytest.fail("refused for ten seconds")

    def leader(self):
        return self.cluster.leader("t")


def values(data: bytes) -> list[bytes]:
    found, position = [], 0
    while position < len(data):  # a walk ends where compaction left a hole between batches
        walk = walk_frames(
            data[position:],
            start=position,
            limit=len(data),
            base_offset=None,
            leader_epoch=None,
            check_crc=True,
        )
        assert walk.frames, walk.problem
        for frame in walk.frames:
            records = decode_records(data[frame.position : frame.position + frame.size_bytes])
            found += [record.value for record in records]
        position = walk.position
    return found


def simulated(test, **options):
    """Run a test in virtual time."""
    loop = SimLoop(Random(1))
    with closing(loop):
        loop.run_until_complete(loop.world.start(test(Bed(loop, **options))))


async def refusal_of(work) -> int:
    with pytest.raises(BrokerRefusedError) as caught:
        await work
    return caught.value.code


def frames(bed, broker_id=None):
    """Return (first offset, end offset, offsets of the records) of each batch at a broker."""
    broker = bed.cluster.brokers[bed.leader() if broker_id is None else broker_id]
    batches = broker.replicas[bed.place.topic_id, 0].log.batches(0)
    return [
        (each.base_offset, each.end_offset, [r.offset for r in decode_records(each.data)])
        for each in batches
    ]
