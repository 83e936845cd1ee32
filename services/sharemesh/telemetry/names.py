"""Every name of a span, an attribute or a metric, and the version of the conventions behind them.

Names under ``messaging.`` are OpenTelemetry's, which are still in development: hence one place.
Names under ``share.`` are Sharemesh's own. Metrics say which rule of the specification, or which
metric of Apache Kafka, they stand for.
"""

from sharemesh.telemetry.instruments import PERCENT, SECONDS, SIZES, InstrumentKind, Metric

SEMCONV_VERSION = "1.44.0"
SCHEMA_URL = f"https://opentelemetry.io/schemas/{SEMCONV_VERSION}"
SCOPE = "sharemesh"
SYSTEM = "sharemesh"

# ---- attributes ---------------------------------------------------------------------------------

MESSAGING_SYSTEM = "messaging.system"
DESTINATION = "messaging.destination.name"
PARTITION_ID = "messaging.destination.partition.id"  # a string
GROUP_NAME = "messaging.consumer.group.name"
CLIENT_ID = "messaging.client.id"
OPERATION_NAME = "messaging.operation.name"
OPERATION_TYPE = "messaging.operation.type"
RECORDS_SAMPLED = "share.records.sampled"
ERROR_TYPE = "error.type"
LEADER_EPOCH = "share.leader.epoch"
ACQUIRED_COUNT = "share.acquired.count"
RANGES_FIRST = "share.ranges.first"
RANGES_LAST = "share.ranges.last"
RANGES_DELIVERY_COUNT = "share.ranges.delivery_count"
RANGES_TRUNCATED = "share.ranges.truncated"
LINKS_DROPPED = "share.links.dropped"
ACK_COUNTS = {1: "share.ack.accepted", 2: "share.ack.released", 3: "share.ack.rejected",
              4: "share.ack.renewed"}  # fmt: skip
EXPIRED_COUNT = "share.expired.count"
ARCHIVED_COUNT = "share.archived.count"
RELEASED_COUNT = "share.released.count"
RETURNED_COUNT = "share.returned.count"
STATE_EPOCH = "share.state.epoch"
STATE_BATCHES = "share.state.batches"
RPC_SYSTEM = "rpc.system.name"
RPC_METHOD = "rpc.method"
RPC_STATUS = "rpc.response.status_code"
RPC_PACKAGE = "sharemesh.v1"
KAFKA_API_VERSION = "share.kafka.api.version"
PLACEMENT_CHANGES = "share.placement.changes"
MOVES = "share.placement.moves"
COORDINATOR_KIND = "share.coordinator.kind"
COORDINATOR_SHARD = "share.coordinator.shard"
COORDINATOR_EPOCH = "share.coordinator.epoch"
K8S_NAMESPACE = "k8s.namespace.name"
OBJECT_KIND = "share.operator.object.kind"
OBJECT_NAME = "share.operator.object.name"
OBJECT_GENERATION = "share.operator.object.generation"
RECONCILE_OUTCOME = "share.operator.outcome"
RANGES_MAX = 32
"""Ranges listed on one span; more set ``share.ranges.truncated``."""

SAMPLED_MAX = 128
"""Sampled records named on one span."""

# ---- spans: "{operation} {topic}" ------------------------------------------------------------

ACQUIRE = "acquire"
SETTLE = "settle"
RELEASE = "release"
LOCK_TIMEOUT = "lock_timeout"
INITIALIZE = "initialize"
LEADER_CHANGE = "leader_change"
WRITE_STATE = "sharemesh.v1.ShareCoordinator/WriteShareGroupState"
PLACEMENT = "placement"
SHARD_CHANGE = "shard_change"
RECONCILE = "reconcile"

# ---- metrics ------------------------------------------------------------------------------------

_GROUP_TOPIC = ("group", "topic", "partition")


def _counter(name: str, unit: str, says: str, *labels: str) -> Metric:
    return Metric(name, InstrumentKind.COUNTER, unit, says, labels)


def _gauge(name: str, unit: str, says: str, *labels: str) -> Metric:
    return Metric(name, InstrumentKind.GAUGE, unit, says, labels)


def _seconds(name: str, says: str, *labels: str) -> Metric:
    return Metric(name, InstrumentKind.HISTOGRAM, "s", says, labels, SECONDS)


def _sizes(name: str, unit: str, says: str, *labels: str) -> Metric:
    return Metric(
        name, InstrumentKind.HISTOGRAM, unit, says, labels, PERCENT if unit == "%" else SIZES
    )


RECORDS_ACQUIRED = _counter(
    "share.records.acquired", "{record}", "records given to members", *_GROUP_TOPIC
)
RECORDS_REDELIVERED = _counter(
    "share.records.redelivered", "{record}", "of these, not for the first time", *_GROUP_TOPIC
)
RECORDS_ACKNOWLEDGED = _counter(
    "share.records.acknowledged",
    "{record}",
    "offsets of successful acknowledgements by type, gaps not counted (MET-1)",
    *_GROUP_TOPIC,
    "type",
)
ACKNOWLEDGEMENTS_FAILED = _counter(
    "share.acknowledgements.failed",
    "{acknowledgement}",
    "acknowledgements of a partition that were refused or not made durable",
    *_GROUP_TOPIC,
)
LOCKS_EXPIRED = _counter(
    "share.locks.expired", "{record}", "records whose lock expired (MET-2, LK-10)", *_GROUP_TOPIC
)
RECORDS_RELEASED = _counter(
    "share.records.released",
    "{record}",
    "records given back because their member's session ended",
    *_GROUP_TOPIC,
)
RECORDS_RETURNED = _counter(
    "share.records.returned",
    "{record}",
    "records given back that no application had seen, so that their delivery does not count "
    "(HBK-2); not among the acknowledged ones",
    *_GROUP_TOPIC,
)
RECORDS_ARCHIVED = _counter(
    "share.records.archived",
    "{record}",
    "records that will not be delivered again without having been accepted, by cause",
    *_GROUP_TOPIC,
    "cause",
)
DELIVERY_ATTEMPTS = _sizes(
    "share.delivery.attempts", "{delivery}", "delivery count at each acquisition", "group", "topic"
)
ACQUIRE_DURATION = _seconds(
    "share.acquire.duration",
    "from fetch lock to acquired, log read included (MET-1 TopicPartitionsAcquireTimeMs)",
    "group",
)
FETCH_PARTITIONS_LOCKED = _sizes(
    "share.fetch.partitions.locked",
    "%",
    "share of the requested partitions that a fetch could lock "
    "(MET-1 RequestTopicPartitionsFetchRatio)",
    "group",
)
FETCH_LOCK_DURATION = _seconds(
    "share.fetch.lock.duration", "how long a fetch lock was held (MET-2)", "group", "topic"
)
FETCH_LOCK_BUSY = _sizes(
    "share.fetch.lock.busy",
    "%",
    "share of time for which the fetch lock was held since it was taken before (MET-2)",
    "group",
    "topic",
)
PARTITION_LOAD_DURATION = _seconds(
    "share.partition.load.duration", "initialization of a share partition (MET-1)"
)
ACK_LATENCY = _seconds(
    "share.ack.latency", "from acquisition to the durable acknowledgement", "group", "topic"
)
ACKNOWLEDGE_DURATION = _seconds(
    "share.acknowledge.duration", "from the acknowledgement to its durable answer", "group"
)
STATE_WRITE_DURATION = _seconds(
    "share.state.write.duration", "a state write as its leader sees it, retries included"
)
STATE_WRITE_BATCHES = _sizes(
    "share.state.write.batches", "{batch}", "state batches in one write of a share partition"
)
STATE_WRITE_FAILURES = _counter(
    "share.state.write.failures", "{write}", "state writes that failed, by error", "error"
)
INVARIANTS_CHECKED = _counter(
    "share.invariants.checked", "{look}", "looks of a leader at one of its share partitions"
)
INVARIANTS_BROKEN = _counter(
    "share.invariants.broken", "{look}", "looks that found a state which no rule allows"
)
INFLIGHT_RECORDS = _gauge(
    "share.inflight.records", "{record}", "offsets from start to end (MET-2, VOC-5)", *_GROUP_TOPIC
)
INFLIGHT_BATCHES = _gauge(
    "share.inflight.batches", "{batch}", "cached batches (MET-2)", *_GROUP_TOPIC
)
DELAYED_RECORDS = _gauge(
    "share.records.delayed",
    "{record}",
    "records that were released and wait before they are delivered again (RTY-12)",
    *_GROUP_TOPIC,
)
RUNS_USED = _gauge(
    "share.runs.used",
    "1",
    "runs and held records over share.partition.max.runs, from 1 on nothing above the end offset "
    "goes out; 0 if the limit counts a span (WIN-10)",
    *_GROUP_TOPIC,
)
INFLIGHT_BATCH_RECORDS = _sizes(
    "share.inflight.batch.records",
    "{record}",
    "records of a batch as it enters the cache, initialization included (MET-2)",
    "group",
    "topic",
)
OLDEST_ACQUIRED_AGE = _gauge(
    "share.acquired.oldest.age",
    "s",
    "since the oldest running lock was granted or renewed; 0 without locks",
    *_GROUP_TOPIC,
)
BACKLOG_RECORDS = _gauge(
    "share.backlog.records",
    "{record}",
    "offsets from the start offset to the high watermark that are not finished (lag)",
    *_GROUP_TOPIC,
)
BACKLOG_AGE = _gauge(
    "share.backlog.age",
    "s",
    "how long the next record to deliver has been in the log, at most 1 s too low",
    *_GROUP_TOPIC,
)
GROUP_PAUSED = _gauge(
    "share.group.paused",
    "1",
    "1 while nothing is delivered because the group is paused (PAU-4), else 0",
    *_GROUP_TOPIC,
)
FETCH_REQUESTS = _counter(
    "share.fetch.requests", "{request}", "fetches, once for each of their topics (MET-3)", "topic"
)
FETCH_FAILURES = _counter(
    "share.fetch.failures", "{request}", "of these, with a failed partition (MET-3)", "topic"
)
ACKNOWLEDGE_REQUESTS = _counter(
    "share.acknowledge.requests",
    "{request}",
    "acknowledging requests, once for each of their topics (MET-3)",
    "topic",
)
ACKNOWLEDGE_FAILURES = _counter(
    "share.acknowledge.failures", "{request}", "of these, with a failed partition (MET-3)", "topic"
)
SESSIONS = _gauge("share.sessions", "{session}", "open share sessions (MET-4)")
SESSION_PARTITIONS = _gauge(
    "share.session.partitions", "{partition}", "partitions of all sessions (MET-4)"
)
STALLED_MEMBERS = _gauge(
    "share.members.stalled",
    "{member}",
    "members on streams that get nothing: they let locks end and were not heard of since (HBK-11)",
)
SESSIONS_EVICTED = _counter(
    "share.sessions.evicted", "{session}", "sessions ended by loss of their connection (MET-4)"
)
FETCHES_WAITING = _gauge(
    "share.fetches.waiting", "{fetch}", "share partitions that a long poll waits for (MET-4)"
)
FETCHES_DELAYED = _gauge(
    "share.fetches.delayed", "{fetch}", "fetches that wait for records (MET-4)"
)
FETCHES_EXPIRED = _counter(
    "share.fetches.expired", "{fetch}", "fetches that waited as long as they may (MET-4)"
)
STREAMS = _gauge("share.streams", "{stream}", "open Consume and HoldSession streams")
UNSENT_BYTES = _gauge(
    "share.streams.unsent.bytes",
    "By",
    "records that were acquired and wait to be sent on streams (BND-3)",
)
QUOTA_THROTTLE_TIME = _seconds(
    "share.quota.throttle.time", "throttle times that clients were given, by quota", "quota"
)
QUOTA_REFUSALS = _counter(
    "share.quota.refusals", "{refusal}", "what quotas refused, by quota", "quota"
)
KAFKA_REQUEST_DURATION = _seconds(
    "share.kafka.request.duration",
    "requests to the brokers of storage kafka, refused ones too; polls of a watch left out",
    "api",
)
KAFKA_FAILURES = _counter(
    "share.kafka.request.failures",
    "{request}",
    "of these, refused, or without an answer (unreachable), by error",
    "api",
    "error",
)
KAFKA_REQUESTS = _counter(
    "share.kafka.requests",
    "{request}",
    "requests that were sent to brokers, those of watches and logins too",
    "api",
    "broker",
)
KAFKA_THROTTLED = _counter(
    "share.kafka.throttled", "s", "pauses that brokers asked for, because of quotas", "broker"
)
KAFKA_VOID_UNITS = _counter(
    "share.kafka.void.units",
    "{batch}",
    "batches of the state and group topic that were read and do not count (STL-3)",
    "kind",
)
KAFKA_RESTAMPS = _counter(
    "share.kafka.restamps",
    "{unit}",
    "units that others had taken the place of, and that were sent anew (STL-8)",
    "kind",
)
KAFKA_LISTENER_REQUESTS = _counter(
    "share.kafka.listener.requests",
    "{request}",
    "requests of Kafka's clients, by API and version (KLS-12)",
    "api",
    "version",
)
KAFKA_LISTENER_CONNECTIONS = _gauge(
    "share.kafka.listener.connections", "{connection}", "open connections of Kafka's clients"
)
KAFKA_LISTENER_CLOSED = _counter(
    "share.kafka.listener.closed",
    "{connection}",
    "connections of Kafka's clients that were closed here, by reason (KLS-4 to KLS-7)",
    "reason",
)
KAFKA_LISTENER_LOGINS = _counter(
    "share.kafka.listener.logins",
    "{login}",
    "logins of Kafka's clients, by mechanism and outcome: done or refused (KLS-23)",
    "mechanism",
    "outcome",
)
STORAGE_PROBLEMS = _gauge(
    "share.kafka.storage.problems",
    "{problem}",
    "what is wrong with the state and group topic, and shards that are not served after a loss",
)
RECORDS_PRODUCED = _counter("share.records.produced", "{record}", "records appended")
BYTES_PRODUCED = _counter("share.bytes.produced", "By", "bytes of record batches appended")
BYTES_DELIVERED = _counter("share.bytes.delivered", "By", "bytes of record batches given out")
LED_PARTITIONS = _gauge("share.partitions.led", "{partition}", "topic-partitions led here")
UNLED_PARTITIONS = _gauge(
    "share.partitions.unled", "{partition}", "topic-partitions of the cluster without a leader"
)
LEADER_CHANGES = _counter(
    "share.leader.changes", "{change}", "topic-partitions taken over by this process"
)
LEADER_CHANGE_DURATION = _seconds(
    "share.leader.change.duration", "from the claim of a topic-partition to serving it"
)
GROUPS = _gauge("share.groups", "{group}", "groups by state (MET-5)", "state")
GROUP_MEMBERS = _gauge("share.group.members", "{member}", "members of all groups")
GROUP_EPOCHS = _counter(
    "share.group.rebalances", "{rebalance}", "raises of a group's epoch (MET-5)"
)
SHARDS = _gauge(
    "share.coordinator.shards",
    "{shard}",
    "shards of this process by state (MET-6)",
    "kind",
    "state",
)
LAST_PRUNED_OFFSET = _gauge(
    "share.coordinator.log.start",
    "{offset}",
    "first offset of a shard's log that was not pruned (MET-6)",
    "kind",
    "shard",
)
COORDINATOR_LOG_LENGTH = _gauge(
    "share.coordinator.log.length", "{offset}", "offsets in a shard's log", "kind", "shard"
)
COORDINATOR_WRITE_DURATION = _seconds(
    "share.coordinator.write.duration",
    "a request that changed something, reads that raise the leader epoch among them, from its "
    "arrival to its durable answer (MET-6)",
    "kind",
)
COMMIT_DURATION = _seconds(
    "share.coordinator.commit.duration", "one group commit, fsync included (MET-6)", "kind"
)
COMMIT_RECORDS = _sizes(
    "share.coordinator.commit.records", "{record}", "records of one group commit", "kind"
)
COMMIT_REQUESTS = _sizes(
    "share.coordinator.commit.requests", "{request}", "requests answered by one commit", "kind"
)
COORDINATOR_QUEUE = _gauge(
    "share.coordinator.queue", "{request}", "requests that wait for a commit (MET-6)", "kind"
)
SHARD_LOAD_DURATION = _seconds(
    "share.coordinator.load.duration", "take-over and load of a shard (MET-6)", "kind"
)
PLACEMENT_MOVES = _counter("share.placement.moves", "{move}", "assignments written to balance load")
RECONCILE_DURATION = _seconds(
    "share.operator.reconcile.duration",
    "a round of the operator for one custom resource",
    "kind",
    "outcome",
)
CONTROLLER_ELECTED = _gauge(
    "share.controller.elected", "1", "1 at the elected controller, else 0; the sum should be 1"
)
RPC_DURATION = _seconds("rpc.server.call.duration", "calls answered, long polls included", "method")
RPC_STREAMS = _counter("rpc.server.streams", "{stream}", "streams opened", "method")
SESSION_MARGIN = _gauge(
    "share.session.margin", "s", "how long this process's lease may still be trusted"
)
LOOP_LAG = _seconds("share.loop.lag", "how much too late the event loop woke a sleeper (MET-6)")
LOOP_IDLE = _sizes(
    "share.loop.idle", "%", "share of time for which the event loop had nothing to do (MET-6)"
)
MEMORY = _gauge("process.memory.usage", "By", "resident memory")
CPU = _counter("process.cpu.time", "s", "processor time used")
SPANS_FINISHED = _counter("share.telemetry.spans", "{span}", "spans queued for export")
SPANS_DROPPED = _counter(
    "share.telemetry.spans.dropped", "{span}", "spans lost to a full queue or a failing collector"
)
SPANS_QUEUED = _gauge("share.telemetry.spans.queued", "{span}", "spans that wait for export")
AUDIT_LINES = _counter("share.audit.lines", "{line}", "lines queued for the audit log (AUD-5)")
AUDIT_FOLDED = _counter(
    "share.audit.folded",
    "{event}",
    "refusals, failed changes and looks that were counted in another line (AUD-6)",
)
AUDIT_DROPPED = _counter(
    "share.audit.dropped",
    "{line}",
    "lines of the audit log lost to a full queue or a failing destination (AUD-8)",
)
SERIES_OVERFLOWS = _counter(
    "share.telemetry.series.overflows", "{series}", "series counted under the value other"
)


def metrics() -> tuple[Metric, ...]:
    """Return every metric that the servers know, by name."""
    found = [value for value in globals().values() if isinstance(value, Metric)]
    return tuple(sorted(found, key=lambda metric: metric.name))
