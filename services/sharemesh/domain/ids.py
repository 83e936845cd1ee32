"""What things are called: groups, members, nodes, share partitions, and their epochs."""

from dataclasses import dataclass
from typing import NewType

GroupId = NewType("GroupId", str)
MemberId = NewType("MemberId", str)
NodeId = NewType("NodeId", str)
TopicId = NewType("TopicId", bytes)  # 16 bytes, a UUID

MAX_GROUP_ID_CHARS = 1_000
"""Longest group id, inclusive, wherever one is given."""


@dataclass(frozen=True, slots=True, order=True)
class TopicPartition:
    """One partition of a topic, by topic id."""

    topic_id: TopicId
    partition: int


@dataclass(frozen=True, slots=True, order=True)
class SharePartitionKey:
    """One partition of a topic as seen by one share group (spec VOC-2)."""

    group_id: GroupId
    topic_id: TopicId
    partition: int

    @property
    def topic_partition(self) -> TopicPartition:
        """The topic-partition that this share partition reads."""
        return TopicPartition(self.topic_id, self.partition)
