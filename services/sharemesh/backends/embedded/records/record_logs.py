"""All record logs of a data directory (port RecordLogs)."""

import asyncio
from contextlib import suppress
from functools import partial

from sharemesh.backends.embedded.owned.owned_log import OwnedLog
from sharemesh.backends.embedded.records.log_snapshot import write_snapshot
from sharemesh.backends.embedded.records.recent_batches import RecentBatches
from sharemesh.backends.embedded.records.record_load import Loaded, load_records
from sharemesh.backends.embedded.records.record_log import EmbeddedPartitionLog
from sharemesh.backends.embedded.settings import LogSettings
from sharemesh.backends.recent_pool import RecentPool
from sharemesh.codec.log_layout import RECORDS, record_log_path, topic_path
from sharemesh.codec.segment import FENCES
from sharemesh.domain.ids import TopicPartition
from sharemesh.ports.clock import Clock
from sharemesh.ports.disk import Disk
from sharemesh.ports.shard_log import FencedError, LogFailedError


class EmbeddedRecordLogs:
    """Topic-partitions under ``records/`` (port RecordLogs)."""

    def __init__(self, disk: Disk, clock: Clock, settings: LogSettings) -> None:
        self._disk = disk
        self._clock = clock
        self._settings = settings
        self._recent = RecentPool(settings.recent_bytes_max, clock)
        self._scrub_turns = asyncio.Semaphore(1)

    async def open(self, partition: TopicPartition, leader_epoch: int) -> EmbeddedPartitionLog:
        """Take the partition over under ``leader_epoch`` (LOG-5).

        A corrupt log opens too: what lies before the corruption is served, appends are refused,
        and ``corruption`` says where it is.

        Raises:
            FencedError: A fence at or above ``leader_epoch`` exists.
            LogFailedError: The disk refused; open it again with a new epoch.
        """
        log, loaded = await self._disk.run(partial(self._open, partition, leader_epoch))
        recent = RecentBatches(self._recent)
        opened = EmbeddedPartitionLog(self._disk, self._clock, self._settings, log, loaded, recent)
        opened.scrub.begin(loaded.unverified, self._scrub_turns)
        return opened

    async def delete(self, partition: TopicPartition) -> None:
        """Free the directories of a deleted topic's partition; repeating it is fine."""
        await self._disk.run(partial(self._delete, partition))

    def _open(self, partition: TopicPartition, leader_epoch: int) -> tuple[OwnedLog, Loaded]:
        path = record_log_path(partition.topic_id, partition.partition)
        log = OwnedLog(self._disk, path, leader_epoch, self._settings, salvage=True)
        try:
            loaded = load_records(self._disk, log, self._settings)
            if loaded.corruption is None:
                # What an owner before did not come to after it moved the log start.
                log.before_change = lambda newest: write_snapshot(
                    self._disk, path, newest, loaded.index, loaded.producers, loaded.transactions
                )
                loaded.index.drop(log.prune())
            return log, loaded
        except OSError as error:
            log.close()
            raise LogFailedError(f"log {path}: cannot be loaded: {error}") from error
        except (FencedError, LogFailedError):
            log.close()
            raise

    def _delete(self, partition: TopicPartition) -> None:
        """Delete fences first, so that a running writer is fenced; then the rest, then names."""
        path = record_log_path(partition.topic_id, partition.partition)
        for directory in (f"{path}/{FENCES}", path):
            for name in self._disk.list(directory):
                self._disk.delete(f"{directory}/{name}")
            self._disk.delete(directory)
        parent = topic_path(partition.topic_id)
        with suppress(OSError):  # other partitions of the topic are still there
            self._disk.delete(parent)
            parent = RECORDS
        # The claim is deleted next. Without this sync, files that a power cut brings back would
        # stay for ever.
        with suppress(FileNotFoundError):
            self._disk.sync_directory(parent)
