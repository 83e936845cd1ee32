"""Records become batches; what waits for its topic, and what is not confirmed."""

import random
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field

from sharemesh.backoff import Backoff
from sharemesh.client.config import ClientConfig
from sharemesh.client.errors import SharemeshError, UnknownTopicOrPartitionError
from sharemesh.client.metadata.metadata_cache import CachedTopic
from sharemesh.client.producer.batches import Batch, PartitionQueue, StickyPartition
from sharemesh.client.producer.delivery import (
    BatchOutcome,
    OutgoingFields,
    OutgoingRecord,
    Reports,
)
from sharemesh.codec.client_batches import BatchWriter
from sharemesh.codec.hashes import partition_of_key
from sharemesh.ports.clock import Clock

BATCHES_PER_REQUEST = 5
"""Number of recent batches per producer and partition that the leader can deduplicate."""

NOT_ENCODABLE = (TypeError, ValueError, OverflowError)
"""What the builder of a batch raises for a record that it cannot take."""


@dataclass(slots=True)
class UnplacedRecord:
    """A record whose topic is not known yet; ``outcome`` is its own."""

    record: OutgoingRecord
    outcome: BatchOutcome
    since_ms: int


@dataclass(slots=True)
class TopicRecords:
    """What is sent to one topic; ``topic`` is None while no metadata names it.

    ``spreading`` is where records without key and partition go until its batch is full.
    """

    topic: CachedTopic | None = None
    spreading: PartitionQueue | None = None
    queues: dict[int, PartitionQueue] = field(default_factory=dict)
    unplaced: list[UnplacedRecord] = field(default_factory=list)


class RecordAccumulator:
    """The batches of a producer that are not confirmed; used on the event loop only.

    Attributes:
        unsettled: Number of records that are neither confirmed nor failed.
        queues: Those of all partitions, the oldest first.
    """

    def __init__(
        self,
        config: ClientConfig,
        clock: Clock,
        chance: random.Random,
        *,
        reports: Reports,
        on_settled: Callable[[int], None],
    ) -> None:
        """``on_settled`` is told how many bytes of records are confirmed or have failed."""
        self._clock = clock
        self._sticky = StickyPartition(chance)
        self._chance = chance
        self._compression = config.text("compression.type")
        self._batch_bytes = max(config.number("batch.size"), 1)
        self._waits_ms = (config.number("retry.backoff.ms"), config.number("retry.backoff.max.ms"))
        self._reports = reports
        self._on_settled = on_settled
        self._topics: dict[str, TopicRecords] = {}
        self.queues: list[PartitionQueue] = []
        self.unsettled = 0

    def add_all(self, records: Iterable[OutgoingFields]) -> bool:
        """Take records, each as its fields in order; return whether any of them is news.

        As ``add`` for each. What goes where the last one went, which is most of all records, goes
        there without a call of its own: that is half of the time of a small record.
        """
        is_news = False
        open_topic, spread = "", None
        for fields in records:
            topic, partition, key, value, headers, timestamp_ms, size_bytes, future, callback = (
                fields
            )
            if spread is not None and partition is None and key is None and topic == open_topic:
                writer = spread.writer
                try:
                    fits = writer.append(timestamp_ms, None, value, headers)
                except NOT_ENCODABLE:
                    fits = False  # it is tried, and fails, once more below
                if fits:
                    self.unsettled += 1
                    spread.buffered_bytes += size_bytes
                    spread.outcome.put(future, callback, timestamp_ms, writer.count - 1)
                    continue
            if self.add(OutgoingRecord._make(fields)):
                is_news = True
            open_topic, spread = topic, self._open_to_all(topic)
        return is_news

    def _open_to_all(self, topic: str) -> Batch | None:
        """Return the batch that takes records without key and partition; None: none is open."""
        records = self._topics[topic]
        if records.topic is None or records.unplaced or records.spreading is None:
            return None
        return records.spreading.accepting

    def add(self, record: OutgoingRecord) -> bool:
        """Take a record; return whether that is news: a new batch, or an unknown topic."""
        self.unsettled += 1
        records = self._topics.get(record.topic)
        if records is None:
            records = self._topics[record.topic] = TopicRecords()
        if records.topic is None or records.unplaced:
            outcome = BatchOutcome(record.topic, record.partition, self._reports)
            outcome.add(record, 0)
            records.unplaced.append(UnplacedRecord(record, outcome, self._clock.now_ms()))
            return len(records.unplaced) == 1
        return self._placed(records, records.topic, record)

    def _placed(self, records: TopicRecords, topic: CachedTopic, record: OutgoingRecord) -> bool:
        """Put a record into the batch of its partition, or fail it; return whether that is news."""
        try:
            return self._place(records, topic, record)
        except SharemeshError as error:
            reason: Exception = error.with_traceback(None)  # its frames would keep the record
        except NOT_ENCODABLE as error:
            reason = SharemeshError(f"the record cannot be encoded: {error}")
        outcome = BatchOutcome(record.topic, record.partition, self._reports)
        outcome.add(record, 0)
        outcome.fail(reason)
        self.settle(1, record.size_bytes)
        return False

    def _place(self, records: TopicRecords, topic: CachedTopic, record: OutgoingRecord) -> bool:
        key, partition = record.key, record.partition
        spreads = partition is None and key is None
        if partition is None:
            if key is None:
                queue = records.spreading or self._spread(records, topic)
            else:
                queue = self._queue(records, topic, partition_of_key(key, topic.partitions))
        elif partition < topic.partitions:
            queue = self._queue(records, topic, partition)
        else:
            message = f"partition {partition}: the topic has {topic.partitions}"
            raise UnknownTopicOrPartitionError(message, about=f"topic {topic.name}")
        batch = queue.accepting
        begins = batch is None or not batch.writer.append(
            record.timestamp_ms, key, record.value, record.headers
        )
        if batch is None or begins:
            batch = self._new_batch(queue, record)
            if spreads and len(queue.batches) > 1:
                self._sticky.next_batch(topic.name, topic.partitions)
                records.spreading = None
        batch.buffered_bytes += record.size_bytes
        batch.outcome.add(record, batch.writer.count - 1)
        return begins

    def _spread(self, records: TopicRecords, topic: CachedTopic) -> PartitionQueue:
        partition = self._sticky.of(topic.name, topic.partitions)
        queue = records.spreading = self._queue(records, topic, partition)
        return queue

    def _queue(self, records: TopicRecords, topic: CachedTopic, partition: int) -> PartitionQueue:
        queue = records.queues.get(partition)
        if queue is None:
            queue = records.queues[partition] = PartitionQueue(
                topic.name, topic.topic_id, partition, Backoff(*self._waits_ms, self._chance)
            )
            self.queues.append(queue)
        return queue

    def _new_batch(self, queue: PartitionQueue, record: OutgoingRecord) -> Batch:
        """Begin a batch with its first record, which always fits."""
        outcome = BatchOutcome(queue.topic, queue.partition, self._reports)
        writer = BatchWriter(self._compression, self._batch_bytes)
        writer.append(record.timestamp_ms, record.key, record.value, record.headers)
        batch = Batch(writer, self._clock.now_ms(), outcome)
        queue.batches.append(batch)
        queue.accepting = batch
        return batch

    def unknown_topics(self) -> list[str]:
        """Return the topics that records wait for."""
        return [name for name, records in self._topics.items() if records.unplaced]

    def topics(self) -> Collection[str]:
        """Return the topics that something was sent to."""
        return self._topics.keys()

    def learn(self, name: str, topic: CachedTopic | None) -> None:
        """Use the topic as metadata shows it now; None: it shows none.

        A topic that was deleted and made again has another id, and new queues.
        """
        records = self._topics[name]
        if records.topic == topic:
            return
        records.topic = topic
        records.spreading = None
        if topic is None:
            return
        if any(queue.topic_id != topic.topic_id for queue in records.queues.values()):
            records.queues = {}
            self.queues = [each for each in self.queues if each.topic != name or each.batches]
        unplaced, records.unplaced = records.unplaced, []
        for each in unplaced:
            self._placed(records, topic, each.record)

    def overdue(self, now_ms: int, wait_ms: int) -> dict[str, list[UnplacedRecord]]:
        """Return, and drop, the records of topics whose first one has waited for ``wait_ms``."""
        found = {}
        for name, records in self._topics.items():
            if records.unplaced and now_ms - records.unplaced[0].since_ms >= wait_ms:
                found[name], records.unplaced = records.unplaced, []
        return found

    def since_ms(self, name: str) -> list[int]:
        """Return since when records wait for a topic."""
        return [each.since_ms for each in self._topics[name].unplaced]

    def take(self, queue: PartitionQueue, size_bytes_max: int) -> list[Batch]:
        """Close and return the oldest batches for one request: at least one, and what fits."""
        taken: list[Batch] = []
        size = 0
        for batch in queue.batches:
            size += batch.size_bytes
            if taken and (len(taken) >= BATCHES_PER_REQUEST or size > size_bytes_max):
                break
            if taken and bool(taken[0].attempts) != bool(batch.attempts):
                break  # a repetition is sent as it was
            if batch is queue.accepting:
                queue.accepting = None
            taken.append(batch)
        return taken

    def pop(self, queue: PartitionQueue) -> Batch:
        """Close and drop the oldest batch."""
        batch = queue.batches.popleft()
        if batch is queue.accepting:
            queue.accepting = None
        return batch

    def settle(self, count: int, size_bytes: int) -> None:
        """Records are confirmed or have failed."""
        self.unsettled -= count
        self._on_settled(size_bytes)
