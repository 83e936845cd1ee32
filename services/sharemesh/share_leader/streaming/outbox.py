"""What a Consume stream has to say next; small, so that a slow reader costs no memory."""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from sharemesh.domain.ids import TopicId, TopicPartition
from sharemesh.share_leader.partition.open_streams import topics_message
from sharemesh.v1 import share_leader_pb2 as pb
from sharemesh.v1.common_pb2 import Node


class Outgoing(NamedTuple):
    """A message with the size of its records: to tell its own, protobuf would encode it whole."""

    message: pb.ConsumeResponse
    record_bytes: int


class Outbox:
    """Messages with records, bounded; results of acknowledgements and notices ride on them.

    Attributes:
        waiting_bytes: Of the records in all messages that wait.
    """

    def __init__(self, max_messages: int) -> None:
        self._max_messages = max_messages
        self._messages: deque[Outgoing] = deque()
        self.waiting_bytes = 0
        self._acknowledged: list[pb.ConsumeAcknowledged] = []
        self._nodes: dict[str, Node] = {}
        self._draining: set[TopicPartition] = set()
        self._next_leaders: dict[TopicPartition, str] = {}
        self._handed_over: dict[TopicPartition, int] = {}
        self._changed = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()
        self._closed = False

    def put(self, message: pb.ConsumeResponse, record_bytes: int = 0) -> None:
        """Add a message with records or errors."""
        self._messages.append(Outgoing(message, record_bytes))
        self.waiting_bytes += record_bytes
        if len(self._messages) >= self._max_messages:
            self._room.clear()
        self._changed.set()

    def withhold(
        self, is_lost: Callable[[TopicPartition], bool]
    ) -> dict[TopicPartition, list[pb.ShareFetchPartition]]:
        """Take records of such partitions out of what waits, and return them (AUT-6)."""
        lost: dict[TopicPartition, list[pb.ShareFetchPartition]] = {}
        waiting, self._messages = self._messages, deque()
        self.waiting_bytes = 0
        for message, record_bytes in waiting:
            if not message.responses:  # the last word of the stream
                self.put(message)
                continue
            left_bytes = record_bytes
            for topic in message.responses:
                for each in tuple(topic.partitions):
                    partition = TopicPartition(TopicId(topic.topic_id), each.partition)
                    if each.acquired_records and is_lost(partition):
                        lost.setdefault(partition, []).append(each)
                        topic.partitions.remove(each)
                        left_bytes -= record_bytes_of(each)
            if any(topic.partitions for topic in message.responses):
                self.put(message, left_bytes)
        if len(self._messages) < self._max_messages:
            self._room.set()
        return lost

    def put_acknowledged(self, result: pb.ConsumeAcknowledged, nodes: Iterable[Node]) -> None:
        """Add the result of one acknowledgement."""
        self._acknowledged.append(result)
        for node in nodes:
            self._nodes[node.node_id] = node
        self._changed.set()

    def put_draining(
        self, partitions: Iterable[TopicPartition], next_leaders: Mapping[TopicPartition, Node]
    ) -> None:
        """Add a drain notice; ``next_leaders`` where they are named."""
        self._draining.update(partitions)
        for partition, node in next_leaders.items():
            self._next_leaders[partition] = node.node_id
            self._nodes[node.node_id] = node
        if self._draining:
            self._changed.set()

    def put_handed_over(self, partition: TopicPartition, leader_epoch: int) -> None:
        """Add that the member's locks in a partition live on at the next leader (HND-9)."""
        self._handed_over[partition] = leader_epoch
        self._changed.set()

    async def room(self) -> None:
        """Return once fewer messages than the bound wait to be sent."""
        await self._room.wait()

    def close(self) -> None:
        """Nothing more will be put: ``take`` returns None once all was taken."""
        self._closed = True
        self._changed.set()

    async def take(self) -> Outgoing | None:
        """Return the next message, with everything small that waits; None when closed."""
        while not (self._messages or self._acknowledged or self._draining or self._handed_over):
            if self._closed:
                return None
            self._changed.clear()
            await self._changed.wait()
        outgoing = self._messages.popleft() if self._messages else Outgoing(pb.ConsumeResponse(), 0)
        message, record_bytes = outgoing
        self.waiting_bytes -= record_bytes
        self._room.set()
        if self._acknowledged:
            message.acknowledged.extend(self._acknowledged)
            self._acknowledged.clear()
        if self._draining:
            message.draining.extend(topics_message(self._draining))
            self._draining.clear()
            for partition, node_id in self._next_leaders.items():
                message.next_leaders.add(
                    topic_id=partition.topic_id, partition=partition.partition, node_id=node_id
                )
            self._next_leaders.clear()
        if self._handed_over:
            for partition, leader_epoch in self._handed_over.items():
                message.handed_over.add(
                    topic_id=partition.topic_id,
                    partition=partition.partition,
                    leader_epoch=leader_epoch,
                )
            self._handed_over.clear()
        if self._nodes:
            message.node_endpoints.extend(self._nodes.values())
            self._nodes.clear()
        return outgoing


def record_bytes_of(entry: pb.ShareFetchPartition) -> int:
    """Return the size of the records of one partition, in either form."""
    return len(entry.records) + sum(each.ByteSize() for each in entry.decoded_records)
