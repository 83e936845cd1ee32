"""Answers of brokers as the values of the port."""

from datetime import UTC, datetime, timedelta

from sharemesh.kafka.messages import KafkaMessage, from_uuid
from sharemesh.ports.brokers import (
    AbortedRange,
    BrokerAddress,
    ClusterMetadata,
    FetchedRecords,
    PartitionMetadata,
    ProducedBatch,
    TopicMetadata,
)

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def cluster_metadata(answer: KafkaMessage, answered_by: BrokerAddress) -> ClusterMetadata:
    """Return a Metadata answer; a bootstrap server gets its id from it."""
    brokers = tuple(
        BrokerAddress(each.node_id, each.host, each.port, each.rack or "")
        for each in answer.brokers
    )
    asked = answered_by.host, answered_by.port
    itself = next((each.broker_id for each in brokers if (each.host, each.port) == asked), -1)
    return ClusterMetadata(
        cluster_id=answer.cluster_id or "",
        controller=answer.controller_id,
        brokers=brokers,
        topics=tuple(_topic_metadata(each) for each in answer.topics),
        answered_by=itself if answered_by.broker_id < 0 else answered_by.broker_id,
    )


def _topic_metadata(topic: KafkaMessage) -> TopicMetadata:
    return TopicMetadata(
        topic=topic.name or "",
        topic_id=from_uuid(getattr(topic, "topic_id", None)),
        partitions=tuple(
            PartitionMetadata(
                each.partition_index,
                each.leader_id,
                each.leader_epoch,
                tuple(each.replica_nodes),
                tuple(each.isr_nodes),
            )
            for each in topic.partitions
        ),
        is_internal=topic.is_internal,
        error=int(topic.error_code),
    )


def produced_batch(found: KafkaMessage) -> ProducedBatch:
    """Return a partition of a Produce answer."""
    at = found.log_append_time
    return ProducedBatch(
        base_offset=found.base_offset,
        log_append_time_ms=-1 if at is None else (at - _EPOCH) // timedelta(milliseconds=1),
        log_start_offset=found.log_start_offset,
    )


def fetched_records(found: KafkaMessage, asked_epoch: int) -> FetchedRecords:
    """Return a partition of a Fetch answer; ``asked_epoch`` is the leader epoch that was named."""
    diverging = getattr(found, "diverging_epoch", None)
    leader = getattr(found, "current_leader", None)
    told_epoch = -1 if leader is None else leader.leader_epoch
    return FetchedRecords(
        records=found.records or b"",
        high_watermark=found.high_watermark,
        last_stable_offset=found.last_stable_offset,
        log_start_offset=found.log_start_offset,
        aborted=tuple(
            AbortedRange(each.producer_id, each.first_offset)
            for each in found.aborted_transactions or ()
        ),
        diverging=(
            None
            if diverging is None or diverging.end_offset < 0
            else (diverging.epoch, diverging.end_offset)
        ),
        leader_epoch=asked_epoch if told_epoch < 0 else told_epoch,
        preferred_replica=getattr(found, "preferred_read_replica", -1),
    )
