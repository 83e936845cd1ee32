"""The metrics of a group's share partitions: series of one group and topic, held together."""

from sharemesh.domain.delivery_state import AcknowledgeType, Cause
from sharemesh.domain.errors import ErrorCode
from sharemesh.domain.ids import SharePartitionKey
from sharemesh.telemetry import names
from sharemesh.telemetry.instruments import Counter
from sharemesh.telemetry.telemetry import Telemetry

ARCHIVED_BY = (Cause.REJECT, Cause.DELIVERY_LIMIT, Cause.LOG_START, Cause.GAP)

FENCING = (ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.FENCED_STATE_EPOCH)


class ShareSeries:
    """Counters and histograms of one share partition; shared by those with the same labels."""

    def __init__(self, telemetry: Telemetry, key: SharePartitionKey, topic: str) -> None:
        registry = telemetry.registry
        group = key.group_id
        labels = (group, topic, telemetry.partition_label(key.partition))
        self.acquired = registry.counter(names.RECORDS_ACQUIRED, *labels)
        self.redelivered = registry.counter(names.RECORDS_REDELIVERED, *labels)
        self.failed = registry.counter(names.ACKNOWLEDGEMENTS_FAILED, *labels)
        self.expired = registry.counter(names.LOCKS_EXPIRED, *labels)
        self.released = registry.counter(names.RECORDS_RELEASED, *labels)
        self.returned = registry.counter(names.RECORDS_RETURNED, *labels)
        self.acknowledged: dict[int, Counter] = {
            int(kind): registry.counter(names.RECORDS_ACKNOWLEDGED, *labels, kind.name.lower())
            for kind in AcknowledgeType
            if kind is not AcknowledgeType.GAP
        }
        self.archived = {
            cause: registry.counter(names.RECORDS_ARCHIVED, *labels, cause.name.lower())
            for cause in ARCHIVED_BY
        }
        self.attempts = registry.histogram(names.DELIVERY_ATTEMPTS, group, topic)
        self.batch_records = registry.histogram(names.INFLIGHT_BATCH_RECORDS, group, topic)
        self.lock_duration = registry.histogram(names.FETCH_LOCK_DURATION, group, topic)
        self.lock_busy = registry.histogram(names.FETCH_LOCK_BUSY, group, topic)
        self.ack_latency = registry.histogram(names.ACK_LATENCY, group, topic)
        self.acquire_duration = registry.histogram(names.ACQUIRE_DURATION, group)
        self.acknowledge_duration = registry.histogram(names.ACKNOWLEDGE_DURATION, group)
        self.load_duration = registry.histogram(names.PARTITION_LOAD_DURATION)
        self.write_duration = registry.histogram(names.STATE_WRITE_DURATION)
        for error in FENCING:  # so that their rates exist before the first one happens
            registry.counter(names.STATE_WRITE_FAILURES, error.name.lower())
        self.write_batches = registry.histogram(names.STATE_WRITE_BATCHES)
