"""The settings of one share group (spec CFG-20), by Kafka's names."""

from sharemesh.domain.group_config.definition import (
    ConfigDefinition,
    ValueKind,
    by_name,
    integer,
)
from sharemesh.domain.group_config.retry_delays import RELEASE_DELAY_MAX_MS

SESSION_TIMEOUT = "share.session.timeout.ms"
HEARTBEAT_INTERVAL = "share.heartbeat.interval.ms"
RECORD_LOCK_DURATION = "share.record.lock.duration.ms"
DELIVERY_COUNT_LIMIT = "share.delivery.count.limit"
PARTITION_MAX_RECORD_LOCKS = "share.partition.max.record.locks"
AUTO_OFFSET_RESET = "share.auto.offset.reset"
ISOLATION_LEVEL = "share.isolation.level"
RENEW_ACKNOWLEDGE_ENABLE = "share.renew.acknowledge.enable"
ASSIGNMENT_INTERVAL = "share.assignment.interval.ms"
IN_FLIGHT_LIMIT_TYPE = "share.in.flight.limit.type"
PARTITION_MAX_RUNS = "share.partition.max.runs"
PAUSED = "share.paused"
RETRY_BACKOFF = "share.retry.backoff.ms"
RETRY_BACKOFF_MAX = "share.retry.backoff.max.ms"
RETRY_BACKOFF_MULTIPLIER = "share.retry.backoff.multiplier"
RETRY_BACKOFF_JITTER = "share.retry.backoff.jitter"
RETRY_BACKOFF_ON_TIMEOUT = "share.retry.backoff.on.timeout"
RETRY_SCHEDULE = "share.retry.schedule"
NO_DEAD_LETTER_QUEUE = "not in this version: dead-letter topics are left out; remove the setting"

_INTEGER = ValueKind.INTEGER


def _bounded(name: str, documentation: str, minimum: int = 1) -> ConfigDefinition:
    """A setting between the cluster's ``group.share.min.X`` and ``group.share.max.X``."""
    stem = name.removeprefix("share.")
    return ConfigDefinition(
        name,
        _INTEGER,
        "",
        documentation,
        minimum=minimum,
        fallback=f"group.share.{stem}",
        at_least=f"group.share.min.{stem}",
        at_most=f"group.share.max.{stem}",
    )


GROUP_CONFIGS = by_name(
    (
        _bounded(
            SESSION_TIMEOUT,
            "Milliseconds without a heartbeat after which a member is removed from the group.",
        ),
        _bounded(
            HEARTBEAT_INTERVAL,
            "Milliseconds between heartbeats that members are asked to keep; below the session "
            "time-out.",
        ),
        _bounded(
            RECORD_LOCK_DURATION,
            "Milliseconds that a delivered record stays locked for its consumer.",
            minimum=1_000,
        ),
        _bounded(
            DELIVERY_COUNT_LIMIT,
            "How often a record is delivered at most before it is archived.",
            minimum=2,
        ),
        _bounded(
            PARTITION_MAX_RECORD_LOCKS,
            "How many records of one share partition members may hold at once; with "
            "share.in.flight.limit.type=span how many may be in flight.",
            minimum=100,
        ),
        ConfigDefinition(
            AUTO_OFFSET_RESET,
            ValueKind.RESET_POLICY,
            "latest",
            "Where a group starts on a topic it has never read: latest, earliest, or "
            "by_duration:PnDTnHnMn.nS for records of at most that age.",
        ),
        ConfigDefinition(
            ISOLATION_LEVEL,
            ValueKind.CHOICE,
            "read_uncommitted",
            "Whether records of open and aborted transactions are delivered: read_uncommitted "
            "delivers all, read_committed only committed ones.",
            choices=("read_uncommitted", "read_committed"),
        ),
        ConfigDefinition(
            RENEW_ACKNOWLEDGE_ENABLE,
            ValueKind.BOOLEAN,
            "true",
            "Whether consumers may extend the lock of a record with RENEW.",
        ),
        _bounded(
            ASSIGNMENT_INTERVAL,
            "Milliseconds at least between two assignments of partitions to members.",
            minimum=0,
        ),
        integer(
            RETRY_BACKOFF,
            "Milliseconds that a released record waits after its first delivery before it is "
            "delivered again, if its consumer names no delay. 0, as in Kafka: not at all. Not a "
            "setting of Kafka, like the others of share.retry.",
            0,
            minimum=0,
            maximum=RELEASE_DELAY_MAX_MS,
        ),
        integer(
            RETRY_BACKOFF_MAX,
            "Milliseconds at most that share.retry.backoff.ms grows to.",
            600_000,
            minimum=0,
            maximum=RELEASE_DELAY_MAX_MS,
        ),
        ConfigDefinition(
            RETRY_BACKOFF_MULTIPLIER,
            ValueKind.DECIMAL,
            "2",
            "By what the wait is multiplied after each further delivery.",
            minimum=1,
            maximum=100,
        ),
        ConfigDefinition(
            RETRY_BACKOFF_JITTER,
            ValueKind.DECIMAL,
            "0.2",
            "By how much of it a wait is longer or shorter at random, so that records that failed "
            "together do not come back together.",
            minimum=0,
            maximum=1,
        ),
        ConfigDefinition(
            RETRY_BACKOFF_ON_TIMEOUT,
            ValueKind.BOOLEAN,
            "false",
            "Whether records whose lock has expired wait as well.",
        ),
        ConfigDefinition(
            RETRY_SCHEDULE,
            ValueKind.SCHEDULE,
            "",
            "The waits one by one, such as 1s,10s,1m,10m, instead of share.retry.backoff.ms: after "
            "the n-th delivery the n-th, after more the last.",
        ),
        ConfigDefinition(
            IN_FLIGHT_LIMIT_TYPE,
            ValueKind.CHOICE,
            "locks",
            "What share.partition.max.record.locks bounds: locks counts the records that members "
            "hold, so that one slow record keeps nothing back; span counts all offsets from the "
            "start offset on, as Kafka does.",
            choices=("locks", "span"),
        ),
        integer(
            PARTITION_MAX_RUNS,
            "How many runs of equal records a share partition may remember above its start offset, "
            "if the limit counts locks; at it nothing above the end offset goes out.",
            100_000,
            minimum=1_000,
            maximum=1_000_000,
        ),
        ConfigDefinition(
            PAUSED,
            ValueKind.BOOLEAN,
            "false",
            "Whether leaders deliver nothing more to the group; what members hold they may "
            "acknowledge and renew as ever.",
        ),
        ConfigDefinition(
            "errors.deadletterqueue.topic.name",
            ValueKind.TEXT,
            "",
            "Topic that takes records which could not be processed.",
            unsupported=NO_DEAD_LETTER_QUEUE,
        ),
        ConfigDefinition(
            "errors.deadletterqueue.copy.record.enable",
            ValueKind.BOOLEAN,
            "false",
            "Whether the dead-letter topic gets key and value of the record.",
            unsupported=NO_DEAD_LETTER_QUEUE,
        ),
    )
)
"""All settings that a group may have."""
