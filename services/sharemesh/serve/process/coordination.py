"""The coordination store of a process: etcd by its settings, reached or refused in words."""

from collections.abc import Sequence
from pathlib import Path
from random import Random

from sharemesh.backends.etcd.connection import EtcdTls
from sharemesh.backends.etcd.coordination import EtcdCoordination
from sharemesh.backends.etcd.namespace import SHIPPED_ROOT, NamespacedCoordination
from sharemesh.cluster.bootstrap import ClusterMismatchError, ensure_cluster
from sharemesh.cluster.store.configs import alter_cluster_configs
from sharemesh.cluster.store.records import ClusterRecord, decode_configs
from sharemesh.cluster.view.watched_view import WatchedView
from sharemesh.domain.errors import RefusedError
from sharemesh.ports.clock import Clock
from sharemesh.ports.coordination import Coordination, CoordinationError
from sharemesh.serve.exit_codes import ExitCode, StartError
from sharemesh.serve.settings.settings import ServeSettings

_RETRY_MS = 50
_PROBE_KEY = "/sharemesh/reachable"


def connect_etcd(
    settings: ServeSettings, endpoints: Sequence[str], *, clock: Clock, rng: Random
) -> Coordination:
    """Return a client of etcd; nothing is sent yet.

    Raises:
        StartError: SETTINGS; a certificate file cannot be read.
    """
    tls = None
    if settings.etcd_tls_authority is not None or settings.etcd_tls_certificate is not None:
        tls = EtcdTls(
            ca=_read(settings.etcd_tls_authority, "etcd_tls_authority"),
            certificate=_read(settings.etcd_tls_certificate, "etcd_tls_certificate"),
            key=_read(settings.etcd_tls_key, "etcd_tls_key"),
        )
    etcd = EtcdCoordination(endpoints, clock=clock, rng=rng, tls=tls)
    if settings.etcd_prefix == SHIPPED_ROOT:
        return etcd
    return NamespacedCoordination(etcd, settings.etcd_prefix)


async def reach(
    coordination: Coordination, clock: Clock, endpoints: Sequence[str], *, timeout_ms: int
) -> None:
    """Return once the store answers.

    Raises:
        StartError: COORDINATION_UNREACHABLE.
    """
    deadline_ms = clock.now_ms() + timeout_ms
    while True:
        try:
            await coordination.get(_PROBE_KEY)
        except CoordinationError as error:
            if clock.now_ms() >= deadline_ms:
                raise StartError(
                    ExitCode.COORDINATION_UNREACHABLE,
                    f"etcd at {','.join(endpoints)} does not answer; start it, or correct "
                    "etcd_endpoints",
                ) from error
            await clock.sleep_ms(_RETRY_MS)
        else:
            return


async def create_cluster(
    coordination: Coordination, settings: ServeSettings, clock: Clock, *, overwrite: bool
) -> ClusterRecord:
    """Create the cluster if it is not there, and store the settings that it is to have.

    Args:
        coordination: The store; it answered.
        settings: Cluster id, shard counts, and settings by Kafka's names.
        clock: For the view's bookkeeping.
        overwrite: Replace settings that differ; else only those never set are stored, so that
            what was altered at run time survives the restart of a process.

    Raises:
        StartError: OTHER_CLUSTER, it was created otherwise; SETTINGS, they do not fit together.
        CoordinationError: The store stopped answering.
    """
    try:
        record = await ensure_cluster(
            coordination,
            settings.cluster_id,
            group_shards=settings.group_shards,
            state_shards=settings.state_shards,
        )
    except ClusterMismatchError as error:
        raise StartError(ExitCode.OTHER_CLUSTER, str(error)) from error
    if settings.configs:
        view = WatchedView(coordination, settings.cluster_id, clock)
        stored = await coordination.get(view.keys.cluster_configs)
        known = decode_configs(stored.value) if stored is not None and not overwrite else {}
        missing = {name: text for name, text in settings.configs.items() if name not in known}
        try:
            await alter_cluster_configs(coordination, view, missing)
        except RefusedError as error:
            raise StartError(ExitCode.SETTINGS, error.message) from error
    return record


def _read(path: Path | None, name: str) -> bytes | None:
    if path is None:
        return None
    try:
        return path.read_bytes()
    except OSError as error:
        raise StartError(
            ExitCode.SETTINGS, f"setting {name}: cannot read {path}: {error.strerror}"
        ) from error
