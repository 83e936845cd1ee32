"""A partition log in memory: headers only, as much of a log as a share partition can see."""

from bisect import bisect_left
from dataclasses import dataclass, field

from sharemesh.domain.group_config import IsolationLevel
from sharemesh.domain.share_partition.events import AbortedTransaction, LogBatch

NO_PRODUCER = -1


@dataclass
class MemoryLog:
    """Offsets from ``start`` to before ``end``; batches may have holes between them."""

    start: int = 0
    end: int = 0
    batches: list[LogBatch] = field(default_factory=list)
    _open: dict[int, int] = field(default_factory=dict)  # producer -> first offset
    _aborted: list[tuple[int, int, int]] = field(default_factory=list)  # producer, first, marker

    def append(self, record_count: int, producer_id: int = NO_PRODUCER) -> LogBatch:
        """Append one batch with a record at every offset."""
        transactional = producer_id != NO_PRODUCER
        batch = LogBatch(
            self.end, self.end + record_count - 1, producer_id, is_transactional=transactional
        )
        if transactional:
            self._open.setdefault(producer_id, self.end)
        self._add(batch)
        return batch

    def place(self, first: int, last: int, **fields) -> LogBatch:
        """Append one batch at a chosen offset at or behind the end."""
        batch = LogBatch(first, last, **fields)
        self._add(batch)
        return batch

    def gap(self, offset_count: int) -> None:
        """Let the log end grow without a batch."""
        self.end += offset_count

    def end_transaction(self, producer_id: int, *, commit: bool) -> int:
        """Append a control batch and return its offset."""
        offset = self.end
        first = self._open.pop(producer_id, None)
        if not commit and first is not None:
            self._aborted.append((producer_id, first, offset))
        self._add(
            LogBatch(
                offset,
                offset,
                producer_id,
                is_transactional=True,
                is_control=True,
                is_abort_marker=not commit,
            )
        )
        return offset

    def compact(self, first: int, last: int) -> list[LogBatch]:
        """Remove and return the batches that lie wholly inside."""
        removed = [b for b in self.batches if first <= b.base_offset and b.last_offset <= last]
        self.batches = [b for b in self.batches if b not in removed]
        return removed

    def read(
        self, offset: int, isolation_level: IsolationLevel, max_batches: int | None = None
    ) -> tuple[tuple[LogBatch, ...], tuple[AbortedTransaction, ...]]:
        """Return whole batches from the one that holds ``offset``, and aborted transactions."""
        bound = self.end
        if isolation_level is IsolationLevel.READ_COMMITTED:
            bound = min([self.end, *self._open.values()])
        offset = max(offset, self.start)
        low = bisect_left(self.batches, offset, key=lambda batch: batch.last_offset)
        read = [batch for batch in self.batches[low:] if batch.last_offset < bound][:max_batches]
        if not read or isolation_level is IsolationLevel.READ_UNCOMMITTED:
            return tuple(read), ()
        aborted = tuple(
            AbortedTransaction(producer, first)
            for producer, first, marker in self._aborted
            if first <= read[-1].last_offset and marker >= read[0].base_offset
        )
        return tuple(read), aborted

    def _add(self, batch: LogBatch) -> None:
        self.batches.append(batch)
        self.end = batch.last_offset + 1
