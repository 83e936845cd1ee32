"""Builds the per-partition part of fetch and acknowledge answers (spec WIRE-2, REQ-7)."""

from collections.abc import Mapping
from typing import Generic, TypeVar

from sharemesh.authorization.slices import UNITS_OF_A_SLICE
from sharemesh.codec.decoded_records import (
    LOOKED_AT,
    DecodedItems,
    Undecodable,
    decode_records,
)
from sharemesh.domain.errors import ErrorCode, RefusedError
from sharemesh.domain.ids import TopicPartition
from sharemesh.ports.cluster import ClusterView
from sharemesh.share_leader.failures import Outcome
from sharemesh.share_leader.partition.led_partitions import Redirects
from sharemesh.share_leader.requests.acquisition import PartitionFetch
from sharemesh.share_leader.unpacking import OpenedBatches
from sharemesh.v1 import share_leader_pb2 as pb
from sharemesh.v1.common_pb2 import Node

BYTES_OF_A_UNIT = 2 * 1024
"""Of a decoded record: they take about as long as a record."""

Message = TypeVar("Message", pb.ShareFetchResponse, pb.ConsumeResponse)


class FetchResponse(Generic[Message]):
    """The partitions of one response, grouped by topic, each once; written into the message.

    Attributes:
        message: What the client gets; whoever sends it adds the rest.
        record_bytes: Size of all records that were added, in either form.
    """

    def __init__(
        self,
        message: Message,
        view: ClusterView,
        batches: dict[TopicPartition, bytes] | None = None,
    ) -> None:
        """Records are copied once, into ``message``: a list of topics would copy them again.

        With ``batches`` they are not copied at all: batches go there.
        """
        self.message: Message = message
        self.record_bytes = 0
        self._redirects = Redirects(view)
        self._batches = batches
        self._items = DecodedItems()
        self._topics: dict[bytes, pb.ShareFetchTopic] = {}
        self._entries: dict[TopicPartition, pb.ShareFetchPartition] = {}

    def __contains__(self, partition: TopicPartition) -> bool:
        return partition in self._entries

    def entry(self, partition: TopicPartition) -> pb.ShareFetchPartition:
        """Return the partition's entry; a new one has no error and no records."""
        entry = self._entries.get(partition)
        if entry is None:
            topic = self._topics.get(partition.topic_id)
            if topic is None:
                topic = self.message.responses.add(topic_id=partition.topic_id)
                self._topics[partition.topic_id] = topic
            entry = topic.partitions.add(partition=partition.partition)
            self._entries[partition] = entry
        return entry

    async def add_taken(self, taken: PartitionFetch, opened: OpenedBatches | None) -> None:
        """Add what was acquired from a partition, or its error; decoded if batches are open."""
        if taken.error:
            self.add_error(taken.partition, (taken.error, taken.message))
            return
        entry = self.entry(taken.partition)
        entry.leader_epoch = taken.leader_epoch
        entry.state_epoch = taken.state_epoch
        entry.acquisition_number = taken.acquisition_number
        for one in taken.ranges:
            entry.acquired_records.add(
                first_offset=one.first_offset,
                last_offset=one.last_offset,
                delivery_count=one.delivery_count,
            )
        if opened is not None:
            await self._decode(entry, taken, opened)
        elif self._batches is None:
            entry.records = taken.records
            self.record_bytes += len(taken.records)
        else:
            self._batches[taken.partition] = taken.records
            self.record_bytes += len(taken.records)

    async def _decode(
        self, entry: pb.ShareFetchPartition, taken: PartitionFetch, opened: OpenedBatches
    ) -> None:
        """Add records one by one, in slices (BND-34); the offsets of all stay acquired."""
        ranges = [(r.first_offset, r.last_offset, r.delivery_count) for r in taken.ranges]
        bad: list[Undecodable] = []
        refusal: RefusedError | None = None
        work = 0
        try:
            for record in decode_records(
                taken.records,
                ranges,
                bad.append,
                opened=opened.of(taken.partition),
                items=self._items,
                make=entry.decoded_records.add,
            ):
                if record is not None:
                    size = record.ByteSize()
                    self.record_bytes += size
                    work += 1 + len(record.headers) + size // BYTES_OF_A_UNIT
                if record is None or work >= LOOKED_AT:
                    work = 0
                    await opened.slices.spend(UNITS_OF_A_SLICE)
        except RefusedError as refused:
            refusal = refused
        for each in bad:
            entry.undecodable.add(first_offset=each.first_offset, last_offset=each.last_offset)
            refusal = refusal or each.refusal
        if refusal is not None:
            entry.error_code, entry.error_message = int(refusal.error), refusal.message

    def add_errors(self, refused: Mapping[TopicPartition, Outcome]) -> None:
        """Add why nothing could be fetched from several partitions."""
        for partition, outcome in refused.items():
            self.add_error(partition, outcome)

    def add_error(self, partition: TopicPartition, outcome: Outcome) -> None:
        """Add why nothing could be fetched from a partition."""
        entry = self.entry(partition)
        entry.error_code, entry.error_message = int(outcome[0]), outcome[1]
        self._point_to_leader(entry, partition, outcome[0])

    def withhold_lost(
        self, lost: Mapping[TopicPartition, Outcome]
    ) -> dict[TopicPartition, list[tuple[int, int]]]:
        """Remove records of several partitions; see ``withhold``."""
        return {each: self.withhold(each, why) for each, why in lost.items()}

    def with_records(self) -> list[TopicPartition]:
        """Return the partitions of which records are in this response."""
        return [each for each, entry in self._entries.items() if entry.acquired_records]

    def withhold(self, partition: TopicPartition, outcome: Outcome) -> list[tuple[int, int]]:
        """Remove records from the response with a reason; return their offsets (AUT-4)."""
        entry = self.entry(partition)
        offsets = [(each.first_offset, each.last_offset) for each in entry.acquired_records]
        for name in ("records", "decoded_records", "acquired_records", "undecodable"):
            entry.ClearField(name)
        if self._batches is not None:
            self._batches.pop(partition, None)
        self.add_error(partition, outcome)
        return offsets

    def add_acknowledged(self, partition: TopicPartition, outcome: Outcome) -> None:
        """Add the result of acknowledgements that came with the fetch (spec REQ-7)."""
        entry = self.entry(partition)
        entry.acknowledge_error_code = int(outcome[0])
        entry.acknowledge_error_message = outcome[1]
        self._point_to_leader(entry, partition, outcome[0])

    def endpoints(self) -> list[Node]:
        """Return the nodes that current leaders of the entries name (spec REQ-11)."""
        return self._redirects.endpoints()

    def _point_to_leader(
        self, entry: pb.ShareFetchPartition, partition: TopicPartition, error: ErrorCode
    ) -> None:
        leader = self._redirects.leader_of(partition, error)
        if leader is not None:
            entry.current_leader.CopyFrom(leader)


def acknowledged_topics(
    outcomes: dict[TopicPartition, Outcome], redirects: Redirects
) -> list[pb.ShareAcknowledgeTopic]:
    """Return the results of acknowledgements, by topic."""
    topics: dict[bytes, pb.ShareAcknowledgeTopic] = {}
    for partition, (error, message) in outcomes.items():
        topic = topics.get(partition.topic_id)
        if topic is None:
            topic = topics[partition.topic_id] = pb.ShareAcknowledgeTopic(
                topic_id=partition.topic_id
            )
        topic.partitions.add(
            partition=partition.partition,
            error_code=int(error),
            error_message=message,
            current_leader=redirects.leader_of(partition, error),
        )
    return list(topics.values())
