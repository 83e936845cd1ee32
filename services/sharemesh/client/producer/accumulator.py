"""Records become batches where they are sent, on the sender's thread; the engine takes batches."""

import random
import threading
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from sharemesh.backoff import Backoff
from sharemesh.client.config import ClientConfig
from sharemesh.client.errors import IllegalStateError, UnknownTopicOrPartitionError
from sharemesh.client.metadata.metadata_cache import CachedTopic
from sharemesh.client.producer.batches import Batch, PartitionQueue, StickyPartition
from sharemesh.client.producer.delivery import (
    BatchOutcome,
    Forgotten,
    ProduceCallback,
    ProduceFuture,
)
from sharemesh.client.producer.serializer import OutgoingRecord
from sharemesh.codec.client_batches import BatchWriter
from sharemesh.codec.hashes import partition_of_key
from sharemesh.ports.clock import Clock

BATCHES_PER_REQUEST = 5
"""Number of recent batches per producer and partition that the leader can deduplicate."""


@dataclass(slots=True)
class UnplacedRecord:
    """A record whose topic is not known yet; ``outcome`` is its own."""

    record: OutgoingRecord
    future: ProduceFuture | None
    callback: ProduceCallback | None
    outcome: BatchOutcome
    since_ms: int


@dataclass(slots=True)
class TopicRecords:
    """What is sent to one topic; ``topic`` is None while no metadata names it."""

    topic: CachedTopic | None = None
    queues: dict[int, PartitionQueue] = field(default_factory=dict)
    unplaced: list[UnplacedRecord] = field(default_factory=list)


class RecordAccumulator:
    """The batches of a producer that are not confirmed.

    Senders add records on their own threads; everything else is called on the event loop. One
    plain lock guards what both change; it is never held while anything is encoded or awaited.

    Attributes:
        is_stirred: Whether the engine was called and has not looked yet.
    """

    def __init__(
        self,
        config: ClientConfig,
        clock: Clock,
        chance: random.Random,
        *,
        stir: Callable[[], None],
        on_room: Callable[[], None],
        awaited: Callable[[str, int | None], str],
        forgotten: Forgotten | None = None,
    ) -> None:
        """``stir`` calls the engine, from any thread; ``on_room`` is called on the loop."""
        self._clock = clock
        self._sticky = StickyPartition(chance)
        self._chance = chance
        self._compression = config.text("compression.type")
        self._batch_bytes = max(config.number("batch.size"), 1)
        self._limit_bytes = config.number("buffer.memory")
        self._waits_ms = (config.number("retry.backoff.ms"), config.number("retry.backoff.max.ms"))
        self._stir = stir
        self._on_room = on_room
        self._awaited = awaited
        self._forgotten = forgotten
        self._lock = threading.Lock()
        self._topics: dict[str, TopicRecords] = {}
        self._queues: list[PartitionQueue] = []
        self._refused: list[tuple[UnplacedRecord, Exception]] = []
        self._closed_because = ""
        self._has_news = False
        self._added = 0  # changed by senders only, as the next one is
        self._added_bytes = 0
        self._settled = 0  # changed on the event loop only, as the next one is
        self._settled_bytes = 0
        self.is_stirred = False

    # ---- senders ---------------------------------------------------------------------------------

    def add(
        self,
        record: OutgoingRecord,
        future: ProduceFuture | None = None,
        callback: ProduceCallback | None = None,
    ) -> bool:
        """Take a record; False if buffer.memory has no room for it now.

        Raises:
            IllegalStateError: The producer was closed, or broke down.
        """
        with self._lock:
            if self._closed_because:
                raise IllegalStateError(self._closed_because)
            if not self._fits(record.size_bytes):
                return False
            self._added += 1
            self._added_bytes += record.size_bytes
            records = self._topics.get(record.topic)
            if records is None:
                records = self._topics[record.topic] = TopicRecords()
            if records.topic is None or records.unplaced:
                self._keep(records, record, future, callback)
            else:
                self._place(records, records.topic, record, future, callback)
            stir = self._has_news and not self.is_stirred
            self._has_news = False
            if stir:
                self.is_stirred = True
        if stir:
            self._stir()
        return True

    def fits(self, size_bytes: int) -> bool:
        """Return whether a record has room now; one alone always has."""
        with self._lock:
            return self._fits(size_bytes)

    @property
    def buffered_bytes(self) -> int:
        """What counts against buffer.memory."""
        return self._added_bytes - self._settled_bytes

    @property
    def unsettled(self) -> int:
        """Number of records that are neither confirmed nor failed."""
        return self._added - self._settled

    def queues(self) -> list[PartitionQueue]:
        """Return all queues, the oldest first; from any thread."""
        with self._lock:
            return list(self._queues)

    def _fits(self, size_bytes: int) -> bool:
        buffered = self._added_bytes - self._settled_bytes
        return not buffered or buffered + size_bytes <= self._limit_bytes

    def _keep(
        self,
        records: TopicRecords,
        record: OutgoingRecord,
        future: ProduceFuture | None,
        callback: ProduceCallback | None,
    ) -> None:
        """Hold a record until its topic is known."""
        outcome = self._outcome(record.topic, record.partition)
        if future is not None:
            future.outcome = outcome
            outcome.futures.append(future)
        if callback is not None:
            outcome.callbacks.append((0, record.timestamp_ms, callback))
        self._has_news = self._has_news or not records.unplaced
        now_ms = self._clock.now_ms()
        records.unplaced.append(UnplacedRecord(record, future, callback, outcome, now_ms))

    def _place(
        self,
        records: TopicRecords,
        topic: CachedTopic,
        record: OutgoingRecord,
        future: ProduceFuture | None,
        callback: ProduceCallback | None,
    ) -> None:
        """Put a record into the batch of its partition."""
        key, partition = record.key, record.partition
        if partition is None:
            partition = (
                self._sticky.of(topic.name, topic.partitions)
                if key is None
                else partition_of_key(key, topic.partitions)
            )
        elif partition >= topic.partitions:
            message = f"partition {partition}: the topic has {topic.partitions}"
            error = UnknownTopicOrPartitionError(message, about=f"topic {topic.name}")
            self._keep(records, record, future, callback)
            self._refused.append((records.unplaced.pop(), error))
            self._has_news = True
            return
        queue = records.queues.get(partition)
        if queue is None:
            queue = self._new_queue(records, topic, partition)
        batch = queue.accepting
        if batch is None or not batch.writer.append(
            record.timestamp_ms, key, record.value, record.headers
        ):
            batch = self._new_batch(queue, record)
            if key is None and record.partition is None and len(queue.batches) > 1:
                self._sticky.next_batch(topic.name, topic.partitions)
        batch.buffered_bytes += record.size_bytes
        if future is not None:
            future.outcome = batch.outcome
            future.position = batch.writer.count - 1
            batch.outcome.futures.append(future)
        if callback is not None:
            batch.outcome.callbacks.append((batch.writer.count - 1, record.timestamp_ms, callback))

    def _new_queue(
        self, records: TopicRecords, topic: CachedTopic, partition: int
    ) -> PartitionQueue:
        queue = PartitionQueue(
            topic.name, topic.topic_id, partition, Backoff(*self._waits_ms, self._chance)
        )
        records.queues[partition] = queue
        self._queues.append(queue)
        return queue

    def _new_batch(self, queue: PartitionQueue, record: OutgoingRecord) -> Batch:
        """Begin a batch with its first record, which always fits."""
        outcome = self._outcome(queue.topic, queue.partition)
        writer = BatchWriter(self._compression, self._batch_bytes)
        batch = Batch(writer, self._clock.now_ms(), outcome)
        writer.append(record.timestamp_ms, record.key, record.value, record.headers)
        queue.batches.append(batch)
        queue.accepting = batch
        self._has_news = True
        return batch

    def _outcome(self, topic: str, partition: int | None) -> BatchOutcome:
        return BatchOutcome(topic, partition, self._awaited, self._forgotten)

    # ---- the engine ------------------------------------------------------------------------------

    def unknown_topics(self) -> list[str]:
        """Return the topics that records wait for."""
        with self._lock:
            return [name for name, records in self._topics.items() if records.unplaced]

    def topics(self) -> list[str]:
        """Return the topics that something was sent to."""
        with self._lock:
            return list(self._topics)

    def learn(self, name: str, topic: CachedTopic | None) -> None:
        """Use the topic as metadata shows it now; None: it shows none.

        A topic that was deleted and made again has another id, and new queues.
        """
        records = self._topics.get(name)
        if records is None or records.topic == topic:
            return
        with self._lock:
            if topic is not None and any(
                queue.topic_id != topic.topic_id for queue in records.queues.values()
            ):
                records.queues = {}
                self._queues = [each for each in self._queues if each.topic != name or each.batches]
            records.topic = topic
            if topic is not None:
                unplaced, records.unplaced = records.unplaced, []
                for each in unplaced:
                    self._place(records, topic, each.record, each.future, each.callback)

    def refused(self) -> list[tuple[UnplacedRecord, Exception]]:
        """Return, once, the records that have no place, with the reason."""
        with self._lock:
            refused, self._refused = self._refused, []
        return refused

    def overdue(self, now_ms: int, wait_ms: int) -> dict[str, list[UnplacedRecord]]:
        """Return, and drop, the records of topics whose first one has waited for ``wait_ms``."""
        found = {}
        with self._lock:
            for name, records in self._topics.items():
                if records.unplaced and now_ms - records.unplaced[0].since_ms >= wait_ms:
                    found[name], records.unplaced = records.unplaced, []
        return found

    def since_ms(self, name: str) -> list[int]:
        """Return since when records wait for a topic."""
        with self._lock:
            return [each.since_ms for each in self._topics[name].unplaced]

    def take(self, queue: PartitionQueue, size_bytes_max: int) -> Collection[Batch]:
        """Close and return the oldest batches for one request: at least one, and what fits."""
        taken: list[Batch] = []
        size = 0
        with self._lock:
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
        with self._lock:
            batch = queue.batches.popleft()
            if batch is queue.accepting:
                queue.accepting = None
        return batch

    def settled(self, count: int, size_bytes: int) -> None:
        """Give the room of records that are confirmed or have failed to others."""
        self._settled += count
        self._settled_bytes += size_bytes
        self._on_room()

    def close(self, why: str) -> None:
        """Take no more records."""
        with self._lock:
            self._closed_because = self._closed_because or why
