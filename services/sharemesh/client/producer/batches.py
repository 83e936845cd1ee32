"""The open and the waiting batches of one partition."""

import random
from collections import deque

from sharemesh.backoff import Backoff
from sharemesh.client.metadata.metadata_cache import Leader
from sharemesh.client.producer.delivery import BatchOutcome
from sharemesh.codec.client_batches import BatchWriter, ProducerState


class Batch:
    """One batch: open for records, then encoded once and sent, perhaps repeatedly.

    Attributes:
        buffered_bytes: What its records count against buffer.memory.
        encoded: Its bytes; empty until ``finish``.
        mark: That of the accumulator when the first of its records came.
        producer: The identity under which it is encoded.
    """

    __slots__ = (
        "attempts",
        "buffered_bytes",
        "created_ms",
        "encoded",
        "is_sealed",
        "mark",
        "outcome",
        "producer",
        "writer",
    )

    def __init__(
        self, writer: BatchWriter, created_ms: int, outcome: BatchOutcome, mark: int
    ) -> None:
        self.writer = writer
        self.created_ms = created_ms
        self.outcome = outcome
        self.mark = mark
        self.buffered_bytes = 0
        self.encoded = b""
        self.is_sealed = False
        self.producer: ProducerState | None = None
        self.attempts = 0

    @property
    def count(self) -> int:
        """Number of records."""
        return self.writer.count

    @property
    def size_bytes(self) -> int:
        """Bytes of it in a request; before ``finish``, as if it were not compressed."""
        return len(self.encoded) or self.writer.size_bytes

    def finish(self, producer: ProducerState | None) -> None:
        """Encode it; from now on the bytes stay the same, so that a repetition is recognized."""
        self.producer = producer
        self.encoded = self.writer.finish(producer)
        self.is_sealed = True

    def reopen_identity(self) -> None:
        """Let ``finish`` encode it again, under another identity: nothing of it was written."""
        self.is_sealed = False
        self.attempts = 0


class StickyPartition:
    """Partition for records without a key: the same one until ``next_batch`` is called.

    Many records without a key then share a batch, and batches spread evenly.
    """

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._current: dict[str, int] = {}

    def of(self, topic: str, partitions: int) -> int:
        """Return the current partition of a topic."""
        current = self._current.get(topic)
        if current is None or current >= partitions:
            current = self._chance.randrange(partitions)
            self._current[topic] = current
        return current

    def next_batch(self, topic: str, partitions: int) -> None:
        """Move on, to another partition if there is one."""
        if partitions <= 1:
            return
        current = self._current.get(topic, 0)
        self._current[topic] = (current + 1 + self._chance.randrange(partitions - 1)) % partitions


class PartitionQueue:
    """The batches of one partition, oldest first; one request is unanswered at a time.

    Attributes:
        accepting: The newest batch while records may be added to it.
        backoff: The waits before its retries.
        asked: The leader that the last request went to; None before, or if none was known.
    """

    def __init__(self, topic: str, topic_id: bytes, partition: int, backoff: Backoff) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.partition = partition
        self.batches: deque[Batch] = deque()
        self.accepting: Batch | None = None
        self.in_flight = False
        self.asked: Leader | None = None
        self.retry_at_ms = 0
        self.backoff = backoff
        self.last_refusal = ""
        self.sequence = 0
        self.sequence_of: tuple[int, int] = (-1, -1)

    @property
    def key(self) -> tuple[bytes, int]:
        """Topic id and number."""
        return self.topic_id, self.partition

    def due_in_ms(self, *, linger_ms: int, now_ms: int, flushing: bool) -> int | None:
        """Return ms until something is to be sent; 0 now, None nothing."""
        if self.in_flight or not self.batches:
            return None
        wait_ms = self.retry_at_ms - now_ms
        first = self.batches[0]
        if not flushing and first is self.accepting:
            wait_ms = max(wait_ms, first.created_ms + linger_ms - now_ms)
        return max(wait_ms, 0)

    def next_sequence(self, producer: tuple[int, int], count: int) -> ProducerState:
        """Return the state of the next batch of ``count`` records and move on."""
        if self.sequence_of != producer:
            self.sequence_of = producer
            self.sequence = 0
        state = ProducerState(producer[0], producer[1], self.sequence)
        self.sequence = (self.sequence + count) & 0x7FFFFFFF
        return state
