"""The share leader: every method of ``ShareLeader`` and ``RecordLog``, and the partitions led."""

from collections.abc import Callable
from random import Random

from sharemesh import methods
from sharemesh.cluster.quota_table import Unlimited
from sharemesh.domain.group_config import GroupConfig
from sharemesh.domain.ids import GroupId, NodeId, TopicPartition
from sharemesh.domain.quota.names import QuotaName
from sharemesh.ports.authorizer import Authorizer
from sharemesh.ports.clock import Clock
from sharemesh.ports.cluster import ClusterView, GiveOn
from sharemesh.ports.network import Listener
from sharemesh.ports.quotas import Quotas
from sharemesh.ports.record_log import ProducerIds, RecordLogs
from sharemesh.ports.share_state import PersisterPort
from sharemesh.share_leader.environment import LeaderCounters, LeaderEnvironment
from sharemesh.share_leader.pacing import LeaderPacing
from sharemesh.share_leader.partition.leader_gauges import LeaderGauges
from sharemesh.share_leader.partition.leadership import PartitionLeadership
from sharemesh.share_leader.partition.led_partitions import LedPartitions
from sharemesh.share_leader.partition.maintenance import InvariantMonitor, TopicSettings
from sharemesh.share_leader.partition.open_streams import OpenStreams
from sharemesh.share_leader.partition.transaction_timeouts import TransactionTimeouts
from sharemesh.share_leader.requests.access import LeaderAccess, PartitionLookup
from sharemesh.share_leader.requests.acknowledgements import Acknowledgements
from sharemesh.share_leader.requests.acquisition import FetchAcquisition
from sharemesh.share_leader.requests.explain import Explain
from sharemesh.share_leader.requests.fetch import Fetch
from sharemesh.share_leader.requests.produce import Produce
from sharemesh.share_leader.requests.record_log import (
    DescribeProducers,
    InitProducerId,
    Offsets,
    WriteTxnMarkers,
)
from sharemesh.share_leader.requests.request_checks import RequestChecks
from sharemesh.share_leader.requests.share_fetch import (
    SessionServices,
    ShareAcknowledge,
    ShareFetch,
)
from sharemesh.share_leader.requests.share_session_cache import ShareSessionCache
from sharemesh.share_leader.settings import LeaderSettings
from sharemesh.share_leader.streaming.consume import Consume, HoldSession
from sharemesh.share_leader.time_searches import TimeSearches
from sharemesh.share_leader.unpacking import Unpacking
from sharemesh.share_leader.unsent import UnsentBudget
from sharemesh.tasks import OwnedTasks
from sharemesh.telemetry.telemetry import Telemetry, without_export
from sharemesh.throttling.counted_quota import CountedQuota
from sharemesh.throttling.quota_signals import QuotaSignals
from sharemesh.timers import Timers


class ShareLeaderService:
    """One process of role ``share-leader``; fills ``ports.cluster.PartitionHost``."""

    def __init__(  # noqa: PLR0913 - the composition root names each port once
        self,
        *,
        node_id: NodeId,
        clock: Clock,
        view: ClusterView,
        record_logs: RecordLogs,
        persister: PersisterPort,
        authorizer: Authorizer,
        producer_ids: ProducerIds,
        settings: LeaderSettings,
        telemetry: Telemetry | None = None,
        quotas: Quotas | None = None,
        rng: Random | None = None,
    ) -> None:
        """Without ``telemetry`` it counts for itself and makes no spans."""
        self.counters = LeaderCounters()
        self.telemetry = telemetry or without_export(lambda: clock.wall_ms() * 1_000_000)
        self._alarms = Timers(clock)
        self._tasks = OwnedTasks("the share leader")
        quotas = quotas or Unlimited()
        signals = QuotaSignals(self.telemetry.registry, clock)
        self.pacing = LeaderPacing(quotas, clock, self._alarms, signals, settings)
        environment = LeaderEnvironment(
            node_id=node_id,
            clock=clock,
            view=view,
            persister=persister,
            settings=settings,
            counters=self.counters,
            alarms=self._alarms,
            tasks=self._tasks,
            telemetry=self.telemetry,
            time_searches=TimeSearches(settings),
            rng=rng or Random(),  # noqa: S311 - it spreads retries
            tally_of=self.pacing.tally_of,
        )
        self._view = view
        self._environment = environment
        self.turns = environment.turns
        self._producer_ids = producer_ids
        self._access = LeaderAccess(authorizer, view)
        self.partitions = LedPartitions(environment)
        sessions = CountedQuota(QuotaName.SHARE_SESSIONS, quotas, signals)
        self.session_cache = ShareSessionCache(environment, self.partitions, sessions)
        self._streams = OpenStreams()
        self.unsent = UnsentBudget(settings.max_unsent_bytes, settings.max_principal_unsent_bytes)
        self._unpacking = Unpacking(settings, clock)
        self._gauges = LeaderGauges(environment, self.partitions)
        self._self_check = InvariantMonitor(environment, self.partitions)
        self._transaction_timeouts = TransactionTimeouts(environment, self.partitions)
        self._leadership = PartitionLeadership(
            environment,
            self.partitions,
            record_logs,
            self._streams,
            self.session_cache.sessions,
        )
        self._topic_settings = TopicSettings(environment, self.partitions)
        self._share_version = view.share_version()
        self._next_apply_ms = 0
        self._apply_planned = False
        self._unsubscribe = view.on_change(self._view_changed)
        self._unsubscribe_rights = authorizer.on_change(self._streams.rights_changed)

    def offer_on(self, listener: Listener) -> None:
        """Answer the methods of ``ShareLeader`` and ``RecordLog`` on a listener."""
        environment, partitions = self._environment, self.partitions
        self._gauges.register(self.session_cache.sessions, self._streams, self.unsent)
        self._self_check.begin()
        self._transaction_timeouts.begin()
        services = SessionServices(
            environment=environment,
            access=self._access,
            checks=RequestChecks(self._view, self._access),
            session_cache=self.session_cache,
            sources=PartitionLookup(partitions),
            acquisition=FetchAcquisition(environment, partitions, self.pacing),
            acknowledgements=Acknowledgements(environment, partitions, self._access),
            unsent=self.unsent,
            pacing=self.pacing,
            unpacking=self._unpacking,
        )
        offsets = Offsets(environment, partitions, self._access)
        listener.offer(methods.SHARE_FETCH, ShareFetch(services))
        listener.offer(methods.SHARE_ACKNOWLEDGE, ShareAcknowledge(services))
        listener.offer_stream(methods.CONSUME, Consume(services, self._streams))
        listener.offer_stream(methods.HOLD_SESSION, HoldSession(services, self._streams))
        sessions = self.session_cache.sessions
        explain = Explain(environment, partitions, self._access, sessions, self.pacing)
        listener.offer(methods.EXPLAIN, explain)
        produce = Produce(environment, partitions, self._access, self.pacing)
        listener.offer(methods.PRODUCE, produce)
        producer_ids = InitProducerId(self._producer_ids, self._access, environment.clock)
        listener.offer(methods.INIT_PRODUCER_ID, producer_ids)
        fetch = Fetch(environment, partitions, self._access, self.pacing)
        listener.offer(methods.FETCH, fetch)
        listener.offer(methods.LIST_OFFSETS, offsets.list_offsets)
        listener.offer(methods.DELETE_RECORDS, offsets.delete_records)
        listener.offer(
            methods.WRITE_TXN_MARKERS, WriteTxnMarkers(environment, partitions, self._access)
        )
        listener.offer(
            methods.DESCRIBE_PRODUCERS, DescribeProducers(environment, partitions, self._access)
        )

    # ---- PartitionHost --------------------------------------------------------------------------

    async def start_partition(
        self, partition: TopicPartition, leader_epoch: int, *, handing_over: int = 0
    ) -> None:
        """Take over the record log of a topic-partition under a leader epoch.

        Raises:
            FencedError: A fence at or above ``leader_epoch`` exists.
            CorruptLogError: Committed bytes cannot be read.
        """
        await self._leadership.start(partition, leader_epoch, handing_over)
        self._topic_settings.apply()

    async def stop_partition(
        self, partition: TopicPartition, *, drain_ms: int = 0, give_on: GiveOn | None = None
    ) -> None:
        """Stop leading; with ``drain_ms`` holders may still acknowledge for that long.

        ``give_on`` gives the claim on while the last state writes are under way (HND-13).
        """
        await self._leadership.stop(partition, drain_ms, give_on)

    async def delete_partition(self, partition: TopicPartition) -> None:
        """The topic is gone: stop and free its directories. Repeating it is fine."""
        await self._leadership.delete(partition)

    async def until_told(self) -> None:
        """Return once members know what was handed over: before that no stream may end (HND-9)."""
        await self._leadership.until_told()

    def on_ended(self, callback: Callable[[TopicPartition], None]) -> None:
        """Register what is called when a partition's epoch ended by itself."""
        self._leadership.on_ended(callback)

    async def close(self) -> None:
        """Stop leading everything without a drain, and end all background work."""
        self._unsubscribe()
        self._unsubscribe_rights()
        self.pacing.close()
        for led in self.partitions:
            await self._leadership.stop(led.partition, 0)
        await self._tasks.close()
        await self._alarms.close()
        self._unpacking.close()

    # ---- watched settings -----------------------------------------------------------------------

    def _view_changed(self) -> None:
        """Look at settings now, or soon if that was done a moment ago: changes come in crowds."""
        now_ms = self._environment.clock.now_ms()
        if self._apply_planned:
            return
        if now_ms >= self._next_apply_ms:
            self._apply_settings()
        else:
            self._apply_planned = True
            self._alarms.at(self._next_apply_ms, self._apply_settings)

    def _apply_settings(self) -> None:
        """Apply group and topic settings that changed, and the feature level (RS-8, SES-14)."""
        environment = self._environment
        self._apply_planned = False
        pause_ms = environment.settings.settings_pause_ms
        self._next_apply_ms = environment.clock.now_ms() + pause_ms
        version = self._view.share_version()
        if version < 1 <= self._share_version:
            self.session_cache.clear()
        self._share_version = version
        self._topic_settings.apply()
        configs: dict[GroupId, GroupConfig] = {}
        for led in self.partitions:
            for group_id, runner in list(led.shares.items()):
                config = configs.get(group_id)
                if config is None:
                    config = configs[group_id] = self._view.group_config(group_id)
                runner.configure(config)
