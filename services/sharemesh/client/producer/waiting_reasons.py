"""What records that are not confirmed wait for, in words."""

from collections.abc import Iterable

from sharemesh.client.metadata.metadata_cache import MetadataCache
from sharemesh.client.producer.batches import PartitionQueue

TOLD_MAX = 3
"""Partitions that are named."""


def awaited(
    leaders: MetadataCache, queues: Iterable[PartitionQueue], topic: str, partition: int | None
) -> str:
    """Return what records of a topic, or of one partition of it, wait for."""
    if leaders.topic(topic) is None:
        return f"metadata of topic {topic}; {leaders.trouble or 'it may not exist'}"
    found = [
        _of(leaders, queue)
        for queue in queues
        if queue.topic == topic and queue.batches and partition in (None, queue.partition)
    ]
    return "; ".join(found[:TOLD_MAX]) or f"topic {topic}: the answer is on its way"


def _of(leaders: MetadataCache, queue: PartitionQueue) -> str:
    leader = queue.asked
    if leader is None:
        return f"{queue.topic}/{queue.partition}: it has no leader"
    address = leaders.address(leader.node_id) or "an unknown address"
    refusal = f"; its last answer was: {queue.last_refusal}" if queue.last_refusal else ""
    return f"{queue.topic}/{queue.partition}: leader {leader.node_id} at {address}{refusal}"
