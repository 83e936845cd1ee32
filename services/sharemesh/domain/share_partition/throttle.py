"""Records that failed often are delivered in small lots (spec THR-1..7)."""

from collections.abc import Sequence

from sharemesh.domain.group_config import GroupConfig
from sharemesh.domain.share_partition.cached_batch import Run


def suspicious_from(config: GroupConfig) -> int:
    """Return the delivery count from which a record is suspicious (THR-1)."""
    return max(2, (config.delivery_count_limit + 1) // 2)


def is_throttled(config: GroupConfig, runs: Sequence[Run]) -> bool:
    """Return whether any acquirable record of these runs is suspicious (THR-2, THR-7)."""
    threshold = suspicious_from(config)
    return any(status.acquirable and status.delivery_count >= threshold for _, _, status in runs)


def throttled_limit(config: GroupConfig, batch_size: int, runs: Sequence[Run]) -> int:
    """Return how many offsets of a throttled batch may be acquired at once (THR-4)."""
    threshold = suspicious_from(config)
    for _, _, status in runs:
        if status.acquirable and status.delivery_count >= threshold:
            return max(1, batch_size >> (status.delivery_count - threshold + 1))
    return batch_size


def is_last_attempt(config: GroupConfig, delivery_count: int) -> bool:
    """Return whether a record must be delivered alone (THR-5); never with a limit of 2 or less."""
    limit = config.delivery_count_limit
    return limit > 2 and delivery_count == limit - 1
