"""The embedded engine: one shared volume, on which a kill can fall between two operations."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, cast

from sharemesh.backends.embedded.data_directory import open_data_directory
from sharemesh.backends.embedded.owned import take_over
from sharemesh.backends.embedded.owned.group_commit import GroupCommit
from sharemesh.backends.embedded.owned.owned_log import OwnedLog
from sharemesh.backends.embedded.records.record_log import EmbeddedPartitionLog
from sharemesh.backends.embedded.records.record_logs import EmbeddedRecordLogs
from sharemesh.backends.embedded.settings import LogSettings
from sharemesh.backends.embedded.shard_logs import EmbeddedShardLogs
from sharemesh.cluster.view.watched_view import WatchedView
from sharemesh.codec.log_layout import record_log_path, shard_log_path
from sharemesh.domain.ids import TopicId, TopicPartition
from sharemesh.ports.coordination import Coordination
from sharemesh.ports.shard_log import FencedError, LogRecord
from sharemesh.serve.settings.settings import ServeSettings
from sharemesh.serve.storage.embedded import EmbeddedStorage
from sharemesh.serve.storage.process_storage import ProcessStorage
from sharemesh.share_coordinator.generations import GenerationReader
from sharemesh.telemetry.telemetry import Telemetry
from sharemesh_spark.reader.data_directory import read_shard, records
from tests.record_directories import partitions_on
from tests.simulation.disk import SharedVolume
from tests.simulation.disk_path import DiskPath
from tests.simulation.engines.engine import (
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

OWN_FAULTS = ("disk_full", "disk_slow", "kill_in_job", "sync_fails")
"""Faults of the volume, in ``tests/simulation/faults.py``."""


class EmbeddedEngine:
    """Fills ``Engine``; everybody reaches the volume."""

    has_generations = True
    fences_at_once = True

    def __init__(self, world: "World", rng: Random) -> None:
        self._world = world
        self.retention = {"segment.ms": "20000", "retention.ms": "60000"}
        self.volume = SharedVolume(rng)
        self.volume.kill = world.killed_in_job
        self.faults = sorted((*MESH_FAULTS, *OWN_FAULTS))

    def faults_like(self, kind: str) -> Sequence[str]:
        """Return the fault itself: special workloads are written in words of this engine."""
        return (kind,)

    def settings(self) -> dict[str, Any]:
        """Return where the volume is."""
        return {"data_directory": Path("simulated")}

    async def claim(
        self,
        process: Process,
        settings: ServeSettings,
        coordination: Coordination,
        clock: SimClock,
        rng: Random,
    ) -> OpenStorage:
        """Open the data directory."""
        disk = self.volume.view(process)
        await open_data_directory(
            disk,
            cluster_id=settings.cluster_id,
            group_shards=settings.group_shards,
            state_shards=settings.state_shards,
        )

        def storage(view: WatchedView, telemetry: Telemetry) -> ProcessStorage:
            return EmbeddedStorage(disk, clock, settings, coordination, view)

        return storage

    async def begin_fault(self, name: str) -> None:
        """Nothing: faults of the volume are among those of the mesh."""
        raise AssertionError(f"no fault {name}")

    def begin(self) -> None:
        """Nothing: retention is what processes do."""

    def heal(self) -> None:
        """End what is wrong with the volume."""
        volume = self.volume
        volume.slow_permille = 0
        volume.deadly.clear()
        volume.unreadable.clear()
        volume.disk.failing_syncs.clear()
        volume.disk.capacity_bytes = 1 << 40

    def slow(self, permille: int) -> None:
        """Let the device be busy."""
        self.volume.slow_permille = permille

    def refuse_writes(self) -> None:
        """Fill the volume."""
        disk = self.volume.disk
        disk.capacity_bytes = disk.capacity_bytes - disk.free_bytes()

    def take_writes(self) -> None:
        """Give it room again."""
        self.volume.disk.capacity_bytes = 1 << 40

    def cut_reads(self, process: Process, *, cut: bool) -> None:
        """Let a process have too many open files, or not."""
        if cut:
            self.volume.unreadable.add(process)
        else:
            self.volume.unreadable.discard(process)

    def lose_power(self) -> None:
        """What was not synced may be gone."""
        self.volume.disk.crash()

    def count(self, counters: Counter[str]) -> None:
        """Add what the volume counted."""
        counters["disk jobs between operations of another"] = self.volume.between
        counters["reads of record logs that failed"] = self.volume.failed_reads

    # ---- for checkers ---------------------------------------------------------------------------

    def observe(self, patches: Patches, counters: Counter[str]) -> None:
        """Look at take-overs, ended epochs and retention."""
        real_settle, real_fail = take_over._settle, GroupCommit._fail

        def settle(disk, path, epoch, fences, state, tail):
            taken = real_settle(disk, path, epoch, fences, state, tail)
            counters["take-overs"] += 1
            if tail.data:
                counters["predecessor cut, tail appended again"] += 1
            return taken

        def fail(commit, error):
            fenced = isinstance(error, FencedError)
            counters["fenced commit" if fenced else "log epoch ended by the disk"] += 1
            real_fail(commit, error)

        real_retain = EmbeddedPartitionLog.apply_retention

        async def apply_retention(log, now_wall_ms):
            before = log.log_start_offset
            after = await real_retain(log, now_wall_ms)
            if after > before:
                counters["log start moved by retention"] += 1
            return after

        patches.setattr(EmbeddedPartitionLog, "apply_retention", apply_retention)
        patches.setattr(take_over, "_settle", settle)
        patches.setattr(GroupCommit, "_fail", fail)

    def watch_owners(self, patches: Patches, took_over: TookOver, committed: Committed) -> None:
        """Tell of every take-over and every commit of a log."""
        real_init, real_commit = OwnedLog.__init__, OwnedLog.commit

        def init(log, *arguments, **words):
            real_init(log, *arguments, **words)
            took_over(log.path, log.epoch, log.committed_end_offset)

        def commit(log, data, end_offset, log_start_offset):
            place = real_commit(log, data, end_offset, log_start_offset)
            committed(log.path, log.epoch, end_offset)
            return place

        patches.setattr(OwnedLog, "__init__", init)
        patches.setattr(OwnedLog, "commit", commit)

    def watch_looks(self, patches: Patches, owner: OwnerNow, passed: LookPassed) -> None:
        """Nothing: a look reads the fences themselves, and a commit after it is judged."""

    def watch_log_starts(self, patches: Patches, begins: Begins) -> None:
        """Tell of record logs that begin elsewhere: by a commit, and by a take-over."""
        real_init, real_commit = OwnedLog.__init__, OwnedLog.commit

        def tell(log: OwnedLog) -> None:
            number = int(log.path.rpartition("/")[2])
            for topic_id in self._world.topic_names:
                if log.path == record_log_path(TopicId(topic_id), number):
                    begins(TopicId(topic_id), number, log.log_start_offset)

        def init(log, *arguments, **words):
            real_init(log, *arguments, **words)
            tell(log)

        def commit(log, data, end_offset, log_start_offset):
            place = real_commit(log, data, end_offset, log_start_offset)
            tell(log)
            return place

        patches.setattr(OwnedLog, "__init__", init)
        patches.setattr(OwnedLog, "commit", commit)

    def before_pruning(self, patches: Patches, read_on: Callable[[int, int], None]) -> None:
        """Tell of a state shard before a commit moves its start."""
        real = OwnedLog.commit
        shards = {shard_log_path("state", shard): shard for shard in range(STATE_SHARDS)}

        def commit(log, data, end_offset, log_start_offset):
            if log_start_offset > log.log_start_offset and log.path in shards:
                read_on(shards[log.path], log_start_offset)
            return real(log, data, end_offset, log_start_offset)

        patches.setattr(OwnedLog, "commit", commit)

    def hold_commits_up(self, patches: Patches) -> None:
        """Hold commits up behind their last look at the fences, where a successor comes unseen."""
        real, volume = OwnedLog._publish, self.volume

        def publish(log):
            volume.hold_up()
            real(log)

        patches.setattr(OwnedLog, "_publish", publish)

    def committed_states(
        self,
        shard: int,
        below: int = 0,
    ) -> CommittedStates:
        """Read a state shard as Spark does."""
        disk = self.volume.disk
        before, disk.before = disk.before, None  # to look is no operation of the owner
        try:
            image = read_shard(cast(Path, DiskPath(disk)), shard)
        finally:
            disk.before = before
        found = [LogRecord(each.key, each.value, each.offset) for each in records(image)]
        return CommittedStates(image.start_offset, image.end_offset, found)

    def generations(self, process: Process) -> GenerationReader:
        """Return the generations on the volume."""
        return GenerationReader(self.volume.view(process))

    async def logs_of_auditor(self, process: Process, clock: SimClock) -> LogsOfAuditor:
        """Return the logs on the volume."""
        disk = self.volume.view(process)

        async def partitions() -> Iterable[TopicPartition]:
            return await disk.run(partial(partitions_on, disk))

        return LogsOfAuditor(
            EmbeddedShardLogs(disk, clock, LogSettings()),
            EmbeddedRecordLogs(disk, clock, LogSettings()),
            partitions,
        )
