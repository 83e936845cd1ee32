"""What the application sees of a record (spec CL-10, CL-30)."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple


class TopicIdPartition(NamedTuple):
    """One partition of a topic, with the topic's id: two topics may have had the same name."""

    topic: str
    partition: int
    topic_id: bytes

    def __str__(self) -> str:
        return f"{self.topic}/{self.partition}"


Headers = tuple[tuple[str, bytes | None], ...]
Deserializer = Callable[[bytes], Any]


class ConsumerRecord(NamedTuple):
    """One delivered record.

    A named tuple, because half a million of them may be made in a second.

    Attributes:
        topic: Name of the topic.
        partition: Partition.
        offset: Offset in the partition.
        timestamp_ms: Milliseconds since the epoch.
        key: Deserialized key, or None.
        value: Deserialized value, or None.
        headers: Pairs of name and bytes, in the producer's order.
        delivery_count: How often it was delivered, this time included (spec CL-30).
        leader_epoch: Epoch of the leader that acquired it.
        topic_id: Id of the topic, 16 bytes.
    """

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: Any
    value: Any
    headers: Headers
    delivery_count: int
    leader_epoch: int
    topic_id: bytes

    def __hash__(self) -> int:
        """Return a hash of its place: key and value may be of any kind."""
        return hash((self.topic_id, self.partition, self.offset))

    def __repr__(self) -> str:
        return (
            f"ConsumerRecord({self.topic}/{self.partition}@{self.offset}, key={self.key!r}, "
            f"value={self.value!r}, delivery_count={self.delivery_count})"
        )

    @property
    def topic_id_partition(self) -> TopicIdPartition:
        """Where it comes from."""
        return TopicIdPartition(self.topic, self.partition, self.topic_id)


@dataclass(frozen=True, slots=True)
class AcquiredRange:
    """Offsets ``first_offset..last_offset``, both included, acquired with one delivery count."""

    first_offset: int
    last_offset: int
    delivery_count: int
