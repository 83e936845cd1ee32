"""The settings of the whole cluster (spec CFG-1 to CFG-15), by Kafka's names."""

from sharemesh.domain.group_config.definition import (
    INT32_MAX,
    ConfigDefinition,
    ValueKind,
    by_name,
    integer,
)

MAX_SIZE = "group.share.max.size"
MAX_GROUPS = "group.share.max.groups"
MAX_SHARE_SESSIONS = "group.share.max.share.sessions"
INITIALIZE_RETRY_INTERVAL = "group.share.initialize.retry.interval.ms"
STREAM_LINGER = "group.share.stream.linger.ms"
JOIN_WAIT_LIMIT = "group.share.join.wait.limit.ms"
ASSIGNOR_OFFLOAD_ENABLE = "group.share.assignor.offload.enable"
STATE_SEGMENT_BYTES = "share.coordinator.state.topic.segment.bytes"
STATE_WRITE_TIMEOUT = "share.coordinator.write.timeout.ms"
STATE_APPEND_LINGER = "share.coordinator.append.linger.ms"
STATE_PRUNE_INTERVAL = "share.coordinator.state.topic.prune.interval.ms"
STATE_COLD_SNAPSHOT_INTERVAL = "share.coordinator.cold.partition.snapshot.interval.ms"
GENERATION_GRACE = "state.log.spark.grace.ms"
SNAPSHOT_UPDATE_RECORDS = "share.coordinator.snapshot.update.records.per.snapshot"

HOUR_MS = 3_600_000
SESSION_DEFAULT_MS = 45_000
NO_DEAD_LETTER_QUEUE = "not in this version: dead-letter topics are left out; remove the setting"


def _triple(
    stem: str,
    documentation: str,
    *,
    default: tuple[int, int, int],
    low: tuple[int, int, int],
    high: tuple[int, int, int],
) -> tuple[ConfigDefinition, ...]:
    """The default for groups, its minimum and its maximum; each tuple is (default, low, high)."""
    return (
        integer(f"group.share.{stem}", f"{documentation} Default for groups.", *default),
        integer(f"group.share.min.{stem}", f"Least that a group may set share.{stem} to.", *low),
        integer(f"group.share.max.{stem}", f"Most that a group may set share.{stem} to.", *high),
    )


TRIPLES = (
    "session.timeout.ms",
    "heartbeat.interval.ms",
    "partition.max.record.locks",
    "delivery.count.limit",
    "record.lock.duration.ms",
    "assignment.interval.ms",
)
"""Stems with a default, a minimum and a maximum."""

_GROUP_SETTINGS = (
    *_triple(
        "session.timeout.ms",
        "Milliseconds without a heartbeat after which a member is removed.",
        default=(SESSION_DEFAULT_MS, 1, INT32_MAX),
        low=(SESSION_DEFAULT_MS, 1, INT32_MAX),
        high=(60_000, 1, INT32_MAX),
    ),
    *_triple(
        "heartbeat.interval.ms",
        "Milliseconds between heartbeats.",
        default=(5_000, 1, INT32_MAX),
        low=(5_000, 1, INT32_MAX),
        high=(15_000, 1, INT32_MAX),
    ),
    integer(MAX_SIZE, "Most members of one share group.", 200, maximum=1_000),
    integer(
        MAX_GROUPS,
        "Most groups of a group coordinator, and most that have settings and do not exist.",
        10_000,
        maximum=100_000,
    ),
    integer(
        MAX_SHARE_SESSIONS,
        "Most share sessions of one principal on one leader; of all together twice as many, or as "
        "many where callers have no names.",
        2_000,
    ),
    *_triple(
        "partition.max.record.locks",
        "Records of a share partition that members may hold at once.",
        default=(2_000, 100, 10_000),
        low=(100, 100, 2_000),
        high=(4_000, 2_000, 10_000),
    ),
    *_triple(
        "delivery.count.limit",
        "Deliveries of a record before it is archived.",
        default=(5, 2, 10),
        low=(2, 2, 5),
        high=(10, 5, 25),
    ),
    *_triple(
        "record.lock.duration.ms",
        "Milliseconds that a delivered record stays locked.",
        default=(30_000, 1_000, HOUR_MS),
        low=(15_000, 1_000, 30_000),
        high=(60_000, 30_000, HOUR_MS),
    ),
    ConfigDefinition(
        "group.share.assignors",
        ValueKind.CHOICE,
        "simple",
        "Assignor of share groups; exactly one: simple (balanced and sticky), or assign-all "
        "(every member gets every partition of its topics).",
        choices=("simple", "assign-all"),
    ),
    *_triple(
        "assignment.interval.ms",
        "Milliseconds at least between two assignments of a group.",
        default=(1_000, 0, INT32_MAX),
        low=(0, 0, INT32_MAX),
        high=(15_000, 0, INT32_MAX),
    ),
    ConfigDefinition(
        ASSIGNOR_OFFLOAD_ENABLE,
        ValueKind.CHOICE,
        "false",
        "Whether assignments are computed off the coordinator's loop; only false in this version.",
        choices=("false",),
    ),
    integer(
        INITIALIZE_RETRY_INTERVAL,
        "Milliseconds after which an unanswered initialization of share partitions is repeated.",
        30_000,
    ),
    integer(
        STREAM_LINGER,
        "Milliseconds after the end of a member's heartbeat stream until it counts as gone.",
        5_000,
        minimum=0,
    ),
    integer(
        JOIN_WAIT_LIMIT,
        "Most milliseconds that a first heartbeat may be held until the assignment is there.",
        5_000,
        minimum=0,
        maximum=60_000,
    ),
    integer(
        "share.fetch.purgatory.purge.interval.requests",
        "Waiting fetches between two purges of finished ones.",
        1_000,
    ),
)

_COORDINATOR_SETTINGS = (
    integer(
        "share.coordinator.state.topic.num.partitions",
        "Shards of the share state; fixed when the cluster is created.",
        50,
        maximum=10_000,
    ),
    integer(
        STATE_SEGMENT_BYTES, "Bytes after which a segment of the state log is closed.", 104_857_600
    ),
    integer(
        SNAPSHOT_UPDATE_RECORDS,
        "Update records of a share partition between two snapshots.",
        500,
        minimum=0,
        maximum=500,
    ),
    integer("share.coordinator.threads", "Share-coordinator processes' loops.", 1, maximum=64),
    integer(
        STATE_WRITE_TIMEOUT, "Milliseconds after which a write to the state log is given up.", 5_000
    ),
    integer(
        "share.coordinator.load.buffer.size", "Bytes read at once when a shard loads.", 5_242_880
    ),
    integer(
        STATE_APPEND_LINGER,
        "Milliseconds to wait for more records before a commit, below the write time-out; 0 does "
        "not wait; -1 waits up to 10 for as many as came of late, if those were more than three, "
        "while they keep coming.",
        -1,
        minimum=-1,
    ),
    integer(
        "share.coordinator.cached.buffer.max.bytes",
        "Bytes of write buffer kept between commits.",
        1_048_588,
        minimum=524_288,
    ),
    integer(STATE_PRUNE_INTERVAL, "Milliseconds between two prunings of the state log.", 300_000),
    integer(
        STATE_COLD_SNAPSHOT_INTERVAL,
        "Age in milliseconds at which a share partition's snapshot is written again.",
        300_000,
    ),
    integer(
        GENERATION_GRACE,
        "Milliseconds without a new generation after which pruning no longer waits for one.",
        7 * 24 * HOUR_MS,
    ),
    ConfigDefinition(
        "errors.deadletterqueue.topic.name.prefix",
        ValueKind.TEXT,
        "dlq.",
        "What names of dead-letter topics begin with.",
        unsupported=NO_DEAD_LETTER_QUEUE,
    ),
    ConfigDefinition(
        "errors.deadletterqueue.auto.create.topics.enable",
        ValueKind.BOOLEAN,
        "false",
        "Whether missing dead-letter topics are created.",
        unsupported=NO_DEAD_LETTER_QUEUE,
    ),
)

CLUSTER_CONFIGS = by_name((*_GROUP_SETTINGS, *_COORDINATOR_SETTINGS))
"""All settings of the cluster."""
