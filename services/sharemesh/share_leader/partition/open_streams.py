"""Streams that are open at a leader: whom a drain notice concerns."""

from collections.abc import Iterable
from typing import Protocol

from sharemesh.domain.ids import GroupId, TopicPartition
from sharemesh.v1.common_pb2 import TopicPartitions


class OpenStream(Protocol):
    """A Consume or HoldSession stream."""

    def notify_draining(self, partitions: frozenset[TopicPartition]) -> None:
        """Tell the client which of these it uses: they will move."""
        ...

    def notify_led(self, partition: TopicPartition) -> None:
        """The partition is led here from now on."""
        ...

    def rights_changed(self) -> None:
        """Access rules have changed: end what the principal may not do any more (AUT-6)."""
        ...

    def group_awaiting(self, partition: TopicPartition) -> GroupId | None:
        """Return the group for which the stream consumes a partition as soon as it is led."""
        ...


class OpenStreams:
    """All open streams of a leader."""

    def __init__(self) -> None:
        self._open: dict[OpenStream, None] = {}

    def __len__(self) -> int:
        return len(self._open)

    def add(self, stream: OpenStream) -> None:
        """Note an open stream."""
        self._open[stream] = None

    def remove(self, stream: OpenStream) -> None:
        """Forget a stream that ended."""
        self._open.pop(stream, None)

    def notify_draining(self, partitions: frozenset[TopicPartition]) -> None:
        """Tell every stream which partitions will move."""
        for stream in list(self._open):
            stream.notify_draining(partitions)

    def notify_led(self, partition: TopicPartition) -> None:
        """Tell every stream that a partition is led here from now on."""
        for stream in list(self._open):
            stream.notify_led(partition)

    def rights_changed(self) -> None:
        """Tell every stream that access rules have changed."""
        for stream in list(self._open):
            stream.rights_changed()

    def groups_awaiting(self, partition: TopicPartition) -> set[GroupId]:
        """Return the groups that consume a partition here as soon as it is led."""
        found = (stream.group_awaiting(partition) for stream in self._open)
        return {group_id for group_id in found if group_id is not None}


def topics_message(partitions: Iterable[TopicPartition]) -> list[TopicPartitions]:
    """Return partitions grouped by topic."""
    topics: dict[bytes, TopicPartitions] = {}
    for partition in sorted(partitions):
        topic = topics.get(partition.topic_id)
        if topic is None:
            topic = topics[partition.topic_id] = TopicPartitions(topic_id=partition.topic_id)
        topic.partitions.append(partition.partition)
    return list(topics.values())
