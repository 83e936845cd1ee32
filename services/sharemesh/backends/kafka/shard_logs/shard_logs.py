"""All shard logs of a cluster whose state log and group log are topics (port ShardLogs)."""

import random
from functools import partial

from sharemesh.backends.kafka.shard_logs.confirmed_units import ConfirmedUnits
from sharemesh.backends.kafka.shard_logs.coordinator_topics import CoordinatorTopics
from sharemesh.backends.kafka.shard_logs.log_counts import StampedLogCounts
from sharemesh.backends.kafka.shard_logs.log_partition import LogPartition
from sharemesh.backends.kafka.shard_logs.settings import StampedLogSettings
from sharemesh.backends.kafka.shard_logs.shard_log import KafkaShardLog
from sharemesh.backends.kafka.shard_logs.take_over import take_over
from sharemesh.codec.log_stamp import log_identity
from sharemesh.domain.stamped_log.stamp import WriterIdentity
from sharemesh.ports.brokers import BrokerPartition, Brokers
from sharemesh.ports.clock import Clock
from sharemesh.ports.cluster import ShardKind
from sharemesh.ports.ownership import Ownership
from sharemesh.ports.seen_units import SeenLogs


class KafkaShardLogs:
    """Opens the logs of one kind each (port ShardLogs).

    Args:
        brokers: The cluster.
        topics: Where state log and group log are.
        ownership: Tells whether a shard is still ours.
        seen: How far the logs were confirmed (STL-24).
        clock: Time.
        rng: Makes the names of writers, and jitter.
        node_id: Stands in fences, for people.
        settings: Bounds.
        counts: What happens is added here.
    """

    def __init__(  # noqa: PLR0913 - a composition of all that a log stands on
        self,
        brokers: Brokers,
        topics: CoordinatorTopics,
        ownership: Ownership,
        seen: SeenLogs,
        clock: Clock,
        rng: random.Random,
        *,
        node_id: str = "",
        settings: StampedLogSettings | None = None,
        counts: StampedLogCounts | None = None,
    ) -> None:
        self._brokers = brokers
        self._topics = topics
        self._ownership = ownership
        self._seen = seen
        self._clock = clock
        self._rng = rng
        self._node_id = node_id
        self._settings = settings or StampedLogSettings()
        self._counts = counts or StampedLogCounts()

    async def open(self, name: str, shard: int, epoch: int) -> KafkaShardLog:
        """Take the log of a shard over under ``epoch`` (STL-9).

        Raises:
            FencedError: A writer of an epoch at least as high was here before.
            CorruptLogError: The log is not what its writers made of it, or holds less than was
                confirmed.
            LogFailedError: The cluster or the coordination store refused, or did not answer in
                time.
        """
        topics = self._topics
        topic = topics.topics[name]
        log = log_identity(
            f"{topics.cluster_id}/{topics.kafka_cluster_id}",
            topic.topic_id,
            shard,
            topics.incarnation,
        )
        still_ours = partial(self._ownership.still, ShardKind(name), shard, epoch)
        partition = LogPartition(
            self._brokers,
            BrokerPartition(topic.topic_id, topic.topic, shard),
            log,
            self._clock,
            self._rng,
            self._settings,
            still_ours,
            counts=self._counts,
        )
        confirmed = ConfirmedUnits(self._seen, f"{name}-{shard}", epoch, partition.name)
        await confirmed.check()
        position = await take_over(
            partition,
            WriterIdentity(log, epoch, self._rng.getrandbits(64)),
            label=self._node_id,
            timestamp_ms=self._clock.wall_ms(),
            limit_ms=self._settings.open_timeout_ms,
        )
        await confirmed.took_over(position)
        return KafkaShardLog(
            partition, position, confirmed, still_ours, self._clock, self._settings
        )
