"""The embedded engine: all logs in the data directory that ``disk`` shows."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from sharemesh.backends.embedded.shard_logs import EmbeddedShardLogs
from sharemesh.cluster.membership import ClusterMember
from sharemesh.cluster.view.watched_view import WatchedView
from sharemesh.ports.broker_topics import BrokerTopics
from sharemesh.ports.clock import Clock
from sharemesh.ports.cluster import ShardKind
from sharemesh.ports.coordination import Coordination
from sharemesh.ports.disk import Disk
from sharemesh.ports.record_log import ProducerIds, RecordLogs
from sharemesh.ports.shard_log import ShardLogs
from sharemesh.serve.settings.room_settings import log_settings, state_log_settings
from sharemesh.serve.settings.settings import ServeSettings
from sharemesh.serve.storage.producer_ids import BlockProducerIds

if TYPE_CHECKING:
    from sharemesh.share_coordinator.generations import GenerationReader


class EmbeddedStorage:
    """Fills ``ProcessStorage``; producer ids come in blocks from the coordination store."""

    def __init__(
        self,
        disk: Disk,
        clock: Clock,
        settings: ServeSettings,
        coordination: Coordination,
        view: WatchedView,
    ) -> None:
        self._disk = disk
        self._clock = clock
        self._bounds = log_settings(settings)
        self._coordination = coordination
        self._view = view

    @property
    def broker_topics(self) -> BrokerTopics | None:
        """Nothing: topics are created here."""
        return None

    @property
    def unanswered_max_ms(self) -> int:
        """A disk that fails does so for long."""
        return 30_000

    async def start(self, member: ClusterMember) -> None:
        """Nothing to do: fences say who owns a log."""

    def record_logs(self) -> RecordLogs:
        """Return the logs of topic-partitions."""
        from sharemesh.backends.embedded.records.record_logs import (
            EmbeddedRecordLogs,  # share leaders alone need it
        )

        return EmbeddedRecordLogs(self._disk, self._clock, self._bounds)

    def shard_logs(self, kind: ShardKind) -> ShardLogs:
        """Return the logs of coordinator shards of one kind."""
        bounds = self._bounds
        if kind is ShardKind.STATE:
            bounds = state_log_settings(bounds, self._view.cluster_configs())
        return EmbeddedShardLogs(self._disk, self._clock, bounds)

    def generations(self) -> "GenerationReader | None":
        """Return the generations in the data directory."""
        from sharemesh.share_coordinator.generations import (
            GenerationReader,  # share coordinators alone need it
        )

        return GenerationReader(self._disk)

    def producer_ids(self, highest_seen: Callable[[], int]) -> ProducerIds:
        """Return what hands out producer ids in blocks."""
        return BlockProducerIds(self._coordination, self._view, highest_seen)

    async def close(self) -> None:
        """Nothing to do: the disk is closed by who opened it."""
