"""Settings of the cluster by Kafka's names, as the parts of a process take them (spec 25).

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
from sharemesh.persister.settings import PersisterSettings
from sharemesh.runtime.limits import RuntimeLimits
from sharemesh.share_coordinator.settings import ShareCoordinatorSettings

SEGMENT_BYTES_MIN = 64 * 1024
"""Smaller values of the segment setting count as this: a file for each record helps nobody."""

ANSWER_MARGIN_MS = 1_000
"""A leader waits so much longer than the coordinator: the coordinator's own answer says more."""


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
