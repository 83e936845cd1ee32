"""The share state log where it is a topic: every unit judged, and folded by the domain's rules."""

import asyncio
import random
import struct
from collections import defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import NamedTuple

from sharemesh.backends.kafka.shard_logs.log_counts import StampedLogCounts
from sharemesh.backends.kafka.shard_logs.log_partition import LogPartition
from sharemesh.backends.kafka.shard_logs.settings import StampedLogSettings
from sharemesh.backends.local.clock import SystemClock
from sharemesh.cluster.store.storage_record import StorageRecord
from sharemesh.codec.log_stamp import log_identity
from sharemesh.codec.plain_batch import plain_batch
from sharemesh.codec.record_set import decode_records_as
from sharemesh.codec.state_record import decode_record
from sharemesh.domain.delivery_state import DeliveryState
from sharemesh.domain.ids import TopicId
from sharemesh.domain.share_state.records import StateSnapshot, StateUpdate
from sharemesh.domain.stamped_log.judgement import Judgement
from sharemesh.domain.stamped_log.stamp import StampedBatch
from sharemesh.kafka.brokers_client import KafkaBrokers
from sharemesh.kafka.dialing import Dialing
from sharemesh.ports.brokers import LATEST_TIMESTAMP, BrokerPartition, Brokers
from sharemesh.ports.shard_log import LogRecord
from sharemesh.serve.storage.kafka import coordinator_topics
from tests.mesh.outcome import FINAL_STATES, DurableState
from tests.mesh.state_timeline import LoggedState
from tests.spark.reference_fold import DomainFold

PATIENCE_MS = 60_000
_MAX_TIMESTAMP_AT = 35  # in a record batch; with LogAppendTime a broker's own


class LoggedBatch(NamedTuple):
    """One batch of a shard, whether it counts, and when (wall time) a broker appended it."""

    header: StampedBatch
    judgement: Judgement
    appended_ms: float


@dataclass(slots=True)
class ShardContent:
    """One shard: what counts from the declared start on, and what does not."""

    begins: int = 0
    records: list[LoggedState] = field(default_factory=list)
    batches: list[LoggedBatch] = field(default_factory=list)

    @property
    def units(self) -> int:
        """How many batches count."""
        return self._count(Judgement.COUNTS)

    @property
    def fences(self) -> int:
        """How many are marks of take-overs."""
        return self._count(Judgement.FENCE)

    @property
    def void(self) -> int:
        """How many are passed over."""
        return self._count(Judgement.VOID)

    def _count(self, judgement: Judgement) -> int:
        return sum(each.judgement is judgement for each in self.batches)

    def dump(self, ahead_ms: float) -> Iterator[str]:
        """Yield a line for each batch; ``ahead_ms`` is wall time less that of journals."""
        for header, judgement, appended_ms in self.batches:
            stamp = header.stamp
            told = (
                "no stamp"
                if stamp is None
                else (
                    f"expects {stamp.expected}, epoch {stamp.epoch}, writer {stamp.writer:016x}, "
                    f"number {stamp.number}, start {stamp.start}"
                )
            )
            yield (
                f"{appended_ms - ahead_ms:.0f} {header.base_offset}-{header.end_offset - 1} "
                f"{judgement.name} {told}"
            )


@dataclass(frozen=True, slots=True)
class KafkaStateLog:
    """Where the state log of a cluster lies."""

    bootstrap: str
    cluster_id: str
    storage: StorageRecord

    def read(self) -> list[ShardContent]:
        """Return every shard, also where a loop runs already.

        Raises:
            CorruptLogError: A log is not what its writers made of it.
        """
        with ThreadPoolExecutor(1) as beside:
            return beside.submit(asyncio.run, self._read()).result()

    async def _read(self) -> list[ShardContent]:
        brokers = KafkaBrokers(self.bootstrap.split(","), Dialing(SystemClock()), random.Random(1))
        try:
            return [await self._shard(brokers, n) for n in range(self.storage.state_shards)]
        finally:
            await brokers.close()

    async def _shard(self, brokers: Brokers, shard: int) -> ShardContent:
        topics = coordinator_topics(self.cluster_id, self.storage)
        topic = topics.topics["state"]
        place = BrokerPartition(topic.topic_id, topic.topic, shard)
        log = log_identity(
            f"{topics.cluster_id}/{topics.kafka_cluster_id}",
            topic.topic_id,
            shard,
            topics.incarnation,
        )
        partition = LogPartition(
            brokers,
            place,
            log,
            SystemClock(),
            random.Random(shard),
            StampedLogSettings(),
            _ours,
            counts=StampedLogCounts(),
        )
        begin = await partition.log_start(PATIENCE_MS)
        end = (await brokers.list_offset(place, LATEST_TIMESTAMP)).offset
        content = ShardContent()
        async for window in partition.read(begin, end, PATIENCE_MS):
            for batch in window:
                (appended_ms,) = struct.unpack_from(">q", batch.data, _MAX_TIMESTAMP_AT)
                content.batches.append(LoggedBatch(batch.header, batch.judgement, appended_ms))
                if batch.judgement is Judgement.COUNTS:
                    content.begins = batch.header.stamp.start
                    content.records += _decoded(batch.data, appended_ms)
        content.records = [each for each in content.records if each.offset >= content.begins]
        return content


async def _ours() -> None:
    """A reader owns nothing, so nobody can take it away."""


def _decoded(batch: memoryview, appended_ms: float) -> list[LoggedState]:
    found = []
    for record in decode_records_as(plain_batch(batch), LogRecord):
        if record.key is not None:
            decoded = decode_record(record.key, record.value)
            if decoded is not None:
                found.append(LoggedState(record.offset, decoded, appended_ms))
    return found


def kafka_durable_state(
    shards: Sequence[ShardContent], group_id: str, topic: str, topic_id: TopicId
) -> DurableState:
    """Return what the shards fold to.

    Where a log was pruned, what lies below a start offset counts as acknowledged.
    """
    start_offsets: dict[str, int] = {}
    terminal: dict[str, set[int]] = defaultdict(set)
    acknowledged: set[tuple[str, int]] = set()
    archived: set[tuple[str, int]] = set()
    for content in shards:
        folded = DomainFold()
        for offset, record, _ in content.records:
            folded.add(offset, record)
            if not isinstance(record, StateUpdate | StateSnapshot):
                continue
            if record.key.group_id != group_id or record.key.topic_id != topic_id:
                continue
            changed = record.batches
            if isinstance(record, StateSnapshot):
                changed = record.changed or record.batches
            for batch in changed:
                if batch.delivery_state in FINAL_STATES:
                    is_archived = batch.delivery_state is DeliveryState.ARCHIVED
                    (archived if is_archived else acknowledged).update(
                        (f"{topic}/{record.key.partition}", each)
                        for each in range(batch.first_offset, batch.last_offset + 1)
                    )
        for key, state in folded.states.items():
            if key.group_id != group_id or key.topic_id != topic_id:
                continue
            partition = f"{topic}/{key.partition}"
            start_offsets[partition] = state.start_offset
            if content.begins:
                below = {(partition, each) for each in range(state.start_offset)}
                acknowledged |= below - archived
            for batch in state.batches:
                if batch.delivery_state in FINAL_STATES:
                    terminal[partition].update(range(batch.first_offset, batch.last_offset + 1))
    return DurableState(start_offsets, terminal, acknowledged, archived)
