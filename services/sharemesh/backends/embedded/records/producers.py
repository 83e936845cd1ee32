"""What a log says about producers: epochs and sequences, as Kafka checks them, and transactions."""

from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

from sharemesh.codec.batch_frame import CONTROL, TRANSACTIONAL, Frame
from sharemesh.domain.errors import ErrorCode, RefusedError
from sharemesh.ports.record_log import OpenTransaction

BATCHES_KEPT = 5

PRODUCERS_MAX = 20_000
"""Producers remembered of one partition: some 15 MiB. Any client may write under many ids."""

OPEN_TRANSACTIONS_MAX = 1_000
"""Transactions that are open in one partition (BND-11)."""

PRODUCER_EPOCH_MAX = 32_767
"""Kafka's; no batch of a transaction may have it, so that its end can fence with a higher one."""

INVENTED_FROM = 1 << 62  # beyond any id that was given out

_SEQUENCES = 1 << 31


class AppendedBatch(NamedTuple):
    """One batch that is in the log, or waits for its commit; all bounds inclusive."""

    first_sequence: int
    last_sequence: int
    base_offset: int
    last_offset: int


class ProducerEntry(NamedTuple):
    """The newest epoch of one producer id and its last batches, oldest first."""

    epoch: int
    batches: tuple[AppendedBatch, ...] = ()


class Producers:
    """All producers of one partition; the one that wrote longest ago is forgotten first."""

    def __init__(self) -> None:
        self._producers: OrderedDict[int, ProducerEntry] = OrderedDict()
        self._transactions: dict[int, int] = {}  # producer id -> first offset, while one is open
        self._highest_id = -1

    @property
    def highest_id(self) -> int:
        """The highest producer id seen, or −1; new ids must be higher."""
        return self._highest_id

    def copy(self) -> "Producers":
        """Return an independent copy."""
        other = Producers()
        other._highest_id = self._highest_id
        other._producers = self._producers.copy()
        other._transactions = self._transactions.copy()
        return other

    def all(self) -> Iterator[tuple[int, ProducerEntry]]:
        """Yield each producer with its id, the one that wrote longest ago first."""
        yield from self._producers.items()

    def restore(self, producer_id: int, producer: ProducerEntry) -> None:
        """Add a producer that ``all`` gave, as the one that wrote last."""
        self._producers[producer_id] = producer
        self._forget_oldest()

    def restore_transactions(self, is_open: dict[int, int]) -> None:
        """Take over the first offset of each open transaction, by producer id."""
        self._transactions = dict(is_open)

    def transaction_of(self, producer_id: int) -> int | None:
        """Return the first offset of the transaction that a producer has open, or None."""
        return self._transactions.get(producer_id)

    def saw_id(self, producer_id: int) -> None:
        """Count an id if it may have been given out: a client may write any number."""
        if producer_id < INVENTED_FROM:
            self._highest_id = max(self._highest_id, producer_id)

    def epoch_of(self, producer_id: int) -> int:
        """Return the newest epoch of a producer, or −1."""
        producer = self._producers.get(producer_id)
        return -1 if producer is None else producer.epoch

    def check(self, frames: list[Frame]) -> list[AppendedBatch | None]:
        """Return for each frame where it was written before, or None if it is new.

        Raises:
            RefusedError: INVALID_PRODUCER_EPOCH, OUT_OF_ORDER_SEQUENCE_NUMBER, INVALID_TXN_STATE.
        """
        begun: set[int] = set()
        seen: dict[int, tuple[int, int]] = {}  # producer id -> epoch, last sequence
        answers: list[AppendedBatch | None] = []
        for frame in frames:
            known = None
            if frame.producer_id >= 0:
                known = self._duplicate(frame)
                if known is None:
                    earlier = seen.get(frame.producer_id)
                    self._check_next(frame, earlier)
                    self._check_open(frame, begun, earlier)
                    if frame.attributes & TRANSACTIONAL:
                        self._check_transaction(frame, begun)
                    last = _last_sequence(frame)
                    seen[frame.producer_id] = (frame.producer_epoch, last)
            answers.append(known)
        return answers

    def check_marker(self, producer_id: int, epoch: int) -> None:
        """Return if a marker of this epoch may be written.

        Raises:
            RefusedError: INVALID_PRODUCER_EPOCH.
        """
        if not 0 <= epoch <= PRODUCER_EPOCH_MAX:
            raise RefusedError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"producer {producer_id} cannot have epoch {epoch}: send 0 to {PRODUCER_EPOCH_MAX}",
            )
        if epoch < self.epoch_of(producer_id):
            raise _old_epoch(producer_id, epoch, self.epoch_of(producer_id))

    def note(self, frame: Frame) -> None:
        """Remember a frame with its place in the log."""
        if frame.producer_id < 0:
            return
        self.saw_id(frame.producer_id)
        if frame.attributes & CONTROL:
            self._transactions.pop(frame.producer_id, None)
        elif frame.attributes & TRANSACTIONAL:
            self._transactions.setdefault(frame.producer_id, frame.base_offset)
        producer = self._producers.pop(frame.producer_id, None)
        if producer is None or frame.producer_epoch > producer.epoch:
            producer = ProducerEntry(frame.producer_epoch)
        if not frame.attributes & CONTROL:
            last = AppendedBatch(
                frame.base_sequence,
                _last_sequence(frame),
                frame.base_offset,
                frame.end_offset - 1,
            )
            producer = ProducerEntry(producer.epoch, (*producer.batches, last)[-BATCHES_KEPT:])
        self._producers[frame.producer_id] = producer
        self._forget_oldest()

    def _forget_oldest(self) -> None:
        """Keep the bound; the epoch of who has a transaction open must fence late batches."""
        turns = OPEN_TRANSACTIONS_MAX  # more may be open in a log from before there was a bound
        while len(self._producers) > PRODUCERS_MAX:
            oldest = next(iter(self._producers))
            if oldest in self._transactions and turns:
                self._producers.move_to_end(oldest)
                turns -= 1
            else:
                del self._producers[oldest]

    def _check_open(self, frame: Frame, begun: set[int], earlier: tuple[int, int] | None) -> None:
        """Refuse a newer epoch while a transaction is open: it would join it (BND-11).

        So the newest epoch of a producer is always that of the transaction that it has open.
        """
        producer_id = frame.producer_id
        if producer_id not in self._transactions and producer_id not in begun:
            return
        newest = self.epoch_of(producer_id) if earlier is None else earlier[0]
        if frame.producer_epoch > newest:
            first = self._transactions.get(producer_id)
            raise RefusedError(
                ErrorCode.INVALID_TXN_STATE,
                f"producer {producer_id} has a transaction open in this partition, "
                f"{'in this request' if first is None else f'from offset {first}'} under an older "
                f"epoch than {frame.producer_epoch}: end it first (sharemesh transactions abort), "
                "or wait until it times out",
            )

    def _check_transaction(self, frame: Frame, begun: set[int]) -> None:
        """Refuse a batch that begins one transaction too many, or that nothing could fence."""
        if frame.producer_epoch >= PRODUCER_EPOCH_MAX:
            raise RefusedError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"producer {frame.producer_id} has used up its epochs: no transaction may have "
                f"epoch {PRODUCER_EPOCH_MAX}; ask for a new producer id",
            )
        if frame.producer_id in self._transactions:
            return
        begun.add(frame.producer_id)
        if len(self._transactions) + len(begun) > OPEN_TRANSACTIONS_MAX:
            raise RefusedError(
                ErrorCode.INVALID_TXN_STATE,
                f"{len(self._transactions)} transactions are open in this partition, at most "
                f"{OPEN_TRANSACTIONS_MAX} may be: end some (sharemesh transactions list, abort), "
                "or wait until they time out",
            )

    def _duplicate(self, frame: Frame) -> AppendedBatch | None:
        producer = self._producers.get(frame.producer_id)
        if producer is None or producer.epoch != frame.producer_epoch:
            return None
        last = _last_sequence(frame)
        for batch in producer.batches:
            if batch.first_sequence == frame.base_sequence and batch.last_sequence == last:
                return batch
        return None

    def _check_next(self, frame: Frame, earlier: tuple[int, int] | None) -> None:
        producer = self._producers.get(frame.producer_id)
        if earlier is not None:
            epoch, last = earlier
        elif producer is not None:
            epoch = producer.epoch
            last = producer.batches[-1].last_sequence if producer.batches else -1
        else:
            return  # unknown here, or forgotten: any sequence may begin
        if frame.producer_epoch < epoch:
            raise _old_epoch(frame.producer_id, frame.producer_epoch, epoch)
        wanted = 0 if frame.producer_epoch > epoch else (last + 1) % _SEQUENCES
        if frame.base_sequence != wanted:
            raise RefusedError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"producer {frame.producer_id} sent sequence {frame.base_sequence}, and "
                f"{wanted} is next",
            )


def _last_sequence(frame: Frame) -> int:
    return (frame.base_sequence + frame.record_count - 1) % _SEQUENCES


def _old_epoch(producer_id: int, epoch: int, newest: int) -> RefusedError:
    return RefusedError(
        ErrorCode.INVALID_PRODUCER_EPOCH,
        f"producer {producer_id} has epoch {newest}, {epoch} is old: initialize it again",
    )


@dataclass(frozen=True, slots=True)
class AbortedTxn:
    """One entry of the aborted index; ``last_offset`` is that of the abort marker."""

    producer_id: int
    first_offset: int
    last_offset: int


class Transactions:
    """What committed frames say about transactions; feed them in log order."""

    def __init__(self) -> None:
        # producer id -> first offset, and since when it is known; insertion = offset order
        self._open: dict[int, tuple[int, int]] = {}
        self._aborted: list[AbortedTxn] = []  # ascending last offset
        self._last_offsets: list[int] = []

    def note(self, frame: Frame, *, is_abort: bool, now_ms: int = 0) -> None:
        """Take in the next committed frame; ``is_abort`` counts for control batches only."""
        if not frame.attributes & TRANSACTIONAL:
            return
        if not frame.attributes & CONTROL:
            self._open.setdefault(frame.producer_id, (frame.base_offset, now_ms))
            return
        begun = self._open.pop(frame.producer_id, None)
        if is_abort and begun is not None:
            last = frame.end_offset - 1
            self._aborted.append(AbortedTxn(frame.producer_id, begun[0], last))
            self._last_offsets.append(last)

    def open(self) -> dict[int, int]:
        """Return the first offset of each open transaction, by producer id, in offset order."""
        return {producer_id: first for producer_id, (first, _) in self._open.items()}

    def known_since(self, now_ms: int) -> None:
        """Count the time of every open transaction from now: the log does not say when it began."""
        for producer_id, (first, _) in self._open.items():
            self._open[producer_id] = (first, now_ms)

    def listed(self, producers: "Producers", now_ms: int) -> list[OpenTransaction]:
        """Return the open transactions, the one that began first in front."""
        return [
            OpenTransaction(producer_id, producers.epoch_of(producer_id), first, now_ms - since_ms)
            for producer_id, (first, since_ms) in self._open.items()
        ]

    def open_for(self, duration_ms: int, now_ms: int, at_most: int) -> list[tuple[int, int]]:
        """Return producer id and first offset of transactions that are open for so long."""
        found = (
            (producer_id, first)
            for producer_id, (first, since_ms) in self._open.items()
            if now_ms - since_ms >= duration_ms
        )
        return list(islice(found, at_most))

    def aborted_from(self, offset: int) -> tuple[AbortedTxn, ...]:
        """Return aborted transactions whose marker lies at ``offset`` or behind."""
        return tuple(self._aborted[bisect_left(self._last_offsets, offset) :])

    def restore(self, is_open: dict[int, int], aborted: Iterable[AbortedTxn]) -> None:
        """Adopt open transactions, and the aborted ones of the loaded segment."""
        self._open = {producer_id: (first, 0) for producer_id, first in is_open.items()}
        for txn in aborted:
            self._aborted.append(txn)
            self._last_offsets.append(txn.last_offset)

    def stable_end(self, high_watermark: int) -> int:
        """Return the last stable offset: where the oldest open transaction begins."""
        first, _ = next(iter(self._open.values()), (high_watermark, 0))
        return min(first, high_watermark)

    def aborted_between(self, offset: int, end_offset: int) -> tuple[AbortedTxn, ...]:
        """Return aborted transactions that overlap ``[offset, end_offset)``, by last offset."""
        start = bisect_left(self._last_offsets, offset)
        return tuple(txn for txn in self._aborted[start:] if txn.first_offset < end_offset)

    def forget_before(self, log_start_offset: int) -> None:
        """Drop aborted transactions that end below the log start."""
        count = bisect_left(self._last_offsets, log_start_offset)
        del self._aborted[:count]
        del self._last_offsets[:count]
