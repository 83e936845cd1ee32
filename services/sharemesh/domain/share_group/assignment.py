"""Which partitions a member has, by topic."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from sharemesh.domain.ids import TopicId, TopicPartition

Assignment = Mapping[TopicId, tuple[int, ...]]
"""Partitions ascending; topics without partitions are absent, so that equal means equal."""

NOTHING: Assignment = MappingProxyType({})


def nothing() -> Assignment:
    """Return the assignment without partitions."""
    return NOTHING


def assignment_of(partitions: Iterable[TopicPartition]) -> Assignment:
    """Return the assignment that holds exactly these partitions."""
    by_topic: dict[TopicId, list[int]] = {}
    for each in sorted(partitions):
        by_topic.setdefault(each.topic_id, []).append(each.partition)
    return {topic_id: tuple(numbers) for topic_id, numbers in by_topic.items()}


def partitions_of(assignment: Assignment) -> list[TopicPartition]:
    """Return the partitions of an assignment."""
    return [
        TopicPartition(topic_id, number)
        for topic_id, numbers in assignment.items()
        for number in numbers
    ]
