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


class ConsumerRecord:
    """One delivered record.

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

    __slots__ = (
        "delivery_count",
        "headers",
        "key",
        "leader_epoch",
        "offset",
        "partition",
        "timestamp_ms",
        "topic",
        "topic_id",
        "value",
    )

    def __init__(  # noqa: PLR0913
        self,
        source: TopicIdPartition,
        offset: int,
        timestamp_ms: int,
        key: Any,  # noqa: ANN401
        value: Any,  # noqa: ANN401
        headers: Headers,
        delivery_count: int,
        *,
        leader_epoch: int,
    ) -> None:
        self.topic, self.partition, self.topic_id = source
        self.offset = offset
        self.timestamp_ms = timestamp_ms
        self.key = key
        self.value = value
        self.headers = headers
        self.delivery_count = delivery_count
        self.leader_epoch = leader_epoch

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
class Acquired:
    """Offsets ``first_offset..last_offset``, both included, acquired with one delivery count."""

    first_offset: int
    last_offset: int
    delivery_count: int
