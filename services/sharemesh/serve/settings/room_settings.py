"""Settings of the cluster by Kafka's names, of logs and of TLS, as the rooms take them.

They are read when a process starts: Kafka too changes these only with a restart.
"""

from collections.abc import Mapping
from dataclasses import replace

from sharemesh.backends.embedded.settings import LogSettings
from sharemesh.domain.group_config.cluster_definitions import (
    GENERATION_GRACE,
    SNAPSHOT_UPDATE_RECORDS,
    STATE_APPEND_LINGER,
    STATE_COLD_SNAPSHOT_INTERVAL,
    STATE_PRUNE_INTERVAL,
    STATE_SEGMENT_BYTES,
    STATE_WRITE_TIMEOUT,
)
from sharemesh.domain.group_config.evaluate import cluster_int
from sharemesh.persister.request_batcher import PersisterSettings
from sharemesh.ports.clock import Clock
from sharemesh.rpc.server_certificates import ServerCertificates
from sharemesh.rpc.tls import TlsFiles
from sharemesh.runtime.shard_kind import RuntimeLimits
from sharemesh.serve.settings.settings import ServeSettings
from sharemesh.share_coordinator.settings import ShareCoordinatorSettings


def tls_files(settings: ServeSettings) -> TlsFiles | None:
    """Return the files for servers and for calls to other processes, or None without TLS."""
    if settings.tls_certificate is None:
        return None
    return TlsFiles(
        settings.tls_certificate,
        settings.tls_key,
        settings.tls_authority,
        demand_certificates=settings.mutual_tls,
    )


def server_certificates(settings: ServeSettings, clock: Clock) -> ServerCertificates | None:
    """Return what a server of this process shows, or None without TLS."""
    files = tls_files(settings)
    return None if files is None else ServerCertificates(files, clock)


def log_settings(settings: ServeSettings) -> LogSettings:
    """Return the shipped bounds; only ``durability: os`` leaves fsync out."""
    return LogSettings(fsync=settings.durability == "fsync")


SEGMENT_BYTES_MIN = 64 * 1024
"""The smallest segment size used; smaller values of the setting are raised to it."""

ANSWER_MARGIN_MS = 1_000
"""Extra time that a leader waits beyond the coordinator's write timeout, in milliseconds.

The leader then sees the coordinator's specific error instead of an expired deadline.
"""


def share_coordinator_settings(configs: Mapping[str, str]) -> ShareCoordinatorSettings:
    """Return the share coordinator's settings (spec CFG-13, CFG-14)."""
    write_timeout_ms = cluster_int(configs, STATE_WRITE_TIMEOUT)
    return ShareCoordinatorSettings(
        updates_per_snapshot=cluster_int(configs, SNAPSHOT_UPDATE_RECORDS),
        prune_interval_ms=cluster_int(configs, STATE_PRUNE_INTERVAL),
        cold_snapshot_interval_ms=cluster_int(configs, STATE_COLD_SNAPSHOT_INTERVAL),
        generation_grace_ms=cluster_int(configs, GENERATION_GRACE),
        runtime=RuntimeLimits(
            write_timeout_ms=write_timeout_ms,
            linger_ms=min(cluster_int(configs, STATE_APPEND_LINGER), write_timeout_ms - 1),
        ),
    )


def state_log_settings(settings: LogSettings, configs: Mapping[str, str]) -> LogSettings:
    """Return the bounds of the state log: those of the process, with its own segment size."""
    segment_bytes = max(cluster_int(configs, STATE_SEGMENT_BYTES), SEGMENT_BYTES_MIN)
    return replace(settings, segment_bytes=segment_bytes)


def persister_settings(configs: Mapping[str, str]) -> PersisterSettings:
    """Return the bounds of those who call share coordinators."""
    write_timeout_ms = cluster_int(configs, STATE_WRITE_TIMEOUT)
    return PersisterSettings(request_timeout_ms=write_timeout_ms + ANSWER_MARGIN_MS)
