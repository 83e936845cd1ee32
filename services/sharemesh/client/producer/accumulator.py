"""Records become batches; what waits for its topic, and what is not confirmed."""

import random
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from typing import Any

from sharemesh.backoff import Backoff
from sharemesh.client.config import ClientConfig
from sharemesh.client.errors import SharemeshError, UnknownTopicOrPartitionError
from sharemesh.client.metadata.metadata_cache import CachedTopic
from sharemesh.client.producer.batches import Batch, PartitionQueue, StickyPartition
from sharemesh.client.producer.delivery import (
    RECORD_OVERHEAD_BYTES,
    BatchOutcome,
    OutgoingRecord,
    Reports,
    SentRecords,
    SentRun,
    fail_contents,
)
from sharemesh.codec.client_batches import BatchWriter
from sharemesh.codec.hashes import partition_of_key
from sharemesh.ports.clock import Clock

BATCHES_PER_REQUEST = 5
"""Number of recent batches per producer and partition that the leader can deduplicate."""

NOT_ENCODABLE = (TypeError, ValueError, OverflowError)
"""What the builder of a batch raises for a record that it cannot take."""


@dataclass(slots=True)
class UnplacedRecords:
    """Records whose topic is not known yet, in order.

    ``run`` is whose futures are told; None: there are none. ``contents`` are as those of a run.
    ``mark`` is that of the accumulator when they came.
    """

    run: SentRun | None
    contents: list[Any]
    since_ms: int
    mark: int


@dataclass(slots=True)
class TopicRecords:
    """What is sent to one topic; ``topic`` is None while no metadata names it.

    ``spreading`` is where records without key and partition go until its batch is full.
    """

    topic: CachedTopic | None = None
    spreading: PartitionQueue | None = None
    queues: dict[int, PartitionQueue] = field(default_factory=dict)
    unplaced: list[UnplacedRecords] = field(default_factory=list)


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
        self._mark = 0  # of the batches that are begun now

    def add_all(self, sent: Iterable[SentRecords]) -> bool:
        """Take what was sent; return whether any of it is news.

        After an error that nobody thought of, here or in ``add`` or ``learn``, what is in no batch
        waits, to be failed with all others: the open batches may not be sent any more.
        """
        is_news = False
        for run, _, contents in sent:
            self.unsettled += len(contents)
            is_news |= self._add(run.topic, run, contents)
        return is_news

    def add(self, record: OutgoingRecord) -> bool:
        """Take a record; return whether that is news: a new or full batch, or an unknown topic."""
        self.unsettled += 1
        return self._add(record.topic, None, [record])

    def _add(self, name: str, run: SentRun | None, contents: list[Any]) -> bool:
        records = self._topics.get(name)
        if records is None:
            records = self._topics[name] = TopicRecords()
        if records.topic is None or records.unplaced:
            records.unplaced.append(
                UnplacedRecords(run, contents, self._clock.now_ms(), self._mark)
            )
            return len(records.unplaced) == 1
        return self._place_all(records, records.topic, run, contents)

    def _place_all(
        self, records: TopicRecords, topic: CachedTopic, run: SentRun | None, contents: list[Any]
    ) -> bool:
        """Put records into batches; return whether that is news."""
        before = 0 if run is None else run.placed
        try:
            if run is not None and run.timestamp_ms is not None:
                return self._place_values(records, topic, run, run.timestamp_ms, contents)
            is_news = False
            for record in contents:
                is_news |= self._placed(records, topic, record, run)
        except Exception:
            rest = contents if run is None else contents[run.placed - before :]
            records.unplaced.append(UnplacedRecords(run, rest, self._clock.now_ms(), self._mark))
            raise
        return is_news

    def _place_values(
        self,
        records: TopicRecords,
        topic: CachedTopic,
        run: SentRun,
        timestamp_ms: int,
        values: list[bytes],
    ) -> bool:
        """Put values into the open batch, and when it is full into that of another partition."""
        is_news, at = False, 0
        while at < len(values):
            queue = self._open_to_all(records, topic)
            batch = queue.accepting
            if batch is None:
                batch, is_news = self._new_batch(queue), True
            position = batch.writer.count
            added = batch.writer.extend(timestamp_ms, values, at)
            if added:
                some = values[at : at + added] if added < len(values) else values
                batch.buffered_bytes += RECORD_OVERHEAD_BYTES * added + sum(map(len, some))
                batch.outcome.put(run, added, position)
                at += added
            if at < len(values):
                is_news = True
                self._spread_on(records, topic, queue)
        return is_news

    def _placed(
        self,
        records: TopicRecords,
        topic: CachedTopic,
        record: OutgoingRecord,
        run: SentRun | None,
    ) -> bool:
        """Put a record into the batch of its partition, or fail it; return whether that is news."""
        try:
            return self._place(records, topic, record, run)
        except SharemeshError as error:
            reason: Exception = error.with_traceback(None)  # its frames would keep the record
        except NOT_ENCODABLE as error:
            reason = SharemeshError(f"the record cannot be encoded: {error}")
        outcome = BatchOutcome(record.topic, record.partition, self._reports)
        outcome.add(record, run, 0)
        outcome.fail(reason)
        self.settle(1, record.size_bytes)
        return False

    def _place(
        self,
        records: TopicRecords,
        topic: CachedTopic,
        record: OutgoingRecord,
        run: SentRun | None,
    ) -> bool:
        key, partition = record.key, record.partition
        spreads = partition is None and key is None
        if partition is None:
            if key is None:
                queue = self._open_to_all(records, topic)
            else:
                queue = self._queue(records, topic, partition_of_key(key, topic.partitions))
        elif partition < topic.partitions:
            queue = self._queue(records, topic, partition)
        else:
            message = f"partition {partition}: the topic has {topic.partitions}"
            raise UnknownTopicOrPartitionError(message, about=f"topic {topic.name}")
        batch = queue.accepting
        content = (record.timestamp_ms, key, record.value, record.headers)
        begins = batch is None or not batch.writer.append(*content)
        if batch is None or begins:
            if batch is not None and spreads:
                queue = self._spread_on(records, topic, queue)
                batch = queue.accepting
            if batch is None or not spreads or not batch.writer.append(*content):
                batch = self._new_batch(queue, record)
        batch.buffered_bytes += record.size_bytes
        batch.outcome.add(record, run, batch.writer.count - 1)
        return begins

    def _open_to_all(self, records: TopicRecords, topic: CachedTopic) -> PartitionQueue:
        """Return where records without key and partition go: on, while a batch is under way."""
        queue = records.spreading
        if queue is None:
            return self._spread(records, topic)
        if queue.accepting is None and queue.batches:
            return self._spread_on(records, topic, queue)
        return queue

    def _spread_on(
        self, records: TopicRecords, topic: CachedTopic, queue: PartitionQueue
    ) -> PartitionQueue:
        """Close the full batch of a queue, and spread over the next partition."""
        queue.accepting = None
        self._sticky.next_batch(topic.name, topic.partitions)
        records.spreading = None
        return self._spread(records, topic)

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

    def _new_batch(self, queue: PartitionQueue, record: OutgoingRecord | None = None) -> Batch:
        """Begin a batch, with its first record if there is one: that always fits."""
        outcome = BatchOutcome(queue.topic, queue.partition, self._reports)
        writer = BatchWriter(self._compression, self._batch_bytes)
        if record is not None:
            writer.append(record.timestamp_ms, record.key, record.value, record.headers)
        batch = Batch(writer, self._clock.now_ms(), outcome, self._mark)
        queue.batches.append(batch)
        queue.accepting = batch
        return batch

    def unknown_topics(self) -> list[str]:
        """Return the topics that records wait for; from any thread."""
        return [name for name, records in tuple(self._topics.items()) if records.unplaced]

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
        left, records.unplaced = iter(records.unplaced), []
        mark = self._mark
        try:
            for each in left:
                self._mark = each.mark  # its batches are awaited by those who would await it
                self._place_all(records, topic, each.run, each.contents)
        finally:
            self._mark = mark
            records.unplaced += left

    def overdue(self, now_ms: int, wait_ms: int) -> dict[str, list[UnplacedRecords]]:
        """Return, and drop, the records of topics whose first one has waited for ``wait_ms``."""
        found = {}
        for name, records in self._topics.items():
            if records.unplaced and now_ms - records.unplaced[0].since_ms >= wait_ms:
                found[name], records.unplaced = records.unplaced, []
        return found

    def drop(self, unplaced: UnplacedRecords, error: Exception) -> None:
        """Fail records that wait for their topic no longer."""
        records, sizes = fail_contents(unplaced.run, unplaced.contents, error, self._reports)
        self.settle(records, sizes)

    def refuse(self, sent: Iterable[SentRecords], error: Exception) -> int:
        """Fail what was sent, and return how much; nothing else of the same runs may wait."""
        count = 0
        for run, _, contents in tuple(sent):  # callbacks may send more
            self.unsettled += len(contents)
            records, sizes = fail_contents(run, contents, error, self._reports)
            self.settle(records, sizes)
            count += records
        return count

    def waits(self, name: str) -> tuple[int, int]:
        """Return since when records wait for a topic, which some do, and how many."""
        unplaced = self._topics[name].unplaced
        return unplaced[0].since_ms, sum(len(each.contents) for each in unplaced)

    def take(self, queue: PartitionQueue, size_bytes_max: int, *, all_of_it: bool) -> list[Batch]:
        """Close and return the oldest batches for one request: at least one, and what fits.

        Behind others the open batch stays open, unless ``all_of_it`` is to go: more records fit
        into it while the request is under way.
        """
        taken: list[Batch] = []
        size = 0
        for batch in queue.batches:
            size += batch.size_bytes
            if taken and (len(taken) >= BATCHES_PER_REQUEST or size > size_bytes_max):
                break
            if taken and bool(taken[0].attempts) != bool(batch.attempts):
                break  # a repetition is sent as it was
            if batch is queue.accepting:
                if taken and not all_of_it:
                    break
                queue.accepting = None
            taken.append(batch)
        return taken

    def pop(self, queue: PartitionQueue) -> Batch:
        """Close and drop the oldest batch."""
        batch = queue.batches.popleft()
        if batch is queue.accepting:
            queue.accepting = None
        return batch

    def mark(self) -> int:
        """Return what ``holds`` takes, to ask for what came before this call."""
        self._mark += 1
        return self._mark - 1

    def holds(self, mark: int) -> bool:
        """Return whether something that came before the mark is neither confirmed nor failed.

        What shares a batch with it counts; marks never fall from one batch of a queue to the next.
        """
        return any(each.batches and each.batches[0].mark <= mark for each in self.queues) or any(
            each.unplaced and each.unplaced[0].mark <= mark for each in self._topics.values()
        )

    def settle(self, count: int, size_bytes: int) -> None:
        """Records are confirmed or have failed."""
        self.unsettled -= count
        self._on_settled(size_bytes)
