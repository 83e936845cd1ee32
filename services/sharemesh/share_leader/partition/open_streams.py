"""Streams that are open at a leader: whom a drain notice concerns."""

import asyncio
from collections.abc import Container, Iterable
from typing import Protocol

from sharemesh.domain.ids import GroupId, MemberId, TopicPartition
from sharemesh.share_leader.partition.hand_over_notices import HandOverNotices
from sharemesh.v1.common_pb2 import TopicPartitions


class OpenStream(Protocol):
    """A Consume or HoldSession stream."""

    @property
    def hand_overs(self) -> HandOverNotices | None:
        """What is said of hand-overs; None: the member does not go on at the next leader."""
        ...

    def notify_draining(self, partitions: frozenset[TopicPartition]) -> None:
        """Tell the client which of these it uses: they will move."""
        ...

    def notify_led(self, partition: TopicPartition) -> None:
        """The partition is led here from now on."""
        ...

    def take_back(self, partition: TopicPartition) -> None:
        """Give back what waits to be sent of a partition, before locks are handed over."""
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

    def take_back(self, partition: TopicPartition) -> None:
        """Let every stream give back what waits to be sent of a partition (HND-5)."""
        for stream in list(self._open):
            stream.take_back(partition)

    def notify_handed_over(
        self,
        partition: TopicPartition,
        leader_epoch: int,
        group_id: GroupId,
        members: Container[MemberId],
    ) -> None:
        """Tell the streams of members whose locks were handed over (HND-9)."""
        for notices in self.following():
            key = notices.session.key
            if key.group_id == group_id and key.member_id in members:
                notices.handed_over(partition, leader_epoch)

    def following(self) -> list[HandOverNotices]:
        """Return the streams of members that go on at the next leader."""
        return [notices for stream in self._open if (notices := stream.hand_overs) is not None]

    async def until_told(self) -> None:
        """Return once all members have heard of the hand-overs that concern them."""
        await asyncio.gather(*(notices.until_told() for notices in self.following()))

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
