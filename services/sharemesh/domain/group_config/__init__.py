"""Effective settings of one share group, after the cluster's defaults and bounds (spec CFG)."""

from dataclasses import dataclass
from enum import IntEnum


class IsolationLevel(IntEnum):
    """``share.isolation.level``: up to where, and what, a group may read (spec ISO-1)."""

    READ_UNCOMMITTED = 0
    READ_COMMITTED = 1


@dataclass(frozen=True, slots=True)
class GroupConfig:
    """The values in force now; names in the comments are Kafka's."""

    record_lock_duration_ms: int = 30_000  # share.record.lock.duration.ms
    delivery_count_limit: int = 5  # share.delivery.count.limit
    partition_max_record_locks: int = 2_000  # share.partition.max.record.locks
    renew_acknowledge_enable: bool = True  # share.renew.acknowledge.enable
    isolation_level: IsolationLevel = IsolationLevel.READ_UNCOMMITTED  # share.isolation.level
    auto_offset_reset: str = "latest"  # share.auto.offset.reset: latest|earliest|by_duration:P…
    session_timeout_ms: int = 45_000  # share.session.timeout.ms
    heartbeat_interval_ms: int = 5_000  # share.heartbeat.interval.ms
    assignment_interval_ms: int = 1_000  # share.assignment.interval.ms
