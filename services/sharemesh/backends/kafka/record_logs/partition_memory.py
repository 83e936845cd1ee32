"""Where it is remembered how far a partition was confirmed, for whoever leads it next (KRL-18)."""

from collections.abc import Callable

from sharemesh.domain.ids import TopicPartition
from sharemesh.domain.seen_partition import SeenPartition
from sharemesh.ports.seen_partitions import SeenPartitions


class PartitionMemory:
    """What is remembered of one partition elsewhere (KRL-18)."""

    def __init__(self, seen: SeenPartitions, partition: TopicPartition) -> None:
        self._seen = seen
        self._partition = partition

    def note(self, own: Callable[[], SeenPartition]) -> None:
        """Remember soon what ``own`` returns then."""
        self._seen.note(self._partition, own)

    async def settle(self) -> None:
        """Write what was noted, if that is possible soon."""
        await self._seen.settle(self._partition)

    def forget(self) -> None:
        """Keep nothing of the partition here but what is still to be written."""
        self._seen.forget(self._partition)
