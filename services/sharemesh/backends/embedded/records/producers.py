"""Idempotent producers: epochs and sequences, as Kafka checks them."""

from collections import OrderedDict
from collections.abc import Iterator
from typing import NamedTuple

from sharemesh.codec.batch_frame import CONTROL, Frame
from sharemesh.domain.errors import ErrorCode, RefusedError

BATCHES_KEPT = 5
PRODUCERS_MAX = 20_000
"""Producers remembered of one partition: some 15 MiB. Any client may write under many ids."""

INVENTED_FROM = 1 << 62  # nobody comes so far by counting
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
        return other

    def all(self) -> Iterator[tuple[int, ProducerEntry]]:
        """Yield each producer with its id, the one that wrote longest ago first."""
        yield from self._producers.items()

    def restore(self, producer_id: int, producer: ProducerEntry) -> None:
        """Add a producer that ``all`` gave, as the one that wrote last."""
        self._producers[producer_id] = producer
        self._forget_oldest()

    def saw_id(self, producer_id: int) -> None:
        """Count an id, unless nobody ever gave it out: a client may write any number."""
        if producer_id < INVENTED_FROM:
            self._highest_id = max(self._highest_id, producer_id)

    def epoch_of(self, producer_id: int) -> int:
        """Return the newest epoch of a producer, or −1."""
        producer = self._producers.get(producer_id)
        return -1 if producer is None else producer.epoch

    def check(self, frames: list[Frame]) -> list[AppendedBatch | None]:
        """Return for each frame where it was written before, or None if it is new.

        Raises:
            RefusedError: INVALID_PRODUCER_EPOCH, OUT_OF_ORDER_SEQUENCE_NUMBER.
        """
        seen: dict[int, tuple[int, int]] = {}  # producer id -> epoch, last sequence
        answers: list[AppendedBatch | None] = []
        for frame in frames:
            known = None
            if frame.producer_id >= 0:
                known = self._duplicate(frame)
                if known is None:
                    self._check_next(frame, seen.get(frame.producer_id))
                    last = _last_sequence(frame)
                    seen[frame.producer_id] = (frame.producer_epoch, last)
            answers.append(known)
        return answers

    def check_marker(self, producer_id: int, epoch: int) -> None:
        """Return if a marker of this epoch may be written.

        Raises:
            RefusedError: INVALID_PRODUCER_EPOCH.
        """
        if epoch < self.epoch_of(producer_id):
            raise _old_epoch(producer_id, epoch, self.epoch_of(producer_id))

    def note(self, frame: Frame) -> None:
        """Remember a frame with its place in the log."""
        if frame.producer_id < 0:
            return
        self.saw_id(frame.producer_id)
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
        if len(self._producers) > PRODUCERS_MAX:
            self._producers.popitem(last=False)

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
