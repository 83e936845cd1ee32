"""What the group coordinator is told by the cluster's settings (spec CFG-1 to CFG-10)."""

from collections.abc import Mapping
from dataclasses import dataclass

from sharemesh.domain.group_config.cluster_definitions import (
    INITIALIZE_RETRY_INTERVAL,
    JOIN_WAIT_LIMIT,
    MAX_SIZE,
    STREAM_LINGER,
)
from sharemesh.domain.group_config.evaluate import cluster_int, cluster_value
from sharemesh.domain.share_group.assignor import AssignorMode


@dataclass(frozen=True, slots=True)
class GroupSettings:
    """Settings of the cluster in force now; times in ms."""

    max_size: int
    initialize_retry_interval_ms: int
    stream_linger_ms: int
    join_wait_limit_ms: int
    mode: AssignorMode


@dataclass(frozen=True, slots=True)
class ServiceLimits:
    """Bounds of the service itself."""

    reviews_at_once: int = 64  # groups looked at concurrently: changes of topics, one request
    unknown_topic_grace_ms: int = 60_000  # until a topic never seen by this process counts as gone
    compact_interval_ms: int = 60_000
    compact_min_records: int = 10_000  # a shorter log is never rewritten
    compact_factor: int = 4  # rewritten once the log holds this many times what is live
    requested_groups: int = 1_000  # of one describe or delete request; more are refused
    requested_partitions: int = 100_000  # of one request on offsets; more are refused
    look_interval_ms: int = 20  # heartbeats that change nothing share a look at the log
    push_timeout_ms: int = 10_000  # for one message to a slow stream


def settings_from(cluster: Mapping[str, str]) -> GroupSettings:
    """Return the settings that these entries of the cluster amount to."""
    return GroupSettings(
        max_size=cluster_int(cluster, MAX_SIZE),
        initialize_retry_interval_ms=cluster_int(cluster, INITIALIZE_RETRY_INTERVAL),
        stream_linger_ms=cluster_int(cluster, STREAM_LINGER),
        join_wait_limit_ms=cluster_int(cluster, JOIN_WAIT_LIMIT),
        mode=AssignorMode(cluster_value(cluster, "group.share.assignors")),
    )
