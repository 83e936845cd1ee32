"""How many records a group gave up, by cause (docs/spec/archived-counts.md)."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from sharemesh.domain.delivery_state import Cause, DeliveryState
from sharemesh.domain.state_batch import TERMINAL, StateBatch


@dataclass(frozen=True, slots=True)
class ArchivedCounts:
    """Archived since a moment; ``counts`` are sorted by cause, and none is 0 (ARC-1)."""

    since_ms: int
    counts: tuple[tuple[Cause, int], ...] = ()

    def plus(self, more: Mapping[Cause, int]) -> "ArchivedCounts":
        """Return the counts after more records were archived."""
        if not more:
            return self
        summed = Counter(dict(self.counts)) + Counter(more)
        return ArchivedCounts(self.since_ms, tuple(sorted(summed.items())))


def has_archived(batches: Iterable[StateBatch]) -> bool:
    """Whether a write archives, or says again that it did."""
    return any(batch.delivery_state is DeliveryState.ARCHIVED for batch in batches)


def newly_archived(
    stored: Sequence[StateBatch], new: Iterable[StateBatch], cause: Cause, *, start_offset: int
) -> Counter[Cause]:
    """Count the offsets that a write archives and that were not finished before (ARC-2, ARC-3).

    Args:
        stored: The state before it: sorted and disjoint.
        new: What is written: sorted and disjoint.
        cause: Of the write, for batches that name none.
        start_offset: Of the state before it; what lies below is finished.
    """
    ends = [batch.last_offset for batch in stored] if stored else []
    counts: Counter[Cause] = Counter()
    for batch in new:
        if batch.delivery_state is not DeliveryState.ARCHIVED:
            continue
        first = max(batch.first_offset, start_offset)
        size = batch.last_offset - first + 1
        at = bisect_left(ends, first)
        while at < len(stored) and stored[at].first_offset <= batch.last_offset:
            old = stored[at]
            if _stays(old, batch):
                low, high = max(first, old.first_offset), min(batch.last_offset, old.last_offset)
                size -= high - low + 1
            at += 1
        if size > 0:
            counts[batch.cause or cause] += size
    return counts


def _stays(old: StateBatch, new: StateBatch) -> bool:
    """Whether the old state was final, or is better than the new one (CMB-2)."""
    return old.delivery_state in TERMINAL or old.delivery_count > new.delivery_count
