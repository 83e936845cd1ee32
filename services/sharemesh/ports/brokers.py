"""What a Kafka-compatible cluster is asked for, as values: one try a call, no repetition here.

A filling finds the leader of a partition and sends the request to it, with the leader epoch that
it knows. What it learned of a leader is forgotten after each refusal or lost answer, so that the
next try asks anew.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, IntEnum
from typing import Protocol

from sharemesh.domain.ids import TopicId

EARLIEST_TIMESTAMP = -2
LATEST_TIMESTAMP = -1
NO_TOPIC_ID = TopicId(bytes(16))
"""What a cluster without topic ids answers."""


class BrokerRefusedError(Exception):
    """A broker answered with an error: nothing was done, or, where ``may_be_done``, perhaps.

    With ``sent=False`` metadata refused it, before the request itself was sent.

    Attributes:
        code: Kafka's error code; it may be one that ``domain.errors`` does not name.
        name: The code's name in Kafka, upper case.
        may_be_done: A write that was refused so may lie in the log nevertheless.
    """

    def __init__(self, code: int, name: str, detail: str = "", *, sent: bool = True) -> None:
        super().__init__(f"{name}: {detail}" if detail else name)
        self.code = code
        self.name = name
        self.may_be_done = sent and code in _MAY_BE_DONE


class BrokerUnreachableError(Exception):
    """No answer: what was sent may be done, even later. The message names broker and cause."""


class UnsupportedRequestError(Exception):
    """The cluster does not offer this request in a version that is spoken here."""


_MAY_BE_DONE = frozenset({-1, 3, 6, 7, 20, 56})
"""What a write may be answered after the leader appended it, while replicas were waited for.

UNKNOWN_SERVER_ERROR, UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER, REQUEST_TIMED_OUT,
NOT_ENOUGH_REPLICAS_AFTER_APPEND, KAFKA_STORAGE_ERROR.
"""


class BrokerLane(Enum):
    """Connections of their own, because a broker serves one request of a connection at a time."""

    WATCH = "watch"
    READ = "read"
    PRODUCE = "produce"
    CONTROL = "control"
    SHARD = "shard"  # one connection for each partition: acks=all of one does not hold up another


class Isolation(IntEnum):
    """Which records a fetch may see."""

    READ_UNCOMMITTED = 0
    READ_COMMITTED = 1


@dataclass(frozen=True, slots=True)
class BrokerPartition:
    """A partition of a topic of the cluster; the id decides, the name is for old versions."""

    topic_id: TopicId
    topic: str
    partition: int


@dataclass(frozen=True, slots=True)
class BrokerAddress:
    """One broker as its listener advertises it."""

    broker_id: int
    host: str
    port: int
    rack: str = ""


@dataclass(frozen=True, slots=True)
class PartitionMetadata:
    """Where a partition lies; ``leader`` is −1 while there is none."""

    partition: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...] = ()
    in_sync: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class TopicMetadata:
    """One topic that was asked for: its partitions, or why there are none.

    ``error`` is Kafka's code (0: none); ``topic_id`` is ``NO_TOPIC_ID`` where ids are unknown.
    """

    topic: str
    topic_id: TopicId
    partitions: tuple[PartitionMetadata, ...] = ()
    is_internal: bool = False
    error: int = 0


@dataclass(frozen=True, slots=True)
class ClusterMetadata:
    """An answer of one broker, which may be out of date."""

    cluster_id: str
    controller: int
    brokers: tuple[BrokerAddress, ...]
    topics: tuple[TopicMetadata, ...]
    answered_by: int = -1


@dataclass(frozen=True, slots=True)
class ProducedBatch:
    """Where a batch lies; ``base_offset`` −1: written, and the broker does not say where."""

    base_offset: int
    log_append_time_ms: int = -1
    log_start_offset: int = -1


@dataclass(frozen=True, slots=True)
class AbortedRange:
    """Records of this producer from ``first_offset`` to its abort marker are not to be seen."""

    producer_id: int
    first_offset: int


@dataclass(frozen=True, slots=True)
class FetchedRecords:
    """Bytes of record batches as they are stored: the first may begin below the offset asked for.

    The last batch may be cut. ``diverging`` is (epoch, end offset) where the log of the leader
    ends for the epoch that was named as the last one read: what lies above was lost.
    ``preferred_replica`` names a broker to read from, or is −1.
    """

    records: bytes
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    aborted: tuple[AbortedRange, ...] = ()
    diverging: tuple[int, int] | None = None
    leader_epoch: int = -1
    preferred_replica: int = -1


@dataclass(frozen=True, slots=True)
class WatchedPartition:
    """What a watch asks of one partition."""

    partition: BrokerPartition
    offset: int
    max_bytes: int
    last_fetched_epoch: int = -1


@dataclass(frozen=True, slots=True)
class WatchAnswer:
    """What is new of one watched partition: records, or the error that Kafka gave for it."""

    partition: BrokerPartition
    fetched: FetchedRecords | None
    error: int = 0


@dataclass(frozen=True, slots=True)
class FoundOffset:
    """The answer to a time: offset −1 where there is no such record."""

    offset: int
    timestamp_ms: int = -1
    leader_epoch: int = -1


@dataclass(frozen=True, slots=True)
class NewBrokerTopic:
    """A topic to create."""

    topic: str
    partitions: int
    replication_factor: int
    configs: Mapping[str, str] = field(default_factory=dict)


class BrokerWatch(Protocol):
    """An incremental fetch session (KIP-227) with every broker that leads a watched partition."""

    def set(self, partitions: Sequence[WatchedPartition]) -> None:
        """Watch exactly these from the next poll on; cheap where little changed."""
        ...

    async def poll(self, max_wait_ms: int) -> Sequence[WatchAnswer]:
        """Return what is new, at the latest after the wait (then perhaps nothing).

        Partitions whose leader cannot be asked come back with an error, and are asked again by
        later polls; while it lasts it is told again each 10 s. It never raises for a single broker.
        """
        ...

    async def close(self) -> None:
        """End the sessions; repeating it is fine."""
        ...


class Brokers(Protocol):
    """A cluster of brokers. Every call raises the three errors above unless it says otherwise."""

    async def metadata(
        self, topics: Sequence[str] = (), *, topic_ids: Sequence[TopicId] = ()
    ) -> ClusterMetadata:
        """Ask one broker (another one each time) for these topics; none: for the brokers only.

        Topics are never created by it.
        """
        ...

    async def produce(
        self,
        partition: BrokerPartition,
        batch: bytes,
        *,
        timeout_ms: int,
        lane: BrokerLane = BrokerLane.PRODUCE,
    ) -> ProducedBatch:
        """Append one record batch with acks=all."""
        ...

    async def fetch(
        self,
        partition: BrokerPartition,
        offset: int,
        *,
        max_bytes: int,
        max_wait_ms: int = 0,
        isolation: Isolation = Isolation.READ_UNCOMMITTED,
        last_fetched_epoch: int = -1,
    ) -> FetchedRecords:
        """Read from the batch that holds ``offset``, at least one whole batch if there is one."""
        ...

    def watch(self) -> BrokerWatch:
        """Return a new watch over no partition."""
        ...

    async def list_offset(
        self,
        partition: BrokerPartition,
        timestamp_ms: int,
        *,
        isolation: Isolation = Isolation.READ_UNCOMMITTED,
    ) -> FoundOffset:
        """Return the first offset at or after a time, or EARLIEST_TIMESTAMP, LATEST_TIMESTAMP.

        LATEST_TIMESTAMP is the high watermark, with READ_COMMITTED the last stable offset.
        """
        ...

    async def end_offset_of_epoch(
        self, partition: BrokerPartition, leader_epoch: int
    ) -> tuple[int, int]:
        """Return (epoch, end offset) of the largest epoch at most ``leader_epoch`` (KIP-320)."""
        ...

    async def delete_records(
        self, partition: BrokerPartition, before_offset: int, *, timeout_ms: int
    ) -> int:
        """Move the log start (−1: to the high watermark); return the new one."""
        ...

    async def create_topic(self, topic: NewBrokerTopic, *, timeout_ms: int) -> None:
        """Create one topic."""
        ...

    async def create_partitions(self, topic: str, partitions: int, *, timeout_ms: int) -> None:
        """Let a topic grow to that many partitions."""
        ...

    async def delete_topic(self, topic: str, *, timeout_ms: int) -> None:
        """Delete a topic."""
        ...

    async def topic_configs(self, topic: str) -> Mapping[str, str]:
        """Return the effective settings of a topic, sensitive ones left out."""
        ...

    async def alter_topic_configs(self, topic: str, changes: Mapping[str, str | None]) -> None:
        """Set settings of a topic; None takes one back to its default."""
        ...

    async def new_producer_id(self) -> tuple[int, int]:
        """Return (id, epoch) of a new idempotent producer."""
        ...

    async def close(self) -> None:
        """Close every connection; calls under way end with BrokerUnreachableError."""
        ...
