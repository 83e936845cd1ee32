"""The Kafka engine: production code of ``backends/kafka`` over three brokers in virtual time."""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from random import Random
from typing import TYPE_CHECKING, Any

from sharemesh.backends.kafka.record_logs.partition_log import KafkaPartitionLog
from sharemesh.backends.kafka.record_logs.record_logs import KafkaRecordLogs
from sharemesh.backends.kafka.shard_logs.log_partition import LogPartition
from sharemesh.backends.kafka.shard_logs.shard_log import KafkaShardLog
from sharemesh.backends.kafka.shard_logs.shard_logs import KafkaShardLogs
from sharemesh.backends.kafka.shard_logs.unit_writer import UnitWriter
from sharemesh.backends.local.coordination import LocalCoordination
from sharemesh.cluster.seen_logs import SeenLogsInStore, SeenPartitionsInStore
from sharemesh.cluster.store.keys import Keys, partition_path
from sharemesh.cluster.store.records import ClusterRecord, decode_claim
from sharemesh.cluster.store.storage_record import StorageRecord
from sharemesh.cluster.view.watched_view import WatchedView
from sharemesh.codec.batch_frame import walk_frames
from sharemesh.codec.log_stamp import log_identity, read_stamped_batch
from sharemesh.codec.plain_batch import plain_batch
from sharemesh.codec.record_set import decode_records_as
from sharemesh.domain.ids import TopicId, TopicPartition
from sharemesh.domain.stamped_log.judgement import ForwardReading, Judgement
from sharemesh.ports.cluster import ShardKind
from sharemesh.ports.coordination import Coordination
from sharemesh.ports.shard_log import FencedError, LogRecord
from sharemesh.serve.settings.settings import ServeSettings
from sharemesh.serve.storage.kafka import KafkaStorage, coordinator_topics
from sharemesh.serve.storage.measured_brokers import MeasuredBrokers
from sharemesh.serve.storage.own_topics import OwnTopics
from sharemesh.serve.storage.process_storage import ProcessStorage
from sharemesh.share_coordinator.generations import GenerationReader
from sharemesh.telemetry.telemetry import Telemetry
from sharemesh.testing.memory_brokers import MemoryBrokers, MemoryCluster
from sharemesh.testing.memory_brokers.replica import Replica
from sharemesh.testing.memory_brokers.replica_log import ReplicaLog
from tests.simulation.broker_faults import NEWS_MS, BrokerFaults
from tests.simulation.broker_losses import BrokerLosses, leading
from tests.simulation.brokers import SimSchedule
from tests.simulation.engines.engine import (
    CLUSTER,
    GROUP_SHARDS,
    MESH_FAULTS,
    STATE_SHARDS,
    Begins,
    Committed,
    CommittedStates,
    LogsOfAuditor,
    LookPassed,
    OpenStorage,
    OwnerNow,
    TookOver,
)
from tests.simulation.loop import Process, SimClock
from tests.simulation.patching import Patches

if TYPE_CHECKING:
    from tests.simulation.world import World

SESSION_MS = (3_000.0, 9_000.0)
TRAVEL_MS = (0.1, 3.0)
REPLICATION_MS = (0.1, 5.0)
RETENTION_LOOK_S = 5.0
HELD_UP_S = 4.0
SETTLED_S = 15.0
HELD_UP = 0.1
OWN_PREFIX = "__"
OWN_FAULTS = (
    "broker_killed",
    "broker_frozen",
    "broker_cut_off",
    "broker_lags",
    "leaders_moved",
    "tail_lost",
    "on_the_way",
    "replicas_too_few",
    "throttled",
    "brokers_slow",
    "news_late",
    "sessions_evicted",
)


LIKE = {
    "disk_full": ("replicas_too_few",),
    "disk_slow": ("brokers_slow", "on_the_way", "leaders_moved"),
    "kill_in_job": ("broker_killed", "tail_lost", "on_the_way"),
    "sync_fails": ("tail_lost",),
}
"""What goes wrong here where special workloads name a fault of a volume."""

TROUBLES = (
    "lost",
    "unanswered",
    "late",
    "doubled",
    "too_few",
    "too_few_after",
    "throttled",
)
"""What requests must have met in many seeds."""


class NobodyElse:
    """Ownership of who reads everything when all processes are gone."""

    async def still(self, kind: ShardKind, shard: int, epoch: int) -> None:
        """Return."""

    async def leads(self, partition: TopicPartition, epoch: int) -> None:
        """Return."""


class KafkaEngine:
    """Fills ``Engine``; each life of a process has a client of its own.

    ``topic_grace_ms`` is for how long processes keep what they know of a topic that has gone.
    """

    has_generations = False
    fences_at_once = False

    def __init__(self, world: "World", rng: Random) -> None:
        self._world = world
        self.retention = {"retention.ms": "60000"}
        self.topic_grace_ms = 600_000
        self.faults = sorted((*MESH_FAULTS, *OWN_FAULTS))
        self.cluster = MemoryCluster(
            SimClock(world.loop),
            Random(rng.getrandbits(64)),
            defaults={"min.insync.replicas": "2"},
            schedule=SimSchedule(world.loop),
        )
        self.cluster.troubles.travel_ms = TRAVEL_MS
        self.cluster.session_ms = SESSION_MS
        self.cluster.replication_ms = REPLICATION_MS
        self.cluster.news_ms = NEWS_MS
        self.broker_faults = BrokerFaults(self.cluster, Random(rng.getrandbits(64)), self._happens)
        self._rng = Random(rng.getrandbits(64))
        self.losses = BrokerLosses(world, self.cluster, self._rng)
        self._clients: dict[Process, MemoryBrokers] = {}
        self._record: StorageRecord | None = None
        self._reads_cut = 0
        self._is_healed = False

    def faults_like(self, kind: str) -> Sequence[str]:
        """Return faults of brokers for those of a volume, else the fault itself."""
        return LIKE.get(kind, (kind,))

    def settings(self) -> dict[str, Any]:
        """Return the storage; topics may be made and deleted from here."""
        return {
            "storage": "kafka",
            "kafka_bootstrap_servers": ("broker-1:9092",),
            "kafka_manage_topics": True,
            "kafka_topic_grace_ms": self.topic_grace_ms,
        }

    async def claim(
        self,
        process: Process,
        settings: ServeSettings,
        coordination: Coordination,
        clock: SimClock,
        rng: Random,
    ) -> OpenStorage:
        """Make the own topics, or check them, as each start does."""
        for other in [each for each in self._clients if not each.alive]:
            self.cluster.forget(self._clients.pop(other))
        brokers = self._clients[process] = self.cluster.client()
        counts = ClusterRecord(CLUSTER, GROUP_SHARDS, STATE_SHARDS)
        record = await OwnTopics(brokers, coordination, settings, clock, rng, "sim").ready(counts)
        self._record = record

        def storage(view: WatchedView, telemetry: Telemetry) -> ProcessStorage:
            measured = MeasuredBrokers(brokers, telemetry)
            return KafkaStorage(measured, record, coordination, view, clock, rng, settings)

        return storage

    async def begin_fault(self, name: str) -> None:
        """Carry out a fault of the brokers."""
        await self.broker_faults.begin(name)

    def begin(self) -> None:
        """Let retention go on, as brokers do by themselves."""
        loop = self._world.loop
        loop.create_task(self._retain(), context=loop.world.context())

    def heal(self) -> None:
        """End what is wrong with the brokers."""
        self._is_healed = True
        self.broker_faults.heal()
        for client in self._clients.values():
            client.cut_off = False

    def slow(self, permille: int) -> None:
        """Let messages to and from brokers be late."""
        self.cluster.troubles.slow = permille

    def refuse_writes(self) -> None:
        """Let there be too few replicas."""
        self.cluster.troubles.too_few = 1_000

    def take_writes(self) -> None:
        """Let there be enough."""
        self.cluster.troubles.too_few = 0

    def cut_reads(self, process: Process, *, cut: bool) -> None:
        """Let a process reach no broker, or all again."""
        client = self._clients.get(process)
        if client is not None:
            client.cut_off = cut
            self._reads_cut += cut

    def lose_power(self) -> None:
        """Brokers have machines of their own."""

    def count(self, counters: Counter[str]) -> None:
        """Add what happened on the way to the brokers."""
        for name, count in self.cluster.troubles.counts.items():
            counters[f"requests to brokers {name}"] = count
        counters["reads of record logs that failed"] = self._reads_cut

    def _happens(self, name: str) -> None:
        self._world.tell(f"brokers: {name}", count=f"fault {name}")

    async def _retain(self) -> None:
        """Delete what is older than a topic's ``retention.ms``; compacted topics have none."""
        schedule = self.cluster.schedule
        while True:
            await asyncio.sleep(RETENTION_LOOK_S)
            for name, topic in self.cluster.controller.image.topics.items():
                kept_ms = int(topic.setting("retention.ms"))
                if kept_ms < 0 or "delete" not in topic.setting("cleanup.policy"):
                    continue
                for each in topic.partitions:
                    replica = leading(self.cluster, name, each.partition)
                    if replica is None:
                        continue
                    end = replica.high_watermark
                    young = replica.log.find_time(schedule.wall_ms() - kept_ms, end)
                    before = end if young is None else young[0]
                    if before > replica.log.start_offset:
                        self._world.event_log.counters["log start moved by retention"] += 1
                        self.cluster.trim(name, each.partition, before)

    def was_compacted(self, topic: str, partition: int, offset: int) -> bool:
        """Return whether compaction removed a record at some broker."""
        return offset in self.broker_faults.removed[topic, partition]

    def cut_states(self, shard: int) -> bool:
        """Cut the newer half of a state shard off everywhere; return whether records were lost."""
        found = self.committed_states(shard)
        cut = (found.start_offset + found.end_offset) // 2
        place = self._best(self._state_log(shard)[0], shard).key
        for broker in self.cluster.brokers.values():
            replica = broker.replicas[place]
            replica.log.truncate(cut)
            replica.high_watermark = min(replica.high_watermark, replica.log.end_offset)
            replica.ends.clear()
        return any(each.offset >= cut for each in found.records)

    # ---- from outside ---------------------------------------------------------------------------

    def _best(self, topic: str, partition: int) -> Replica:
        """Return a replica that holds all that was ever confirmed: any of those in sync."""
        image, each = self.cluster.controller.partition(topic, partition)
        in_sync = [
            replica
            for broker_id in (each.leader, *each.in_sync)
            if (broker := self.cluster.brokers.get(broker_id)) is not None
            if (replica := broker.replicas.get((image.topic_id, partition))) is not None
        ]
        return in_sync[0]

    def _state_log(self, shard: int) -> tuple[str, int]:
        """Return the topic of the state log, and the number that stands for a shard of it."""
        assert self._record is not None
        topics = coordinator_topics(CLUSTER, self._record)
        topic = topics.topics[str(ShardKind.STATE)]
        names = f"{topics.cluster_id}/{topics.kafka_cluster_id}"
        return topic.topic, log_identity(names, topic.topic_id, shard, topics.incarnation)

    def committed_states(self, shard: int, below: int = 0) -> CommittedStates:
        """Read a state shard as it lies at a broker; ``below``: at least so far."""
        topic, log = self._state_log(shard)
        replica = self._best(topic, shard)
        end = max(replica.high_watermark, below)
        batches = replica.log.batches(replica.log.start_offset, end)
        first = batches[0].base_offset if batches else replica.log.start_offset
        reading = ForwardReading(log, first)
        found: list[LogRecord] = []
        for batch in batches:
            [frame] = walk_frames(
                batch.data,
                start=0,
                limit=len(batch.data),
                base_offset=None,
                leader_epoch=None,
                check_crc=True,
            ).frames
            data = memoryview(batch.data)
            if reading.take(read_stamped_batch(frame, data)) is Judgement.COUNTS:
                records = decode_records_as(plain_batch(data), LogRecord)
                found += [each for each in records if each.key is not None]
        return CommittedStates(replica.log.start_offset, reading.position, found)

    # ---- for checkers ---------------------------------------------------------------------------

    def observe(self, patches: Patches, counters: Counter[str]) -> None:
        """Count what units and take-overs come to."""
        real_settle, real_write = UnitWriter._settle, UnitWriter.write

        async def settle(writer, stamp, base):
            if base == stamp.expected:
                return await real_settle(writer, stamp, base)
            step = await real_settle(writer, stamp, base)
            counters[f"units that lay elsewhere: {type(step).__name__}"] += 1
            return step

        async def write(writer, records, start):
            try:
                await real_write(writer, records, start)
            except FencedError:
                counters["fenced commit"] += 1
                raise

        patches.setattr(UnitWriter, "_settle", settle)
        patches.setattr(UnitWriter, "write", write)

    def watch_owners(self, patches: Patches, took_over: TookOver, committed: Committed) -> None:
        """Tell of take-overs, with their fences, and of units that were confirmed."""
        real_open, real_write = KafkaShardLogs.open, UnitWriter.write
        counters = self._world.event_log.counters

        async def open_log(logs, name, shard, epoch):
            log = await real_open(logs, name, shard, epoch)
            counters["take-overs"] += 1
            took_over(log._partition.name, epoch, log._fence.offset)
            return log

        async def write(writer, records, start):
            await real_write(writer, records, start)
            position = writer.position
            committed(writer._partition.name, position.own.epoch, position.end)

        patches.setattr(KafkaShardLogs, "open", open_log)
        patches.setattr(UnitWriter, "write", write)

    def watch_looks(self, patches: Patches, owner: OwnerNow, passed: LookPassed) -> None:
        """Tell of answers of shards (STL-17), and of looks at who leads a partition (STL-19)."""
        real_committed, real_look = KafkaShardLog.committed, KafkaPartitionLog.look
        store, keys = self._world.store, Keys(CLUSTER)

        async def committed(log, end_offset):
            name = log._partition.name
            before = owner(name)
            await real_committed(log, end_offset)
            passed(name, log.epoch, before)

        async def look(log):
            stored = store.get(keys.claim(log._partition))
            before = -1 if stored is None else decode_claim(stored.value).leader_epoch
            await real_look(log)
            passed(f"partition {partition_path(log._partition)}", log.leader_epoch, before)

        patches.setattr(KafkaShardLog, "committed", committed)
        patches.setattr(KafkaPartitionLog, "look", look)

    def watch_log_starts(self, patches: Patches, begins: Begins) -> None:
        """Tell of log starts that move at some broker."""
        real, engine = ReplicaLog.advance_start, self

        def advance_start(log, offset):
            before = log.start_offset
            real(log, offset)
            if log.start_offset == before:
                return
            for broker in engine.cluster.brokers.values():
                for (topic_id, partition), replica in broker.replicas.items():
                    if replica.log is log:
                        begins(topic_id, partition, log.start_offset)

        patches.setattr(ReplicaLog, "advance_start", advance_start)

    def before_pruning(self, patches: Patches, read_on: Callable[[int, int], None]) -> None:
        """Tell of a state shard before a writer asks for a deletion."""
        real = KafkaShardLog._delete

        async def delete(log, limit):
            place = log._partition._place
            if place.topic == self._state_log(place.partition)[0]:
                read_on(place.partition, limit)
            await real(log, limit)

        patches.setattr(KafkaShardLog, "_delete", delete)

    def hold_commits_up(self, patches: Patches) -> None:
        """Let some writes be on their way for longer than it takes a successor to come."""
        real, rng, engine = LogPartition._produce, self._rng, self

        async def produce(partition, batch):
            if not engine._is_healed and rng.random() < HELD_UP:
                await asyncio.sleep(rng.uniform(0.0, HELD_UP_S))
            return await real(partition, batch)

        patches.setattr(LogPartition, "_produce", produce)

    def generations(self, process: Process) -> GenerationReader | None:
        """Nothing: none are made."""
        return None

    async def logs_of_auditor(self, process: Process, clock: SimClock) -> LogsOfAuditor:
        """Return the logs in the cluster, once it is whole."""
        self.heal()
        await asyncio.sleep(SETTLED_S)  # what was sent late has arrived, and brokers agree
        assert self._record is not None
        client = self._clients[process] = self.cluster.client()
        coordination = LocalCoordination(self._world.store)
        topics = coordinator_topics(CLUSTER, self._record)
        image = self.cluster.controller.image

        async def partitions() -> Iterable[TopicPartition]:
            return [
                TopicPartition(topic.topic_id, each.partition)
                for topic in image.topics.values()
                if not topic.name.startswith(OWN_PREFIX)
                for each in topic.partitions
            ]

        def name_of(topic_id: TopicId) -> str | None:
            return image.names.get(topic_id)

        return LogsOfAuditor(
            KafkaShardLogs(
                client,
                topics,
                NobodyElse(),
                SeenLogsInStore(coordination, CLUSTER, clock),
                clock,
                Random(self._rng.getrandbits(64)),
            ),
            KafkaRecordLogs(
                client,
                clock,
                NobodyElse(),
                SeenPartitionsInStore(coordination, CLUSTER, clock),
                name_of,
            ),
            partitions,
        )
