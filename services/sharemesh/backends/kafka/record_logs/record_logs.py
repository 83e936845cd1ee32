"""The topics of a Kafka-compatible cluster as record logs (port RecordLogs)."""

from collections.abc import Callable
from functools import partial

from sharemesh.backends.kafka.record_logs.asked_again import until_answered
from sharemesh.backends.kafka.record_logs.cluster_words import CLUSTER_ERRORS, name_of
from sharemesh.backends.kafka.record_logs.followed_log import FollowedLog
from sharemesh.backends.kafka.record_logs.found_ends import (
    FoundEnds,
    FoundEpochs,
    KnownEpochs,
    find_epochs,
)
from sharemesh.backends.kafka.record_logs.log_access import LogAccess
from sharemesh.backends.kafka.record_logs.log_watch import LogWatch
from sharemesh.backends.kafka.record_logs.partition_log import KafkaPartitionLog
from sharemesh.backends.kafka.record_logs.partition_memory import PartitionMemory
from sharemesh.backends.kafka.record_logs.read_cache import ReadCache
from sharemesh.backends.kafka.record_logs.settings import TopicLogBounds
from sharemesh.backends.recent_pool import RecentPool
from sharemesh.domain.errors import ErrorCode, RefusedError
from sharemesh.domain.ids import TopicId, TopicPartition
from sharemesh.domain.seen_partition import SeenPartition
from sharemesh.ports.brokers import BrokerPartition, Brokers
from sharemesh.ports.clock import Clock
from sharemesh.ports.ownership import Ownership
from sharemesh.ports.seen_partitions import SeenPartitions
from sharemesh.ports.shard_log import LogFailedError
from sharemesh.tasks import OwnedTasks


class KafkaRecordLogs:
    """Partitions of topics that exist in Kafka; nothing of them is created or deleted here."""

    def __init__(
        self,
        brokers: Brokers,
        clock: Clock,
        ownership: Ownership,
        seen: SeenPartitions,
        topic_name: Callable[[TopicId], str | None],
        bounds: TopicLogBounds | None = None,
    ) -> None:
        """``topic_name`` says what a topic is called; None: there is no such topic."""
        tasks, self._bounds = OwnedTasks("the record logs"), bounds or TopicLogBounds()
        self._access = LogAccess(brokers, clock, tasks, self._bounds)
        self._brokers = brokers
        self._ownership = ownership
        self._seen = seen
        self._topic_name = topic_name
        self._pool = RecentPool(self._bounds.cache_bytes_max)
        self._watch = LogWatch(self._access)

    async def open(self, partition: TopicPartition, leader_epoch: int) -> KafkaPartitionLog:
        """Ask the leader where the partition starts and ends (KRL-4), and compare (KRL-19).

        Raises:
            LogFailedError: No leader answered in time; open it again with a new epoch.
        """
        name = self._topic_name(partition.topic_id)
        if name is None:
            raise LogFailedError(f"no topic has the id {partition.topic_id.hex()}")
        where = BrokerPartition(partition.topic_id, name, partition.partition)
        seen = await self._seen.stored(partition)
        try:
            found, epochs = await self._find(where, _known(seen))
        except BaseException:
            self._seen.forget(partition)
            raise
        memory = PartitionMemory(self._seen, partition)
        log = FollowedLog(where, self._access, ReadCache(self._pool), found, memory)
        log.resume(seen, found, epochs)
        self._watch.follow(log)
        return KafkaPartitionLog(
            partition, leader_epoch, log, self._access, self._ownership, self._watch
        )

    async def delete(self, partition: TopicPartition) -> None:
        """Do nothing: a topic is deleted in Kafka, and nothing of it is kept here."""

    async def _find(
        self, where: BrokerPartition, known: KnownEpochs
    ) -> tuple[FoundEnds, FoundEpochs | None]:
        wait_ms = self._bounds.open_wait_ms
        try:
            return await until_answered(
                self._access, partial(find_epochs, self._brokers, where, known), wait_ms
            )
        except CLUSTER_ERRORS as error:
            raise LogFailedError(
                f"partition {name_of(where)} cannot be opened, its leader in Kafka gave no answer "
                f"within {wait_ms} ms: {error}"
            ) from error


def _known(seen: SeenPartition | None) -> KnownEpochs:
    if seen is None:
        return KnownEpochs()
    return KnownEpochs(seen.kafka_epoch, seen.end, seen.epoch_starts)


class KafkaProducerIds:
    """Producer ids as Kafka hands them out (port ProducerIds)."""

    def __init__(self, brokers: Brokers) -> None:
        self._brokers = brokers

    async def allocate(self) -> int:
        """Return a new id."""
        try:
            producer_id, _ = await self._brokers.new_producer_id()
        except CLUSTER_ERRORS as error:
            raise RefusedError(
                ErrorCode.COORDINATOR_NOT_AVAILABLE, f"Kafka gives no producer id: {error}"
            ) from error
        return producer_id
