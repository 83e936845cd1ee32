"""Records that failed often are delivered in small lots (spec THR-1..7)."""

from collections.abc import Sequence

from sharemesh.domain.group_config import GroupConfig
from sharemesh.domain.share_partition.cache.cached_batch import Run


def suspicious_from(config: GroupConfig) -> int:
    """Return the delivery count from which a record is suspicious (THR-1)."""
    return max(2, (config.delivery_count_limit + 1) // 2)


def is_throttled(config: GroupConfig, runs: Sequence[Run]) -> bool:
    """Return whether any acquirable record of these runs is suspicious (THR-2, THR-7)."""
    threshold = suspicious_from(config)
    return any(status.acquirable and status.delivery_count >= threshold for _, _, status in runs)


class ThrottledLot:
    """How many offsets of one cached batch go out at once (THR-4, THR-5, ACQ-10).

    The size of a small lot is found at the first suspicious record. QUIRK, as Kafka's traces
    show: it closes the lot only when the count meets it exactly, so a lot that was larger
    already when the first suspicious record came is not cut.
    """

    __slots__ = (
        "_batch_size",
        "_limit",
        "_record_limit",
        "_small",
        "_threshold",
        "closed",
        "count",
    )

    def __init__(self, config: GroupConfig, batch_size: int, record_limit: int | None) -> None:
        self.count = 0
        self.closed = False
        self._batch_size = batch_size
        self._record_limit = record_limit
        self._limit = config.delivery_count_limit
        self._threshold = suspicious_from(config)
        self._small: int | None = None

    def take(self, delivery_count: int, record_count: int) -> int:
        """Return how many of a run of records go out; ``closed`` says that nothing may follow."""
        if self._limit > 2 and delivery_count == self._limit - 1:  # THR-5, THR-6
            if self.count:
                self.closed = True
                return 0
            self.closed = True
            self.count = 1
            return 1
        if self._small is None and delivery_count >= self._threshold:  # THR-4
            self._small = max(1, self._batch_size >> (delivery_count - self._threshold + 1))
        taken = record_count
        for bound in (self._small, self._record_limit):
            if bound is not None and self.count < bound <= self.count + taken:
                taken = bound - self.count
                self.closed = True
        self.count += taken
        return taken
