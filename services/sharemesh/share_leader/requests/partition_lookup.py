"""From the partitions of a session to share partitions that are served here (spec INI-1)."""

from collections.abc import Sequence

from sharemesh.domain.errors import ErrorCode, RefusedError
from sharemesh.domain.ids import TopicPartition
from sharemesh.ports.cluster import ClusterView
from sharemesh.share_leader.partition.led_partitions import LedPartitions
from sharemesh.share_leader.partition.share_partition_runner import SharePartitionRunner
from sharemesh.share_leader.requests.access import Reader
from sharemesh.share_leader.requests.redirects import not_led

Outcome = tuple[ErrorCode, str]


class PartitionLookup:
    """Finds, or creates, the share partitions that a member may fetch from."""

    def __init__(self, view: ClusterView, partitions: LedPartitions) -> None:
        self._view = view
        self._partitions = partitions

    def find(
        self, reader: Reader, partitions: Sequence[TopicPartition]
    ) -> tuple[list[SharePartitionRunner], dict[TopicPartition, Outcome]]:
        """Return the share partitions led here, in order, and why others are refused (ERR-2)."""
        shells: list[SharePartitionRunner] = []
        refused: dict[TopicPartition, Outcome] = {}
        for partition in partitions:
            try:
                reader.check(partition)
                led = self._partitions.get(partition)
                if led is None:
                    raise RefusedError(*not_led(self._view, partition))
            except RefusedError as error:
                refused[partition] = (error.error, error.message)
            else:
                shells.append(led.share(reader.group_id))
        return shells, refused
