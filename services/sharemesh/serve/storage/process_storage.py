"""What the roles of a process need of the engine that keeps their logs."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from sharemesh.cluster.membership import ClusterMember
from sharemesh.ports.broker_topics import BrokerTopics
from sharemesh.ports.cluster import ShardKind
from sharemesh.ports.record_log import ProducerIds, RecordLogs
from sharemesh.ports.shard_log import ShardLogs

if TYPE_CHECKING:
    from sharemesh.share_coordinator.generations import GenerationReader


class ProcessStorage(Protocol):
    """The logs of one process; a role takes what it needs when it is built."""

    @property
    def broker_topics(self) -> BrokerTopics | None:
        """The Kafka cluster whose topics these are; None: topics are created here."""
        ...

    @property
    def unanswered_max_ms(self) -> int:
        """The longest wait before what could not be opened, and is not corrupt, is opened again."""
        ...

    async def start(self, member: ClusterMember) -> None:
        """Begin to look whether what ``member`` leads is its own; before any role starts."""
        ...

    def record_logs(self) -> RecordLogs:
        """Return the logs of topic-partitions."""
        ...

    def shard_logs(self, kind: ShardKind) -> ShardLogs:
        """Return the logs of coordinator shards of one kind."""
        ...

    def generations(self) -> "GenerationReader | None":
        """Return where committed generations of the state log are read; None: there are none."""
        ...

    def producer_ids(self, highest_seen: Callable[[], int]) -> ProducerIds:
        """Return what hands out producer ids, above the highest that was seen in logs led here."""
        ...

    async def close(self) -> None:
        """End what runs, once all roles have ended. Repeating it is fine."""
        ...
