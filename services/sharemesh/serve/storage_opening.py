"""Opening what keeps the logs of a process: a data directory, or a Kafka cluster."""

import logging
from random import Random
from typing import TYPE_CHECKING

from sharemesh.backends.embedded.data_directory import open_data_directory
from sharemesh.backends.local.disk import SystemDisk
from sharemesh.cluster.store.records import ClusterRecord
from sharemesh.cluster.store.storage_record import StorageRecord, stored_storage
from sharemesh.cluster.view.watched_view import WatchedView
from sharemesh.codec.log_layout import DataDirectoryError
from sharemesh.object_store.stored_objects import StoredObjects, path_of
from sharemesh.ports.clock import Clock
from sharemesh.ports.coordination import Coordination
from sharemesh.ports.generation_files import GenerationFiles
from sharemesh.serve.exit_codes import ExitCode, StartError
from sharemesh.serve.settings.settings import ServeSettings
from sharemesh.serve.storage.embedded import EmbeddedStorage
from sharemesh.serve.storage.process_storage import ProcessStorage
from sharemesh.serve.supervise.data_directory import (
    check_volume,
    close_to_others,
    is_known,
    make_writable,
)
from sharemesh.telemetry.telemetry import Telemetry

if TYPE_CHECKING:
    from sharemesh.kafka.brokers_client import KafkaBrokers

_log = logging.getLogger(__name__)

CONFIRMED_MEANS = (
    "storage kafka: confirmed means acknowledged by %d of %d copies, which write to disk later: it "
    "survives the crash of processes and of fewer machines than that, not a power cut of all of "
    "them at once"
)
ONE_COPY = (
    "storage kafka with a single replica: the loss of one broker's disk loses groups and delivery "
    "states; it is for trials"
)


class StorageOpening:
    """Opens and closes the storage of one process by its settings."""

    def __init__(self, settings: ServeSettings, clock: Clock, rng: Random) -> None:
        self._settings = settings
        self._clock = clock
        self._rng = rng
        self._disk: SystemDisk | None = None
        self._objects: StoredObjects | None = None
        self._brokers: KafkaBrokers | None = None
        self._record: StorageRecord | None = None

    def prepare(self) -> None:
        """Look at the data directory, if there is one, before anything else.

        Raises:
            StartError: DIRECTORY_UNUSABLE; SETTINGS.
        """
        settings = self._settings
        if settings.on_kafka:
            if settings.in_memory:
                raise StartError(
                    ExitCode.SETTINGS,
                    "storage kafka needs etcd, or who leads what would be forgotten: set "
                    "etcd_endpoints to host:port, or start a cluster with: sharemesh up --kafka",
                )
            return
        make_writable(settings.data_directory)
        mount = check_volume(settings.data_directory)
        if mount is not None and not is_known(mount):
            _log.warning(
                "the data directory is on %s, which was not tried: it must show every process a "
                "synced file at once, and keep what was synced",
                mount.kind,
                extra={"mount": mount.point},
            )

    async def claim(self, coordination: Coordination, record: ClusterRecord) -> None:
        """Make the storage, or check that it is this cluster's.

        Raises:
            StartError: OTHER_CLUSTER, or one of STORAGE.
            CoordinationError: The coordination store does not answer.
        """
        settings = self._settings
        if settings.on_kafka:
            await self._claim_topics(coordination, record)
            return
        if await stored_storage(coordination, settings.cluster_id) is not None:
            raise StartError(
                ExitCode.OTHER_CLUSTER,
                f"cluster {settings.cluster_id!r} keeps its logs in a Kafka cluster; set storage "
                "to kafka, or another cluster_id",
            )
        disk = self._disk = SystemDisk(settings.data_directory, threads=settings.disk_threads)
        try:
            await open_data_directory(
                disk,
                cluster_id=record.cluster_id,
                group_shards=record.group_shards,
                state_shards=record.state_shards,
            )
        except DataDirectoryError as error:
            raise StartError(
                ExitCode.OTHER_CLUSTER, f"{settings.data_directory}: {error}"
            ) from error
        close_to_others(settings.data_directory)

    async def _claim_topics(self, coordination: Coordination, record: ClusterRecord) -> None:
        from sharemesh.serve.storage.broker_connection import connect_brokers
        from sharemesh.serve.storage.own_topics import OwnTopics

        settings = self._settings
        brokers = self._brokers = connect_brokers(settings, self._clock, self._rng)
        topics = OwnTopics(brokers, coordination, settings, self._clock, self._rng)
        self._record = await topics.ready(record)

    def storage(
        self, coordination: Coordination, view: WatchedView, telemetry: Telemetry
    ) -> ProcessStorage:
        """Return the storage that was claimed."""
        if self._brokers is None:
            assert self._disk is not None
            return EmbeddedStorage(self._disk, self._clock, self._settings, coordination, view)
        from sharemesh.serve.storage.kafka import KafkaStorage
        from sharemesh.serve.storage.kafka_gauges import register_kafka_gauges
        from sharemesh.serve.storage.measured_brokers import MeasuredBrokers

        assert self._record is not None
        storage = KafkaStorage(
            MeasuredBrokers(self._brokers, telemetry),
            self._record,
            coordination,
            view,
            self._clock,
            self._rng,
            self._settings,
            generations=self._generation_files(),
        )
        register_kafka_gauges(telemetry.registry, self._brokers.traffic, storage, view)
        return storage

    def _generation_files(self) -> GenerationFiles | None:
        place = self._settings.generations
        if not place:
            return None
        folder = path_of(place)
        if folder is None:
            self._objects = StoredObjects(place)
            return self._objects
        self._disk = SystemDisk(folder, threads=self._settings.disk_threads)
        return self._disk

    def tell(self) -> None:
        """Say in the log what *confirmed* means with this storage (KTP-17)."""
        settings = self._settings
        if settings.on_kafka:
            replicas, min_insync = settings.own_topic_replicas
            _log.info(CONFIRMED_MEANS, min_insync, replicas)
            if settings.kafka_single_replica:
                _log.warning(ONE_COPY)
        elif settings.durability != "fsync":
            _log.warning("durability is os: a power cut loses confirmed records")

    async def close(self) -> None:
        """Release what was opened; repeating it is fine."""
        if self._brokers is not None:
            await self._brokers.close()
        if self._disk is not None:
            self._disk.close()
        if self._objects is not None:
            self._objects.close()
