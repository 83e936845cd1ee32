"""Open transactions and the aborted index of one partition (read_committed, spec ISO-1, ISO-2)."""

from bisect import bisect_left
from collections.abc import Iterable

from sharemesh.codec.batch_frame import CONTROL, TRANSACTIONAL, Frame
from sharemesh.ports.record_log import AbortedTxn


class Transactions:
    """What committed frames say about transactions; feed them in log order."""

    def __init__(self) -> None:
        self._open: dict[int, int] = {}  # producer id -> first offset; insertion = offset order
        self._aborted: list[AbortedTxn] = []  # ascending last offset
        self._last_offsets: list[int] = []

    def note(self, frame: Frame, *, is_abort: bool) -> None:
        """Take in the next committed frame; ``is_abort`` counts for control batches only."""
        if not frame.attributes & TRANSACTIONAL:
            return
        if not frame.attributes & CONTROL:
            self._open.setdefault(frame.producer_id, frame.base_offset)
            return
        first = self._open.pop(frame.producer_id, None)
        if is_abort and first is not None:
            last = frame.end_offset - 1
            self._aborted.append(AbortedTxn(frame.producer_id, first, last))
            self._last_offsets.append(last)

    def open(self) -> dict[int, int]:
        """Return the first offset of each open transaction, by producer id, in offset order."""
        return dict(self._open)

    def aborted_from(self, offset: int) -> tuple[AbortedTxn, ...]:
        """Return aborted transactions whose marker lies at ``offset`` or behind."""
        return tuple(self._aborted[bisect_left(self._last_offsets, offset) :])

    def restore(self, is_open: dict[int, int], aborted: Iterable[AbortedTxn]) -> None:
        """Take over what is open, and the aborted ones of the segment that was loaded."""
        self._open = dict(is_open)
        for txn in aborted:
            self._aborted.append(txn)
            self._last_offsets.append(txn.last_offset)

    def stable_end(self, high_watermark: int) -> int:
        """Return the last stable offset: where the oldest open transaction begins."""
        return min(next(iter(self._open.values()), high_watermark), high_watermark)

    def aborted_between(self, offset: int, end_offset: int) -> tuple[AbortedTxn, ...]:
        """Return aborted transactions that overlap ``[offset, end_offset)``, by last offset."""
        start = bisect_left(self._last_offsets, offset)
        return tuple(txn for txn in self._aborted[start:] if txn.first_offset < end_offset)

    def forget_before(self, log_start_offset: int) -> None:
        """Drop aborted transactions that end below the log start."""
        count = bisect_left(self._last_offsets, log_start_offset)
        del self._aborted[:count]
        del self._last_offsets[:count]
