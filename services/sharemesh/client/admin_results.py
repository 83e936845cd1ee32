"""What the admin client returns."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple


class TopicPartition(NamedTuple):
    """One partition of a topic, by name."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}/{self.partition}"


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to create; ``configs`` are Kafka's topic configs."""

    name: str
    partitions: int = 1
    configs: Mapping[str, str | int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PartitionDescription:
    """One partition; ``leader_id`` is empty while it has no leader."""

    partition: int
    leader_id: str
    leader_epoch: int
    standbys: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TopicDescription:
    """One topic; ``topic_id`` in hexadecimal digits."""

    name: str
    topic_id: str
    partitions: tuple[PartitionDescription, ...]
    configs: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class GroupListing:
    """One group; type ``share``, state ``Empty``, ``Stable`` or ``Dead``."""

    group_id: str
    group_type: str
    state: str


@dataclass(frozen=True, slots=True)
class MemberDescription:
    """One member and its assignment, partitions by topic name."""

    member_id: str
    client_id: str
    client_host: str
    rack_id: str
    member_epoch: int
    subscribed_topics: tuple[str, ...]
    assignment: Mapping[str, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """One share group; ``paused``: leaders deliver nothing more to it (spec PAU-1)."""

    group_id: str
    state: str
    group_epoch: int
    assignment_epoch: int
    assignor: str
    coordinator_id: str
    members: tuple[MemberDescription, ...]
    paused: bool = False


@dataclass(frozen=True, slots=True)
class GroupOffset:
    """Where a group stands in a partition; ``lag`` counts records not finished, -1 unknown.

    ``archived`` counts the records that the group gave up since ``archived_since_ms``, by cause
    (DELIVERY_LIMIT, REJECT, GAP, ...); both are None if that is not known.
    """

    start_offset: int
    leader_epoch: int
    lag: int
    archived: Mapping[str, int] | None = None
    archived_since_ms: int | None = None


@dataclass(frozen=True, slots=True)
class LogOffset:
    """Answer of ``list_offsets``: an offset (-1: none), its timestamp in ms (-1: none)."""

    offset: int
    timestamp_ms: int
    leader_epoch: int


@dataclass(frozen=True, slots=True)
class TransactionListing:
    """A transaction that has no end yet; ``open_ms`` is how long the leader knows of it."""

    producer_id: int
    producer_epoch: int
    start_offset: int
    open_ms: int


@dataclass(frozen=True, slots=True)
class ConfigValue:
    """One configuration; source ``default``, ``cluster``, ``topic`` or ``group``."""

    name: str
    value: str | None
    source: str
    documentation: str


@dataclass(frozen=True, slots=True)
class MemberNode:
    """One running process of the cluster."""

    node_id: str
    address: str
    role: str
    rack: str
    version: str
    draining: bool
    led_partitions: int
    pid: int


@dataclass(frozen=True, slots=True)
class AcceptedLoss:
    """A loss of a coordinator shard that was given up: of ``confirmed`` commits ``left`` exist."""

    shard: str
    confirmed: int
    left: int


@dataclass(frozen=True, slots=True)
class ShardDescription:
    """Who leads one coordinator shard, since which epoch."""

    election: str
    leader_id: str
    epoch: int
    reason: str = ""  # why nobody leads it


@dataclass(frozen=True, slots=True)
class PartitionMove:
    """A partition that moves from one live leader to another; the old one drains first."""

    partition: TopicPartition
    from_node_id: str
    to_node_id: str
    leader_epoch: int


@dataclass(frozen=True, slots=True)
class PartitionPlace:
    """Who leads a partition (empty: nobody, epoch -1) and who stands by, first one first."""

    partition: TopicPartition
    leader_id: str
    leader_epoch: int
    standbys: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ClusterDescription:
    """The cluster: processes, shards, moves, partitions without a leader and why.

    ``partitions`` is empty unless they were asked for. ``storage_problems`` says what is wrong with
    the two topics of a cluster whose records are in a Kafka cluster.
    """

    cluster_id: str
    controller_id: str
    nodes: tuple[MemberNode, ...]
    shards: tuple[ShardDescription, ...]
    unassigned: tuple[tuple[TopicPartition, str], ...]
    moves: tuple[PartitionMove, ...] = ()
    partitions: tuple[PartitionPlace, ...] = ()
    storage_problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RecordEvent:
    """One change of a record for a group, as it was made durable.

    Without ``delivery_state`` its share partition began or ended, or the start offset passed it;
    ``start_offset`` is the one after it, None if it was not said. ``not_before_ms`` is when a
    record that was released with a delay may be delivered again, ``acquired_at_ms`` when the
    delivery that ended so had begun.
    """

    timestamp_ms: int
    cause: str
    member_id: str
    delivery_state: str
    delivery_count: int | None
    start_offset: int | None
    log_offset: int
    trace_id: str
    span_id: str
    not_before_ms: int | None = None
    acquired_at_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a record is, or is not, being delivered to a group; offsets of the share partition.

    A number that is not known is None. ``last_cause`` is what was made durable last for it, as far
    as its leader remembers, ``trace_id`` and ``span_id`` (hexadecimal digits) are where; while it
    is locked, those of its acquisition. ``events`` are its changes that are still in the share
    state log, oldest first; before ``events_from_ms`` some may be missing (None: none is), and
    ``events_note`` says so in words.
    """

    delivery_state: str
    delivery_count: int | None
    member_id: str
    lock_remaining_ms: int | None
    reason: str
    explanation: str
    start_offset: int | None
    end_offset: int | None
    next_fetch_offset: int | None
    high_watermark: int | None
    leader_epoch: int | None
    state_epoch: int | None
    last_cause: str
    trace_id: str
    span_id: str
    events: tuple[RecordEvent, ...] = ()
    events_note: str = ""
    events_from_ms: int | None = None
    delay_remaining_ms: int | None = None
