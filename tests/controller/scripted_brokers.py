"""Brokers that answer Metadata as a test says, one broker after the other; nothing else."""

from collections.abc import Sequence
from typing import Any

from sharemesh.domain.ids import TopicId
from sharemesh.ports.brokers import (
    NO_TOPIC_ID,
    BrokerAddress,
    BrokerUnreachableError,
    ClusterMetadata,
    PartitionMetadata,
    TopicMetadata,
)

KAFKA_CLUSTER = "kafka-1"
UNKNOWN_TOPIC_OR_PARTITION = 3


class ScriptedBrokers:
    """``topics`` is what all brokers show; ``stale`` is what one of them shows instead."""

    def __init__(self, brokers: int = 3) -> None:
        self.topics: dict[str, tuple[TopicId, int]] = {}
        self.errors: dict[str, int] = {}
        self.left_out: dict[str, None] = {}
        self.stale: dict[int, dict[str, tuple[TopicId, int]]] = {}
        self.cluster_id = KAFKA_CLUSTER
        self.unreachable = False
        self.alone: int | None = None  # the only broker that answers, and names itself only
        self.asked: list[tuple[str, ...]] = []
        self._ids = tuple(range(1, brokers + 1))

    async def metadata(
        self, topics: Sequence[str] = (), *, topic_ids: Sequence[TopicId] = ()
    ) -> ClusterMetadata:
        """Answer as the next broker."""
        if self.unreachable:
            raise BrokerUnreachableError("broker 127.0.0.1:9092 does not answer")
        ids = self._ids if self.alone is None else (self.alone,)
        broker = ids[len(self.asked) % len(ids)]
        self.asked.append(tuple(topics))
        shown = self.stale.get(broker, self.topics)
        answers = [self._answer(name, shown) for name in topics if name not in self.left_out]
        addresses = tuple(BrokerAddress(each, "127.0.0.1", 9_000 + each) for each in ids)
        return ClusterMetadata(self.cluster_id, 1, addresses, tuple(answers), broker)

    def _answer(self, name: str, shown: dict[str, tuple[TopicId, int]]) -> TopicMetadata:
        if name in self.errors:
            return TopicMetadata(name, NO_TOPIC_ID, error=self.errors[name])
        if name not in shown:
            return TopicMetadata(name, NO_TOPIC_ID, error=UNKNOWN_TOPIC_OR_PARTITION)
        topic_id, count = shown[name]
        partitions = tuple(PartitionMetadata(number, 1, 0) for number in range(count))
        return TopicMetadata(name, topic_id, partitions)

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"a mirror asks for metadata only, not for {name}")
