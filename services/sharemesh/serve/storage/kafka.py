"""Storage in a Kafka cluster: users' topics, and two of the cluster's own."""

from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING

from sharemesh.backends.kafka.shard_logs.coordinator_topics import (
    CoordinatorTopic,
    CoordinatorTopics,
)
from sharemesh.backends.kafka.shard_logs.log_counts import StampedLogCounts
from sharemesh.backends.kafka.shard_logs.shard_logs import KafkaShardLogs
from sharemesh.cluster.membership import ClusterMember
from sharemesh.cluster.ownership import StoreOwnership
from sharemesh.cluster.seen_logs import SeenLogsInStore, SeenPartitionsInStore
from sharemesh.cluster.store.storage_record import StorageRecord
from sharemesh.cluster.view.watched_view import WatchedView
from sharemesh.domain.attached_topics import AttachableTopics
from sharemesh.domain.ids import TopicId, TopicPartition
from sharemesh.ports.broker_topics import BrokerTopics
from sharemesh.ports.brokers import Brokers
from sharemesh.ports.clock import Clock
from sharemesh.ports.cluster import ShardKind
from sharemesh.ports.coordination import Coordination
from sharemesh.ports.generation_files import GenerationFiles
from sharemesh.ports.record_log import ProducerIds, RecordLogs
from sharemesh.ports.shard_log import FencedError, ShardLogs
from sharemesh.serve.settings.settings import ServeSettings
from sharemesh.serve.storage.own_topics_watch import OwnTopicsWatch
from sharemesh.tasks import OwnedTasks

if TYPE_CHECKING:
    from sharemesh.share_coordinator.generations import GenerationReader


def coordinator_topics(cluster_id: str, record: StorageRecord) -> CoordinatorTopics:
    """Return the own topics as the record of the storage names them."""
    ids = {ShardKind.STATE: record.state_topic_id, ShardKind.GROUP: record.group_topic_id}
    return CoordinatorTopics(
        cluster_id,
        record.kafka_cluster_id,
        {
            str(kind): CoordinatorTopic(f"{record.topic_prefix}{kind}", topic_id)
            for kind, topic_id in ids.items()
        },
        record.incarnation,
    )


UNANSWERED_MAX_MS = 2_000


class KafkaStorage:
    """Fills ``ProcessStorage`` over the port ``Brokers``; it closes them.

    Args:
        brokers: The cluster.
        record: What the coordination store says of the storage.
        coordination: Where looks are made.
        view: What topics are called.
        clock: Time.
        rng: Names writers, and jitter.
        settings: Those of the process.
        generations: Where Spark keeps generations; None: nowhere.
    """

    def __init__(  # noqa: PLR0913 - a composition root
        self,
        brokers: Brokers,
        record: StorageRecord,
        coordination: Coordination,
        view: WatchedView,
        clock: Clock,
        rng: Random,
        settings: ServeSettings,
        *,
        generations: GenerationFiles | None = None,
    ) -> None:
        self._brokers = brokers
        self._record = record
        self._coordination = coordination
        self._view = view
        self._clock = clock
        self._rng = rng
        self._settings = settings
        self._generations = generations
        self._ownership = MemberOwnership()
        self._tasks = OwnedTasks("the storage")
        self.shard_log_counts: dict[ShardKind, StampedLogCounts] = {}
        self._seen = SeenLogsInStore(coordination, view.cluster_id, clock)
        self._seen_partitions = SeenPartitionsInStore(coordination, view.cluster_id, clock)

    @property
    def broker_topics(self) -> BrokerTopics | None:
        """The users' topics."""
        topics = coordinator_topics(self._settings.cluster_id, self._record).topics
        return BrokerTopics(
            self._brokers,
            AttachableTopics(
                self._record.kafka_cluster_id,
                self._settings.kafka_topics,
                own_topics=tuple(each.topic for each in topics.values()),
            ),
            self._settings.kafka_manage_topics,
            self._settings.kafka_topic_grace_ms,
        )

    @property
    def unanswered_max_ms(self) -> int:
        """Brokers come back, and rights are given back, at any moment (KTP-18)."""
        return UNANSWERED_MAX_MS

    async def start(self, member: ClusterMember) -> None:
        """Begin to look whether what ``member`` leads is its own."""
        await self._ownership.start(
            StoreOwnership(self._coordination, member, self._view, self._clock)
        )
        if self.shard_log_counts:
            self._tasks.spawn(self._topics_watch().run())

    def record_logs(self) -> RecordLogs:
        """Return the logs of topic-partitions."""
        from sharemesh.backends.kafka.record_logs.record_logs import (
            KafkaRecordLogs,  # share leaders alone need it
        )

        return KafkaRecordLogs(
            self._brokers, self._clock, self._ownership, self._seen_partitions, self._topic_name
        )

    def shard_logs(self, kind: ShardKind) -> ShardLogs:
        """Return the logs of coordinator shards; a process that has such looks after the topics."""
        counts = self.shard_log_counts.setdefault(kind, StampedLogCounts())
        return KafkaShardLogs(
            self._brokers,
            coordinator_topics(self._settings.cluster_id, self._record),
            self._ownership,
            self._seen,
            self._clock,
            self._rng,
            node_id=self._settings.node_id,
            counts=counts,
        )

    def generations(self) -> "GenerationReader | None":
        """Return where committed generations of the state log are read."""
        from sharemesh.share_coordinator.generations import (
            GenerationReader,  # share coordinators alone need it
        )

        return None if self._generations is None else GenerationReader(self._generations)

    def producer_ids(self, highest_seen: Callable[[], int]) -> ProducerIds:  # noqa: ARG002
        """Return what asks the Kafka cluster for producer ids."""
        from sharemesh.backends.kafka.record_logs.record_logs import (
            KafkaProducerIds,  # share leaders alone need it
        )

        return KafkaProducerIds(self._brokers)

    async def close(self) -> None:
        """End looks, and close every connection."""
        await self._tasks.close()
        await self._ownership.close()
        await self._seen.close()
        await self._seen_partitions.close()
        await self._brokers.close()

    def _topics_watch(self) -> OwnTopicsWatch:
        return OwnTopicsWatch(
            self._brokers,
            self._coordination,
            self._view,
            self._clock,
            coordinator_topics(self._settings.cluster_id, self._record),
            servers=",".join(self._settings.kafka_bootstrap_servers),
            single_replica=self._settings.kafka_single_replica,
        )

    def _topic_name(self, topic_id: TopicId) -> str | None:
        topic = self._view.topic(topic_id)
        return None if topic is None else topic.name


class MemberOwnership:
    """Looks for roles that are built before there is a member; without one, all is fenced."""

    def __init__(self) -> None:
        self._looks: StoreOwnership | None = None

    async def start(self, looks: StoreOwnership) -> None:
        """Look through ``looks`` from now on."""
        await self.close()
        self._looks = looks

    async def still(self, kind: ShardKind, shard: int, epoch: int) -> None:
        """Return if nobody has taken a coordinator shard over since it got ``epoch``."""
        await self._started().still(kind, shard, epoch)

    async def leads(self, partition: TopicPartition, epoch: int) -> None:
        """Return if this process leads a topic-partition under ``epoch``."""
        await self._started().leads(partition, epoch)

    async def close(self) -> None:
        """End looks under way."""
        looks, self._looks = self._looks, None
        if looks is not None:
            await looks.close()

    def _started(self) -> StoreOwnership:
        if self._looks is None:
            raise FencedError("this process is starting or has ended: it leads nothing")
        return self._looks
