"""What an application sends becomes records, then batches in one queue a partition."""

import random
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sharemesh.backoff import Backoff
from sharemesh.client.config import ClientConfig
from sharemesh.client.errors import IllegalArgumentError, MessageTooLargeError
from sharemesh.client.metadata.metadata_cache import Leader
from sharemesh.client.records import Headers
from sharemesh.client.tracing import with_trace_context
from sharemesh.codec.batch_frame import HEADER_BYTES
from sharemesh.codec.client_batches import BatchWriter, ProducerState
from sharemesh.ports.clock import Clock

RECORD_OVERHEAD_BYTES = 32
"""Counted against buffer.memory for each record besides its key, value and headers."""

BATCHES_PER_REQUEST = 5
"""Number of recent batches per producer and partition that the leader can deduplicate."""


HeadersLike = Mapping[str, bytes | str | None] | Iterable[tuple[str, bytes | str | None]]


@dataclass(frozen=True, slots=True)
class RecordMetadata:
    """Where a confirmed record is: on disk at this offset; -1 if only that is not known."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int


Done = Callable[[RecordMetadata | None, Exception | None], None]


@dataclass(slots=True)
class OutgoingRecord:
    """One record to be sent; ``done`` is called exactly once."""

    topic: str
    partition: int | None
    key: bytes | None
    value: bytes | None
    headers: Headers
    timestamp_ms: int
    done: Done

    @property
    def size_bytes(self) -> int:
        """What it counts against buffer.memory."""
        size = RECORD_OVERHEAD_BYTES + len(self.key or b"") + len(self.value or b"")
        for name, value in self.headers:
            size += len(name) + len(value or b"")
        return size


@dataclass(slots=True)
class Batch:
    """One batch: open for records, then encoded once and sent, perhaps repeatedly."""

    writer: BatchWriter
    created_ms: int
    records: list[OutgoingRecord] = field(default_factory=list)
    encoded: bytes = b""
    producer: ProducerState | None = None
    attempts: int = 0

    def finish(self, producer: ProducerState | None) -> None:
        """Encode it; from now on the bytes stay the same, so that a repetition is recognized."""
        self.producer = producer
        self.encoded = self.writer.finish(producer)

    def confirm(self, topic: str, partition: int, base_offset: int) -> None:
        """Complete each record with its offset."""
        for position, record in enumerate(self.records):
            offset = base_offset + position if base_offset >= 0 else -1
            record.done(RecordMetadata(topic, partition, offset, record.timestamp_ms), None)

    def fail(self, error: Exception) -> None:
        """Fail each record with the reason."""
        for record in self.records:
            record.done(None, error)


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
        backoff: The waits before its retries.
        asked: The leader that the last request went to; None before, or if none was known.
    """

    def __init__(self, topic: str, topic_id: bytes, partition: int, backoff: Backoff) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.partition = partition
        self.batches: deque[Batch] = deque()
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

    def append(
        self, record: OutgoingRecord, *, compression: str, batch_bytes: int, now_ms: int
    ) -> bool:
        """Add a record; True if that began a new batch."""
        last = self.batches[-1] if self.batches else None
        began = False
        if last is None or last.encoded or not self._fits(last, record):
            last = Batch(BatchWriter(compression, batch_bytes), now_ms)
            last.writer.append(record.timestamp_ms, record.key, record.value, record.headers)
            self.batches.append(last)
            began = True
        last.records.append(record)
        return began

    @staticmethod
    def _fits(batch: Batch, record: OutgoingRecord) -> bool:
        return batch.writer.append(record.timestamp_ms, record.key, record.value, record.headers)

    def due_in_ms(self, *, linger_ms: int, now_ms: int, flushing: bool) -> int | None:
        """Return ms until something is to be sent; 0 now, None nothing."""
        if self.in_flight or not self.batches:
            return None
        wait_ms = self.retry_at_ms - now_ms
        first = self.batches[0]
        if not flushing and len(self.batches) == 1 and not first.encoded:
            wait_ms = max(wait_ms, first.created_ms + linger_ms - now_ms)
        return max(wait_ms, 0)

    def take_request(self, size_bytes_max: int) -> Sequence[Batch]:
        """Return the oldest batches for one request: at least one, at most what fits."""
        taken: list[Batch] = []
        size = 0
        for batch in self.batches:
            size += len(batch.encoded) or batch.writer.size_bytes
            if taken and (len(taken) >= BATCHES_PER_REQUEST or size > size_bytes_max):
                break
            if taken and bool(taken[0].attempts) != bool(batch.attempts):
                break  # a repetition is sent as it was
            taken.append(batch)
        return taken

    def next_sequence(self, producer: tuple[int, int], count: int) -> ProducerState:
        """Return the state of the next batch of ``count`` records and move on."""
        if self.sequence_of != producer:
            self.sequence_of = producer
            self.sequence = 0
        state = ProducerState(producer[0], producer[1], self.sequence)
        self.sequence = (self.sequence + count) & 0x7FFFFFFF
        return state


class RecordSerializer:
    """The serializers and size bounds of one producer."""

    def __init__(self, config: ClientConfig, clock: Clock) -> None:
        self._key = config.function("key.serializer") or _to_bytes
        self._value = config.function("value.serializer") or _to_bytes
        self._size_max = config.number("max.request.size")
        self._clock = clock

    def record(
        self,
        topic: str,
        value: Any,  # noqa: ANN401
        key: Any,  # noqa: ANN401
        partition: int | None,
        headers: HeadersLike,
        timestamp_ms: int | None,
        done: Done,
    ) -> OutgoingRecord:
        """Return the record.

        Raises:
            IllegalArgumentError: The topic is blank, or partition or timestamp negative.
            MessageTooLargeError: It does not fit into max.request.size.
        """
        if not topic or not topic.strip():
            raise IllegalArgumentError("the topic must not be blank")
        if partition is not None and partition < 0:
            raise IllegalArgumentError(f"partition {partition} is negative")
        if timestamp_ms is not None and timestamp_ms < 0:
            raise IllegalArgumentError(f"timestamp {timestamp_ms} is negative")
        record = OutgoingRecord(
            topic,
            partition,
            _bytes(self._key, key, "key"),
            _bytes(self._value, value, "value"),
            with_trace_context(_headers(headers)),
            self._clock.wall_ms() if timestamp_ms is None else timestamp_ms,
            done,
        )
        size = record.size_bytes + HEADER_BYTES
        if size > self._size_max:
            raise MessageTooLargeError(
                f"a record of {size} bytes is larger than max.request.size = {self._size_max}",
                about=f"topic {topic}",
            )
        return record


def _bytes(serializer: Callable[..., object], thing: object, part: str) -> bytes | None:
    if thing is None:
        return None
    data = serializer(thing)
    if data is None or isinstance(data, bytes):
        return data
    raise IllegalArgumentError(
        f"the {part} serializer returned {type(data).__name__} instead of bytes"
    )


def _to_bytes(thing: object) -> bytes:
    if isinstance(thing, bytes):
        return thing
    if isinstance(thing, str):
        return thing.encode()
    if isinstance(thing, bytearray | memoryview):
        return bytes(thing)
    raise IllegalArgumentError(
        f"{type(thing).__name__} is neither bytes nor text; give key.serializer or value.serializer"
    )


def _headers(headers: HeadersLike) -> Headers:
    pairs = headers.items() if isinstance(headers, Mapping) else headers
    return tuple(
        (name, value.encode() if isinstance(value, str) else value) for name, value in pairs
    )
