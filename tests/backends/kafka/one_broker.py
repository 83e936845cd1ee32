"""One broker that keeps whatever it is given, and fails as a test has written down."""

import asyncio
from collections.abc import Callable

from sharemesh.codec.batch_frame import frame_of, frame_start, place_frame
from sharemesh.domain.ids import TopicId
from sharemesh.ports.brokers import (
    BrokerPartition,
    BrokerRefusedError,
    BrokerUnreachableError,
    ClusterMetadata,
    FetchedRecords,
    FoundOffset,
    ProducedBatch,
    TopicMetadata,
)

TOPIC_ID = TopicId(bytes(range(16)))
LEADER_EPOCH = 5


class StoredLog:
    """The batches of one partition."""

    def __init__(self) -> None:
        self.batches: list[bytes] = []
        self.start = 0

    @property
    def end(self) -> int:
        return self._end_of(self.batches[-1]) if self.batches else 0

    def append(self, batch: bytes) -> int:
        placed = bytearray(batch)
        base = self.end
        place_frame(placed, base, LEADER_EPOCH)
        self.batches.append(bytes(placed))
        return base

    def read(self, offset: int, max_bytes: int) -> bytes:
        found = bytearray()
        for batch in self.batches:
            if self._end_of(batch) <= offset:
                continue
            if found and len(found) + len(batch) > max_bytes:
                return bytes(found + batch[: max_bytes - len(found)])  # the last one is cut
            found += batch
        return bytes(found)

    @staticmethod
    def _end_of(batch: bytes) -> int:
        return frame_of(batch, frame_start(batch, 0)).end_offset


class OneBroker:
    """Fills the part of ``Brokers`` that the stamped log asks.

    ``script`` holds what happens to the next writes: None (all is well), an exception to raise
    instead, "answer lost", or a function that is called before the write.
    """

    def __init__(self) -> None:
        self.logs: dict[tuple[str, int], StoredLog] = {}
        self.script: list[object] = []
        self.produced: list[bytes] = []
        self.deletions: list[int] = []
        self.read_failures: list[Exception] = []
        self.topic_ids: dict[str, TopicId] = {}
        self.topic_errors: list[int] = []
        self.delete_error: Exception | None = None

    def log(self, topic: str = "state", partition: int = 0) -> StoredLog:
        return self.logs.setdefault((topic, partition), StoredLog())

    async def metadata(self, topics=(), *, topic_ids=()) -> ClusterMetadata:
        await asyncio.sleep(0)
        error = self.topic_errors.pop(0) if self.topic_errors else 0
        found = [
            TopicMetadata(name, self.topic_ids.get(name, TOPIC_ID), error=error) for name in topics
        ]
        return ClusterMetadata("kafka", 1, (), tuple(found), 1)

    async def produce(self, partition: BrokerPartition, batch: bytes, *, timeout_ms, lane):
        await asyncio.sleep(0)
        self.produced.append(batch)
        step = self.script.pop(0) if self.script else None
        if isinstance(step, Exception):
            raise step
        if isinstance(step, Callable):
            await step()
        base = self.log(partition.topic, partition.partition).append(batch)
        if step == "answer lost":
            raise BrokerUnreachableError("broker 1: the connection was lost")
        return ProducedBatch(base)

    async def fetch(self, partition: BrokerPartition, offset: int, *, max_bytes, max_wait_ms):
        await asyncio.sleep(0)
        if self.read_failures:
            raise self.read_failures.pop(0)
        log = self.log(partition.topic, partition.partition)
        if not log.start <= offset <= log.end:
            raise BrokerRefusedError(1, "OFFSET_OUT_OF_RANGE")
        return FetchedRecords(log.read(offset, max_bytes), log.end, log.end, log.start)

    async def list_offset(self, partition: BrokerPartition, timestamp_ms: int) -> FoundOffset:
        await asyncio.sleep(0)
        return FoundOffset(self.log(partition.topic, partition.partition).start)

    async def delete_records(self, partition: BrokerPartition, before_offset, *, timeout_ms):
        await asyncio.sleep(0)
        if self.delete_error is not None:
            raise self.delete_error
        self.deletions.append(before_offset)
        log = self.log(partition.topic, partition.partition)
        log.start = max(log.start, before_offset)
        return log.start
