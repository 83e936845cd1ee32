"""What was confirmed of a partition that others write, as it is remembered elsewhere (KRL-18)."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SeenPartition:
    """What leaders of ours saw of a partition in Kafka; each number only grows.

    Attributes:
        kafka_epoch: The newest leader epoch of Kafka under which its ends were compared.
        start: Where it began.
        end: One past all that was ever seen as confirmed.
        lost: First offset of what was lost of it, and one past the last; None: nothing that is
            known and that the start has not passed.
        epoch_starts: Where the newest leader epochs of its log begin: epoch and first offset.
    """

    kafka_epoch: int
    start: int
    end: int
    lost: tuple[int, int] | None = None
    epoch_starts: tuple[tuple[int, int], ...] = ()


def seen_together(stored: SeenPartition | None, own: SeenPartition) -> SeenPartition:
    """Return what two leaders know together, in any order (KRL-18)."""
    both = (own,) if stored is None else (stored, own)
    start = max(each.start for each in both)
    losses = [each.lost for each in both if each.lost is not None and each.lost[1] > start]
    lost = None
    if losses:
        lost = (max(start, min(first for first, _ in losses)), max(end for _, end in losses))
    kafka_epoch = max(each.kafka_epoch for each in both)
    starts: dict[int, int] = {}
    for each in both:
        if each.kafka_epoch == kafka_epoch:  # what was known before may be lost since
            for epoch, first in each.epoch_starts:
                starts[epoch] = min(first, starts.get(epoch, first))
    return SeenPartition(
        kafka_epoch, start, max(each.end for each in both), lost, tuple(sorted(starts.items()))
    )
