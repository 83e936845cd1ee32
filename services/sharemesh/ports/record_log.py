"""The partitioned log that holds the records (LOG-1): RecordBatch v2 bytes, never decoded."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Protocol

from sharemesh.domain.ids import TopicPartition
from sharemesh.domain.record_batch import BatchHeader
from sharemesh.domain.share_partition.events import AbortedTransaction
from sharemesh.domain.topics import HOUR_MS, INT64_MAX

Placed = Callable[[], None]
"""Hears that an append has its place."""


@dataclass(frozen=True, slots=True)
class AppendResult:
    """Where batches landed, once they are committed."""

    base_offset: int
    last_offset: int
    log_start_offset: int


@dataclass(frozen=True, slots=True)
class ReadResult:
    """Whole record batches: the bytes, and the header of each.

    ``aborted`` are the aborted transactions that overlap them; None if that was not asked for.
    """

    records: bytes
    headers: tuple[BatchHeader, ...]
    aborted: tuple[AbortedTransaction, ...] | None = None


@dataclass(frozen=True, slots=True)
class OpenTransaction:
    """A transaction without an end; its age counts from when this leader knows it."""

    producer_id: int
    producer_epoch: int
    first_offset: int
    age_ms: int


@dataclass(frozen=True, slots=True)
class TopicLogConfig:
    """What a topic's configuration says about its logs; −1 is without limit.

    Attributes:
        retention_ms: ``retention.ms``.
        retention_bytes: ``retention.bytes``, per partition.
        batch_bytes_max: ``max.message.bytes``, of one record batch.
        segment_bytes: ``segment.bytes``; −1 takes the process's default.
        timestamp_before_max_ms: ``message.timestamp.before.max.ms`` (BND-14).
        timestamp_after_max_ms: ``message.timestamp.after.max.ms`` (BND-14).
    """

    retention_ms: int = -1
    retention_bytes: int = -1
    batch_bytes_max: int = 1_048_588
    segment_bytes: int = -1
    timestamp_before_max_ms: int = INT64_MAX
    timestamp_after_max_ms: int = HOUR_MS


SearchTurn = Callable[[], AbstractAsyncContextManager[None]]
"""What is held while batches are searched (BND-35); it waits for its turn."""


class PartitionLog(Protocol):
    """One topic-partition, taken over under one leader epoch.

    Properties are plain reads of memory. All offsets below ``high_watermark`` are durable.
    """

    @property
    def leader_epoch(self) -> int:
        """The epoch of this writer."""
        ...

    @property
    def log_start_offset(self) -> int:
        """The first offset that still counts."""
        ...

    @property
    def high_watermark(self) -> int:
        """The committed end: one past the last confirmed record."""
        ...

    @property
    def last_stable_offset(self) -> int:
        """One past the last record that belongs to no open transaction."""
        ...

    @property
    def highest_producer_id(self) -> int:
        """The highest producer id in the log, or −1; ids handed out later are above (LOG-1)."""
        ...

    @property
    def has_own_fence(self) -> bool:
        """Whether taking it over fences it; else state read under the new epoch is the fence."""
        ...

    @property
    def damage(self) -> tuple[int, str] | None:
        """The first offset that cannot be read, and where and what to do; None if all is whole."""
        ...

    @property
    def unavailable(self) -> str:
        """Why records cannot be read for the time being, and since when; empty if they can."""
        ...

    async def refresh(self) -> None:
        """Learn where the log starts and ends now, if others may write to it too.

        Raises:
            RefusedError: KAFKA_STORAGE_ERROR; it cannot be asked.
        """
        ...

    def on_advance(self, callback: Callable[[], None]) -> None:
        """Call back on the loop after each move of the high watermark or the log start."""
        ...

    async def append(self, batches: bytes, placed: Placed | None = None) -> AppendResult:
        """Validate, assign offsets, append, and return once committed.

        ``placed`` is called as soon as the batches have their place behind all that was appended
        before; never, where that is known with the commit only, or for a refusal.

        Batches of a known (producer id, epoch, sequence) are answered with where they landed
        before. CRC and bounds are checked first; nothing of a refused call is written.

        Raises:
            RefusedError: CORRUPT_MESSAGE, MESSAGE_TOO_LARGE, OUT_OF_ORDER_SEQUENCE_NUMBER,
                INVALID_PRODUCER_EPOCH, INVALID_RECORD, INVALID_TIMESTAMP, INVALID_TXN_STATE,
                KAFKA_STORAGE_ERROR (disk full).
            FencedError, LogFailedError: No longer the leader's to write.
        """
        ...

    async def append_txn_marker(
        self, producer_id: int, producer_epoch: int, *, commit: bool
    ) -> AppendResult:
        """Append a control batch that ends the open transaction of this producer."""
        ...

    def open_transactions(self) -> list[OpenTransaction]:
        """Return the open transactions, the one that began first in front."""
        ...

    async def abort_transactions(self, open_ms: int) -> int:
        """Abort transactions that are open for so long, and return how many: 0 means none is left.

        Each is aborted under a higher producer epoch, so that late batches of it are refused.

        Raises:
            RefusedError: KAFKA_STORAGE_ERROR.
            FencedError, LogFailedError: No longer the leader's to write.
        """
        ...

    async def read(
        self,
        offset: int,
        *,
        max_bytes: int,
        end_offset: int | None = None,
        committed: bool = False,
    ) -> ReadResult:
        """Return whole batches from the one that holds ``offset`` (or the next one).

        At least one batch, even if larger than ``max_bytes``; none at or past ``end_offset``
        (default: the high watermark), except the next one where compaction left none before it.
        ``committed`` asks for the aborted transactions too, up to the last stable offset by
        default.

        Raises:
            RefusedError: OFFSET_OUT_OF_RANGE below the log start or past the end;
                KAFKA_STORAGE_ERROR for corruption, with file, position and offset.
        """
        ...

    async def look(self) -> None:
        """Check that no higher fence exists now (LOG-8), for responses that write nothing.

        Raises:
            FencedError: A higher fence exists.
        """
        ...

    def looks_begun(self) -> int:
        """Return how many checks for higher fences have begun, those of commits included."""
        ...

    def has_looked_since(self, looks_begun: int) -> bool:
        """Return whether a later check than so many found no higher fence just now (LOG-8).

        A filling whose commits check for none says no.
        """
        ...

    def bytes_between(self, offset: int, end_offset: int) -> int:
        """Return about how many bytes lie in ``[offset, end_offset)`` (spec DF-3), from memory."""
        ...

    async def offset_for_timestamp(self, time_ms: int, turn: SearchTurn) -> tuple[int, int] | None:
        """Return (offset, timestamp) of the first record at or after the time, or None.

        ``turn`` is held while batches are opened to be searched; a filling that asks others for it
        opens none. What it raises is raised.
        """
        ...

    async def delete_records(self, before_offset: int) -> int:
        """Move the log start (−1: to the high watermark) and return it, once committed.

        In a corrupt log also past the corruption, up to the end of all that was ever confirmed
        (−1: to there); if what is left can be read, appends are accepted again.

        Raises:
            RefusedError: OFFSET_OUT_OF_RANGE, KAFKA_STORAGE_ERROR (the queue is full).
            FencedError, LogFailedError: No longer the leader's to write.
        """
        ...

    def configure(self, config: TopicLogConfig) -> None:
        """Take over a topic's configuration; it holds from the next append or retention on."""
        ...

    async def apply_retention(self, now_wall_ms: int) -> int:
        """Move the log start past what is too old or too much, and return it once committed.

        Whole segments go, oldest first; see ``TopicLogConfig``.
        """
        ...

    async def close(self) -> None:
        """Stop writing and release files."""
        ...


class RecordLogs(Protocol):
    """All topic-partitions that this process may lead."""

    async def open(self, partition: TopicPartition, leader_epoch: int) -> PartitionLog:
        """Take the partition over under ``leader_epoch`` (LOG-5).

        A corrupt log opens too: its high watermark is where the corruption begins, what lies
        before that is served, and appends are refused with KAFKA_STORAGE_ERROR.

        Raises:
            FencedError: A fence at or above ``leader_epoch`` exists.
            LogFailedError: The storage refused; open it again with a new epoch.
        """
        ...

    async def delete(self, partition: TopicPartition) -> None:
        """Free what is kept here of a deleted topic's partition; repeating it is fine.

        Whoever still has it open is fenced, if anything was kept.
        """
        ...


class ProducerIds(Protocol):
    """Hands out ids; a filling takes them in blocks."""

    async def allocate(self) -> int:
        """Return an id, at least 0, that no producer of this cluster had before.

        Raises:
            RefusedError: COORDINATOR_NOT_AVAILABLE while no new block can be had.
        """
        ...
