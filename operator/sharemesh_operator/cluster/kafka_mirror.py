"""Topics of Kafka storage, mirrored by the operator, where the elected controller runs."""

from collections.abc import Callable
from pathlib import Path
from random import Random

from sharemesh.cluster.store.records import RecordFormatError
from sharemesh.cluster.store.storage_record import StorageRecord, stored_storage
from sharemesh.cluster.view.watched_view import WatchedView
from sharemesh.controller.topic_mirror import TopicMirror
from sharemesh.domain.attached_topics import AttachableTopics
from sharemesh.ports.brokers import Brokers
from sharemesh.ports.clock import Clock
from sharemesh.ports.coordination import Coordination
from sharemesh.serve.exit_codes import StartError
from sharemesh.serve.settings.settings import ServeSettings
from sharemesh.serve.settings.sources import build
from sharemesh.serve.storage.broker_connection import connect_brokers
from sharemesh_operator.cluster.connection_error import ClusterConnectionError
from sharemesh_operator.resources.cluster_spec import ClusterSpec
from sharemesh_operator.resources.kafka_spec import KafkaSpec, kafka_settings
from sharemesh_operator.resources.problems import NOT_OPENED, Problem, problem

Connect = Callable[[ServeSettings, Clock, Random], Brokers]


class KafkaMirror:
    """Owns the operator's connections to the brokers of one cluster, from ``open`` to ``close``.

    Own topics are made and checked by the pods: what keeps them from it is told by how they end.
    """

    def __init__(self, kafka: KafkaSpec, mirror: TopicMirror, brokers: Brokers) -> None:
        self._servers = ", ".join(kafka.servers)
        self._brokers = brokers
        self.topics = mirror

    @property
    def problem(self) -> Problem | None:
        """Why topics are not mirrored now; it is tried again by itself."""
        if not self.topics.last_error:
            return None
        return problem("KafkaUnreachable", where=self._servers, why=self.topics.last_error)

    async def close(self) -> None:
        """End the connections; the mirror has ended."""
        await self._brokers.close()


async def open_mirror(
    spec: ClusterSpec,
    coordination: Coordination,
    view: WatchedView,
    clock: Clock,
    rng: Random,
    *,
    secrets: Path,
    connect: Connect | None = None,
) -> KafkaMirror | None:
    """Return the mirror of a cluster's topics; None: its storage is no Kafka cluster.

    Args:
        spec: The cluster.
        coordination: Its store.
        view: Its view, started.
        clock: Time.
        rng: Jitter, and ids of topics where Kafka has none.
        secrets: Folder of the Secrets that the kubelet mounts into the operator's pod.
        connect: Makes the client of the brokers; by default as role processes do.

    Raises:
        ClusterConnectionError: No pod has opened the storage yet, or files are missing.
        CoordinationError: The store does not answer.
    """
    kafka = spec.storage.kafka
    if kafka is None:
        return None
    record = await _record(spec, coordination)
    settings = _settings(kafka, secrets)
    try:
        brokers = (connect or connect_brokers)(settings, clock, rng)
    except StartError as error:
        raise ClusterConnectionError(NOT_OPENED, why=error.message) from error
    attachable = AttachableTopics(
        record.kafka_cluster_id,
        settings.kafka_topics,
        own_topics=(f"{record.topic_prefix}state", f"{record.topic_prefix}group"),
    )
    return KafkaMirror(
        kafka, TopicMirror(coordination, view, clock, rng, brokers, attachable), brokers
    )


async def _record(spec: ClusterSpec, coordination: Coordination) -> StorageRecord:
    try:
        record = await stored_storage(coordination, spec.cluster_id)
    except RecordFormatError as error:
        raise ClusterConnectionError("ClusterMismatch", why=error) from error
    if record is None:
        why = "no pod has opened its storage yet; see condition StorageReady and the pods"
        raise ClusterConnectionError(NOT_OPENED, why=why)
    return record


def _settings(kafka: KafkaSpec, secrets: Path) -> ServeSettings:
    """Return the settings of a process, with files that are there."""
    given = kafka_settings(kafka, str(secrets))
    settings = build(ServeSettings, given, source="spec.storage.kafka")
    for name in given:
        path = getattr(settings, name)
        if isinstance(path, Path) and not path.is_file():
            raise ClusterConnectionError(
                "SecretNotMounted", secret=path.parent.name, files=path.name
            )
    return settings
