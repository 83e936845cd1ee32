"""One replica's log: batches, leader epochs, producers and transactions, all cut off together."""

from bisect import bisect_left, bisect_right
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from sharemesh.codec.batch_frame import CONTROL, TRANSACTIONAL
from sharemesh.ports.brokers import AbortedRange
from sharemesh.testing.memory_brokers.broker_codes import BrokerCode, refusal
from sharemesh.testing.memory_brokers.stored_batches import (
    StoredBatch,
    first_at_or_after,
    without_records,
)

REMEMBERED_BATCHES = 5
"""Batches of one producer that a broker recognizes when they come again."""

UNDEFINED_EPOCH_END = (-1, -1)
_SEQUENCES = 1 << 31


@dataclass(slots=True)
class _ProducerEntry:
    """What is known of one producer: its epoch, and (first sequence, count, base offset)."""

    epoch: int
    batches: list[tuple[int, int, int]] = field(default_factory=list)
    open_since: int | None = None


class ReplicaLog:
    """Batches in order; offsets between them may be missing (compaction).

    Attributes:
        start_offset: The first offset that may be read.
        end_offset: Where the next batch would lie.
        epochs: (leader epoch, its first offset), ascending.
    """

    def __init__(self) -> None:
        self.start_offset = 0
        self.end_offset = 0
        self.epochs: list[tuple[int, int]] = []
        self._batches: list[StoredBatch] = []
        self._bases: list[int] = []
        self._of_producers: list[StoredBatch] = []  # kept when the log start passes them
        self._producers: dict[int, _ProducerEntry] = {}
        self._aborted: list[tuple[int, int, int]] = []  # producer id, first, marker's offset

    # ---- writing ----------------------------------------------------------------------------

    def append(self, batch: StoredBatch) -> None:
        """Add a batch at its own offset."""
        if batch.base_offset < self.end_offset:
            raise ValueError(f"batch at {batch.base_offset}, but the log ends at {self.end_offset}")
        self.begin_epoch(batch.frame.leader_epoch, batch.base_offset)
        self._batches.append(batch)
        self._bases.append(batch.base_offset)
        self.end_offset = batch.end_offset
        if batch.frame.producer_id >= 0:
            self._of_producers.append(batch)
            self._note_producer(batch)

    def begin_epoch(self, epoch: int, offset: int | None = None) -> None:
        """Note that a leader epoch begins here (default: at the end)."""
        if not self.epochs or epoch > self.epochs[-1][0]:
            self.epochs.append((epoch, self.end_offset if offset is None else offset))

    def truncate(self, end_offset: int) -> None:
        """Cut off what lies at or above an offset; batches go whole."""
        keep = bisect_left(self._bases, end_offset)
        if keep and self._batches[keep - 1].end_offset > end_offset:
            keep -= 1
        cut = self._batches[keep].base_offset if keep < len(self._batches) else end_offset
        del self._batches[keep:], self._bases[keep:]
        self.end_offset = min(self.end_offset, cut, end_offset)
        self.start_offset = min(self.start_offset, self.end_offset)
        self.epochs = [entry for entry in self.epochs if entry[1] < self.end_offset]
        self._of_producers = [
            each for each in self._of_producers if each.end_offset <= self.end_offset
        ]
        self._producers.clear()
        self._aborted.clear()
        for batch in self._of_producers:
            self._note_producer(batch)

    def restart_at(self, offset: int) -> None:
        """Begin anew, empty: what was here is too old for its leader."""
        self.truncate(0)
        self.start_offset = self.end_offset = offset

    def advance_start(self, offset: int) -> None:
        """Forget what lies below an offset."""
        self.start_offset = max(self.start_offset, min(offset, self.end_offset))
        gone = 0
        while gone < len(self._batches) and self._batches[gone].end_offset <= self.start_offset:
            gone += 1
        del self._batches[:gone], self._bases[:gone]
        while len(self.epochs) > 1 and self.epochs[1][1] <= self.start_offset:
            del self.epochs[0]
        if self.epochs and self.epochs[0][1] < self.start_offset:
            self.epochs[0] = (self.epochs[0][0], self.start_offset)

    def clean(self, end_offset: int, gone: AbstractSet[int], *, keeps_last: bool) -> None:
        """Remove records below an offset, and batches without any, as Kafka's cleaner does.

        Control batches stay, and so does the last batch of each producer, which says what is next
        of it. ``keeps_last``: so does the last one of all, because it lies in the segment that is
        written to, which is never cleaned.
        """
        cleaned = bisect_left(self._bases, end_offset)
        if cleaned and self._batches[cleaned - 1].end_offset > end_offset:
            cleaned -= 1
        kept = set(self._bases[cleaned - 1 : cleaned] if keeps_last else ())
        written = [each.frame for each in self._of_producers if not each.is_control]
        kept.update({frame.producer_id: frame.base_offset for frame in written}.values())
        left: list[StoredBatch] = []
        for batch in self._batches[:cleaned]:
            rest = batch if batch.is_control else without_records(batch, gone)
            if rest.frame.record_count or batch.base_offset in kept:
                left.append(rest)
        self._batches[:cleaned] = left
        self._bases[:cleaned] = [batch.base_offset for batch in left]

    @property
    def first_offset(self) -> int:
        """Where the first batch begins; a log may start in the middle of it."""
        return self._bases[0] if self._bases else self.start_offset

    # ---- reading ----------------------------------------------------------------------------

    def batches(self, offset: int, end_offset: int | None = None) -> list[StoredBatch]:
        """Return the batches from the one that holds ``offset``, below ``end_offset``."""
        begin = bisect_right(self._bases, offset) - 1
        if begin < 0 or self._batches[begin].end_offset <= offset:
            begin += 1
        end = None if end_offset is None else bisect_left(self._bases, end_offset)
        return self._batches[begin:end]

    def read(self, offset: int, end_offset: int, bytes_max: int, *, whole_first: bool) -> bytes:
        """Return bytes as a broker cuts them: the last batch may be incomplete.

        Without ``whole_first`` nothing comes if the first batch is larger than the limit.
        """
        begin = bisect_right(self._bases, offset) - 1
        if begin < 0 or self._batches[begin].end_offset <= offset:
            begin += 1
        pieces: list[bytes] = []
        room = bytes_max
        for index in range(begin, len(self._batches)):
            batch = self._batches[index]
            if batch.end_offset > end_offset or (room <= 0 and pieces):
                break
            if not pieces and len(batch.data) > room:
                return batch.data if whole_first else b""
            pieces.append(batch.data[:room])
            room -= len(batch.data)
        return b"".join(pieces)

    def find_time(self, timestamp_ms: int, end_offset: int) -> tuple[int, int] | None:
        """Return (offset, timestamp) of the first record at or after a time."""
        for batch in self.batches(self.start_offset, end_offset):
            if not batch.frame.attributes & CONTROL:
                found = first_at_or_after(batch, timestamp_ms, self.start_offset)
                if found is not None:
                    return found
        return None

    # ---- leader epochs ----------------------------------------------------------------------

    @property
    def last_epoch(self) -> int:
        """The newest leader epoch of the log, −1 without any."""
        return self.epochs[-1][0] if self.epochs else -1

    def epoch_of(self, offset: int) -> int:
        """Return the leader epoch that an offset belongs to, −1 if unknown."""
        found = bisect_right(self.epochs, offset, key=lambda entry: entry[1])
        return self.epochs[found - 1][0] if found else -1

    def end_of_epoch(self, epoch: int) -> tuple[int, int]:
        """Return (epoch, end offset) of the largest epoch at most ``epoch``, as brokers answer."""
        if epoch < 0 or not self.epochs or epoch > self.last_epoch:
            return UNDEFINED_EPOCH_END
        if epoch == self.last_epoch:
            return epoch, self.end_offset
        above = bisect_right(self.epochs, epoch, key=lambda entry: entry[0])
        floor = self.epochs[above - 1][0] if above else epoch
        return floor, self.epochs[above][1]

    # ---- producers and transactions ---------------------------------------------------------

    def known_as(self, batch: StoredBatch) -> int | None:
        """Return where a batch of an idempotent producer lies already; None: it is new.

        Raises:
            BrokerRefusedError: INVALID_PRODUCER_EPOCH or OUT_OF_ORDER_SEQUENCE_NUMBER.
        """
        frame = batch.frame
        entry = self._producers.get(frame.producer_id)
        if frame.producer_id < 0 or entry is None:
            return None
        if frame.producer_epoch < entry.epoch:
            detail = f"epoch {frame.producer_epoch} is older than {entry.epoch}"
            raise refusal(BrokerCode.INVALID_PRODUCER_EPOCH, detail)
        expected = 0
        if frame.producer_epoch == entry.epoch and entry.batches:
            for sequence, count, base_offset in entry.batches:
                if (sequence, count) == (frame.base_sequence, frame.record_count):
                    return base_offset
            sequence, count, _ = entry.batches[-1]
            expected = (sequence + count) % _SEQUENCES
        if frame.base_sequence != expected:
            detail = f"sequence {frame.base_sequence} is not {expected}"
            raise refusal(BrokerCode.OUT_OF_ORDER_SEQUENCE_NUMBER, detail)
        return None

    def first_open_transaction(self) -> int | None:
        """Return where the oldest transaction that has no end begins."""
        begun = [each.open_since for each in self._producers.values()]
        return min((since for since in begun if since is not None), default=None)

    def aborted_within(self, offset: int, end_offset: int) -> tuple[AbortedRange, ...]:
        """Return the aborted transactions that reach into a range."""
        return tuple(
            AbortedRange(producer_id, first)
            for producer_id, first, marker in self._aborted
            if marker >= offset and first < end_offset
        )

    def _note_producer(self, batch: StoredBatch) -> None:
        frame = batch.frame
        entry = self._producers.get(frame.producer_id)
        if entry is None or frame.producer_epoch > entry.epoch:
            since = None if entry is None else entry.open_since
            entry = _ProducerEntry(frame.producer_epoch, open_since=since)
            self._producers[frame.producer_id] = entry
        if frame.attributes & CONTROL:
            if batch.is_abort and entry.open_since is not None:
                self._aborted.append((frame.producer_id, entry.open_since, frame.base_offset))
            entry.open_since = None
            return
        if frame.base_sequence >= 0:
            known = (frame.base_sequence, frame.record_count, frame.base_offset)
            entry.batches = [*entry.batches, known][-REMEMBERED_BATCHES:]
        if frame.attributes & TRANSACTIONAL and entry.open_since is None:
            entry.open_since = frame.base_offset
