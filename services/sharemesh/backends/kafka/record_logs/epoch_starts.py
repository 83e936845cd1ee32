"""Where the leader epochs of Kafka begin in a partition that is followed (pure)."""

from collections.abc import Mapping

EPOCHS_MAX = 8
"""So many are known of a partition, the newest ones."""


class EpochStarts:
    """First offsets of the newest leader epochs, as their leaders told them (KRL-8)."""

    def __init__(self, starts: tuple[tuple[int, int], ...] = ()) -> None:
        """``starts``: epoch and first offset of each that is known already."""
        self._first = dict(starts)

    @property
    def known(self) -> tuple[tuple[int, int], ...]:
        """Epoch and first offset of each, in order."""
        return tuple(sorted(self._first.items()))

    def add(self, starts: Mapping[int, int]) -> None:
        """Take in first offsets by epoch."""
        self._first |= starts
        for epoch in sorted(self._first)[:-EPOCHS_MAX]:
            del self._first[epoch]

    def differs_from(self, leader_epoch: int, end_offset: int) -> int:
        """Return the first offset that another log may hold differently.

        That log ends at ``end_offset`` for ``leader_epoch``, and has none of the epochs above it
        that are known here: where the first of these begins, they part at the latest.
        """
        later = (first for epoch, first in self._first.items() if epoch > leader_epoch)
        return min((end_offset, *later))

    def forget_above(self, leader_epoch: int) -> None:
        """The log that counts has none of these epochs."""
        self._first = {epoch: at for epoch, at in self._first.items() if epoch <= leader_epoch}
