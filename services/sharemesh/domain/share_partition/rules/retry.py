"""Released records that wait: until when, and what becomes of them then (spec RTY)."""

from collections.abc import Iterable

from sharemesh.domain.group_config.retry_delays import RELEASE_DELAY_MAX_MS, RetryDelays
from sharemesh.domain.packed_batches import PackedBatches, StateBatches
from sharemesh.domain.share_partition.cache.in_flight import InFlight
from sharemesh.domain.share_partition.events import AcknowledgementBatch
from sharemesh.domain.state_batch import StateBatch


def released_until(
    retry: RetryDelays, batch: AcknowledgementBatch, delivery_count: int, now_ms: int, draw: float
) -> int:
    """Return the not-before of a release, 0 for none: its own delay, else the group's (RTY-4).

    An uncounted release that counts nevertheless (HBK-4, HBK-5) has none of the group's.
    """
    if batch.delay_ms is not None:
        delay_ms = batch.delay_ms
    elif batch.uncounted or not retry.is_set:
        return 0
    else:
        delay_ms = retry.after(delivery_count, draw)
    return now_ms + delay_ms if delay_ms else 0


def expired_until(retry: RetryDelays, delivery_count: int, now_ms: int, draw: float) -> int:
    """Return the not-before of a record whose lock has expired, 0 for none (RTY-6)."""
    if not retry.on_timeout or not retry.is_set:
        return 0
    delay_ms = retry.after(delivery_count, draw)
    return now_ms + delay_ms if delay_ms else 0


def end_delays(flight: InFlight, now_ms: int, limit: int | None) -> bool:
    """Make available what has waited long enough; return whether there was any (RTY-3).

    At most ``limit`` delayed runs (None: all); the rest stays due.
    """
    is_any = False
    ended = 0
    while limit is None or ended < limit:
        due = flight.delays.pop_due(now_ms)
        if due is None:
            break
        ended += 1
        first, last = due
        for batch in flight.batches.overlapping(first, last):
            low, high = max(first, batch.first_offset), min(last, batch.last_offset)
            for begin, end, status in batch.runs_between(low, high):
                if status.delayed and status.not_before_ms <= now_ms:
                    new = flight.settled.get(
                        status.state, status.delivery_count, status.hand_backs_left
                    )
                    flight.put(batch, begin, end, status, new)
                    is_any = True
    if is_any:
        flight.find_next = True  # OFF-4
    return is_any


def stored_batches(
    batches: Iterable[StateBatch], now_ms: int, wall_ms: int
) -> tuple[StateBatch, ...]:
    """Return batches to be stored: the monotonic not-before of each as wall time (RTY-7)."""
    return tuple(
        batch._replace(not_before_ms=max(1, wall_ms + batch.not_before_ms - now_ms))
        if batch.not_before_ms
        else batch
        for batch in batches
    )


def loaded_batches(batches: StateBatches, now_ms: int, wall_ms: int) -> StateBatches:
    """Return stored batches as a machine takes them: monotonic time, bounded (RTY-8).

    What has passed has no not-before.
    """
    if isinstance(batches, PackedBatches):
        return batches.with_not_befores(lambda at_ms: at_ms and _monotonic(at_ms - wall_ms, now_ms))
    return tuple(
        batch._replace(not_before_ms=_monotonic(batch.not_before_ms - wall_ms, now_ms))
        if batch.not_before_ms
        else batch
        for batch in batches
    )


def _monotonic(left_ms: int, now_ms: int) -> int:
    return now_ms + min(left_ms, RELEASE_DELAY_MAX_MS) if left_ms > 0 else 0
