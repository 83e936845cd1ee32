"""What was confirmed of partitions that others write, remembered outside of them."""

from collections.abc import Callable
from typing import Protocol

from sharemesh.domain.ids import TopicPartition
from sharemesh.domain.seen_partition import SeenPartition


class SeenPartitions(Protocol):
    """What leaders of ours saw of partitions (KRL-18)."""

    async def stored(self, partition: TopicPartition) -> SeenPartition | None:
        """Return what is remembered of a partition; None: nothing yet.

        Raises:
            LogFailedError: It cannot be asked now.
        """
        ...

    def note(self, partition: TopicPartition, own: Callable[[], SeenPartition]) -> None:
        """Remember soon what ``own`` returns then; cheap where that is noted already."""
        ...

    async def settle(self, partition: TopicPartition) -> None:
        """Write what was noted of a partition, if that is possible soon; never raises for it."""
        ...

    def forget(self, partition: TopicPartition) -> None:
        """Keep nothing of it in memory but what is still to be written: it is led here no more."""
        ...
