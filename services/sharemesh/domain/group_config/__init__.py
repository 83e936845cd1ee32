"""Effective settings of one share group, after the cluster's defaults and bounds (spec CFG)."""

from dataclasses import dataclass
from enum import IntEnum, StrEnum

from sharemesh.domain.group_config.retry_delays import NO_DELAYS, RetryDelays


class IsolationLevel(IntEnum):
    """``share.isolation.level``: up to where, and what, a group may read (spec ISO-1)."""

    READ_UNCOMMITTED = 0
    READ_COMMITTED = 1


class InFlightLimitType(StrEnum):
    """``share.in.flight.limit.type``: what ``share.partition.max.record.locks`` bounds (WIN-1)."""

    LOCKS = "locks"
    SPAN = "span"


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
    in_flight_limit_type: InFlightLimitType = InFlightLimitType.LOCKS  # Kafka's: SPAN (spec WIN)
    partition_max_runs: int = 100_000  # share.partition.max.runs: not Kafka's (WIN-4)
    paused: bool = False  # share.paused: not a setting of Kafka (spec PAU)
    retry: RetryDelays = NO_DELAYS  # share.retry.*: not Kafka's
