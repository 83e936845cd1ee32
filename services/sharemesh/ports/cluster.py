"""What a service knows of the cluster, and what the cluster's bookkeeping asks of a service."""

from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from sharemesh.domain.group_config import GroupConfig
from sharemesh.domain.ids import GroupId, NodeId, SharePartitionKey, TopicId, TopicPartition


class Role(StrEnum):
    """What a process does."""

    GROUP_COORDINATOR = "group-coordinator"
    SHARE_LEADER = "share-leader"
    SHARE_COORDINATOR = "share-coordinator"
    CONTROLLER = "controller"


KAFKA_ROLES = (Role.SHARE_LEADER, Role.GROUP_COORDINATOR)
"""Whom clients of Kafka talk to: these processes listen for them, in the order of their ports."""


@dataclass(frozen=True, slots=True)
class KafkaEndpoint:
    """Where clients of Kafka reach a process, and its number there, which it keeps for ever."""

    number: int
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class NodeInfo:
    """A registered process; ``host:port`` is the advertised address."""

    node_id: NodeId
    host: str
    port: int
    roles: tuple[Role, ...]
    rack: str = ""
    version: str = ""
    draining: bool = False
    pid: int = 0
    kafka: KafkaEndpoint | None = None

    @property
    def address(self) -> str:
        """Where clients and other nodes reach it."""
        return f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class TopicInfo:
    """One topic; partitions are numbered from 0."""

    name: str
    topic_id: TopicId
    partitions: int
    configs: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class PartitionLeader:
    """Who holds the claim on a topic-partition now."""

    node: NodeInfo
    leader_epoch: int


class ShardKind(StrEnum):
    """What a coordinator shard holds; the value begins its election's name (``group-7``)."""

    GROUP = "group"
    STATE = "state"


@dataclass(frozen=True, slots=True)
class ShardLeader:
    """One coordinator shard; ``node`` is None between leaders, ``epoch`` 0 before the first."""

    kind: ShardKind
    shard: int
    node: NodeInfo | None
    epoch: int
    loss: str = ""
    """Confirmed records of its log that are lost, and what to do; empty if none is known."""
    damage: str = ""
    """Why its log could not be read when it was last taken over; empty if it could."""

    @property
    def election(self) -> str:
        """The name of its election, for example ``state-3``."""
        return f"{self.kind}-{self.shard}"


@dataclass(frozen=True, slots=True)
class UnassignedPartition:
    """A topic-partition that nobody leads now, and why, in words."""

    topic: TopicInfo
    partition: int
    reason: str


@dataclass(frozen=True, slots=True)
class Reassignment:
    """A topic-partition that moves from a live leader to another, which waits for it."""

    topic: TopicInfo
    partition: int
    from_node: NodeId
    to_node: NodeId
    leader_epoch: int


class ClusterView(Protocol):
    """The watched view: plain reads of memory, perhaps a little old."""

    @property
    def cluster_id(self) -> str:
        """The cluster's name, as in etcd and in the data directory."""
        ...

    def nodes(self) -> tuple[NodeInfo, ...]:
        """Return live nodes, by node id."""
        ...

    def topics(self) -> tuple[TopicInfo, ...]:
        """Return topics, by name."""
        ...

    def topic(self, topic_id: TopicId) -> TopicInfo | None:
        """Return a topic by id."""
        ...

    def topic_named(self, name: str) -> TopicInfo | None:
        """Return a topic by name."""
        ...

    def leader(self, partition: TopicPartition) -> PartitionLeader | None:
        """Return who leads a topic-partition, or None between leaders."""
        ...

    def next_leader(self, partition: TopicPartition) -> NodeInfo | None:
        """Return who is to lead a topic-partition after its leader, if another one is named."""
        ...

    def standbys(self, partition: TopicPartition) -> tuple[NodeId, ...]:
        """Return who takes a topic-partition over if its leader is lost, first one first."""
        ...

    def unassigned(self) -> tuple[UnassignedPartition, ...]:
        """Return topic-partitions without a leader, by topic name and number, with the reason."""
        ...

    def moves(self) -> tuple[Reassignment, ...]:
        """Return topic-partitions that are to change leaders, by topic name and number."""
        ...

    def shards(self) -> tuple[ShardLeader, ...]:
        """Return every coordinator shard: group shards first, by number."""
        ...

    def storage_problems(self) -> tuple[str, ...]:
        """Return what is wrong with the topics of the cluster's own, a sentence each."""
        ...

    def group_shard(self, group_id: GroupId) -> int:
        """Return the group-coordinator shard of a group."""
        ...

    def share_shard(self, key: SharePartitionKey) -> int:
        """Return the share-coordinator shard of a share partition (spec SC-1, SC-2)."""
        ...

    def group_coordinator(self, shard: int) -> NodeInfo | None:
        """Return who leads a group shard, or None between leaders."""
        ...

    def share_coordinator(self, shard: int) -> NodeInfo | None:
        """Return who leads a state shard, or None between leaders."""
        ...

    def controller(self) -> NodeInfo | None:
        """Return the elected controller."""
        ...

    def group_config(self, group_id: GroupId) -> GroupConfig:
        """Return the settings of a group in force now (clamped to the cluster's bounds)."""
        ...

    def group_config_entries(self, group_id: GroupId) -> Mapping[str, str]:
        """Return only what was set for this group, by Kafka's name."""
        ...

    def configured_groups(self) -> Collection[GroupId]:
        """Return the groups for which something was set, whether they exist or not."""
        ...

    def cluster_configs(self) -> Mapping[str, str]:
        """Return settings of the cluster that differ from the defaults."""
        ...

    def share_version(self) -> int:
        """Return the feature level: 0 off, 1 on."""
        ...

    def on_change(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call back on the loop after each change; returns what unsubscribes."""
        ...

    def on_leaders(
        self, callback: Callable[[Collection[TopicPartition] | None], None]
    ) -> Callable[[], None]:
        """Call back with partitions whose leader may have changed, None: any; as on_change."""
        ...

    async def wait_for(self, condition: Callable[[], bool], *, timeout_ms: int) -> bool:
        """Wait until the condition holds after some change; return whether it does."""
        ...


class ShardHost(Protocol):
    """A coordinator service as the shard elections see it."""

    async def start_shard(self, shard: int, epoch: int) -> None:
        """Take over the log of a shard and load it; raises if that fails (then it is resigned).

        Called again with a higher epoch after ports.shard_log.FencedError reported a fence at
        or above ``epoch``. Cancelled when the lease is lost meanwhile; stop_shard follows.
        """
        ...

    async def stop_shard(self, shard: int, *, orderly: bool = False) -> None:
        """Stop serving a shard; returns when nothing of it can be confirmed any more.

        ``orderly``: it is given up of free will, so that what is under way may end first.
        """
        ...

    def on_ended(self, callback: Callable[[int], None]) -> None:
        """Register what is called with the shard when its epoch ended by itself."""
        ...


GiveOn = Callable[[], Awaitable[None]]
"""Gives a claim to the successor that is named, if it can; never raises for the store's errors."""


class PartitionHost(Protocol):
    """The share leader as the partition claims see it."""

    async def start_partition(
        self, partition: TopicPartition, leader_epoch: int, *, handing_over: int = 0
    ) -> None:
        """Take over the record log of a topic-partition; raises if that fails.

        The leader of epoch ``handing_over`` has given the claim on before its last state writes:
        these are awaited (HND-13). 0: there is none.
        """
        ...

    async def stop_partition(
        self, partition: TopicPartition, *, drain_ms: int = 0, give_on: GiveOn | None = None
    ) -> None:
        """Stop leading; with ``drain_ms`` holders may still acknowledge for that long.

        ``give_on`` gives the claim to the successor; it may be called before this returns, once
        nothing is granted and nothing can be produced any more (HND-13).
        """
        ...

    async def delete_partition(self, partition: TopicPartition) -> None:
        """The topic is gone: stop and free its directories. Repeating it is fine."""
        ...

    def on_ended(self, callback: Callable[[TopicPartition], None]) -> None:
        """Register what is called when a partition's epoch ended by itself (fenced, disk)."""
        ...
