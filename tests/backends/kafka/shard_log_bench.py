"""A shard log over one broker whose answers a test decides."""

import asyncio

from sharemesh.backends.kafka.shard_logs.coordinator_topics import CoordinatorTopic
from sharemesh.backends.kafka.shard_logs.settings import StampedLogSettings
from sharemesh.backends.local.coordination_store import LocalStore
from sharemesh.codec.batch_frame import walk_frames
from sharemesh.codec.log_stamp import (
    log_identity,
    read_stamped_batch,
)
from sharemesh.codec.record_set import build_batch
from sharemesh.ports.brokers import (
    BrokerUnreachableError,
)
from sharemesh.ports.shard_log import LogRecord
from tests.backends.kafka.one_broker import TOPIC_ID, OneBroker
from tests.backends.kafka.owned_logs import OwnedKafkaLogs
from tests.clocks import ManualClock

LOG = log_identity("mesh/kafka", TOPIC_ID, 0, 0)
LOST = BrokerUnreachableError("broker 1: the connection was lost")


class Bench:
    """A log over one broker, with time that moves when told."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.brokers = OneBroker()
        self.store = LocalStore(self.clock)
        self.logs = self.other_process()

    def other_process(self, seed: int = 1, **settings) -> OwnedKafkaLogs:
        topics = {name: CoordinatorTopic(name, TOPIC_ID) for name in ("state", "group")}
        bounds = StampedLogSettings(**settings)
        return OwnedKafkaLogs(self.brokers, topics, self.clock, bounds, seed=seed, store=self.store)

    @property
    def table(self):
        return self.logs.table

    async def open(self, epoch: int = 1, logs: OwnedKafkaLogs | None = None):
        return await self.logs_open(logs or self.logs, epoch)

    async def logs_open(self, logs, epoch):
        return await self.run(logs.open("state", 0, epoch))

    async def run(self, work):
        """Let time pass until the work is done."""
        task = asyncio.ensure_future(work)
        for _ in range(3_000):
            await self.clock.settle(5)
            if task.done():
                break
            await self.clock.advance(50)
        return await task

    def write(self, batch: bytes) -> int:
        """Somebody else writes."""
        return self.brokers.log().append(batch)

    def stamps(self) -> list:
        """Return what each batch in the log says of itself."""
        found = []
        for batch in self.brokers.log().batches:
            walk = walk_frames(
                batch, start=0, limit=1 << 40, base_offset=None, leader_epoch=None, check_crc=True
            )
            found.append(read_stamped_batch(walk.frames[0], batch))
        return found


def record(key: str, size: int = 1) -> LogRecord:
    return LogRecord(key.encode(), bytes(size))


async def keys_of(bench, log, from_offset=None) -> list[bytes]:
    async def read():
        return [record.key async for chunk in log.replay(from_offset) for record in chunk]

    return await bench.run(read())


async def put(bench, log, *keys: str) -> None:
    log.append([record(key) for key in keys])
    await bench.run(log.committed(log.end_offset))


def junk(count: int = 1) -> bytes:
    return bytes(build_batch([(b"j", b"junk", [])] * count, timestamp_ms=1))
