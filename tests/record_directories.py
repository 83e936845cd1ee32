"""Which topic-partitions have a directory in a data directory."""

from sharemesh.codec.log_layout import RECORDS
from sharemesh.domain.ids import TopicId, TopicPartition
from sharemesh.ports.disk import Disk

_TOPIC_ID_HEX = 32


def partitions_on(disk: Disk) -> tuple[TopicPartition, ...]:
    """Return the partitions that have a directory, or whose deletion has to be finished."""
    found = []
    for topic in disk.list(RECORDS):
        if len(topic) != _TOPIC_ID_HEX:
            continue
        names = disk.list(f"{RECORDS}/{topic}")
        numbers = [int(name) for name in names if name.isdigit()]
        # An empty directory is what a deletion left that was cut short: name its partition 0.
        for number in numbers or [0]:
            found.append(TopicPartition(TopicId(bytes.fromhex(topic)), number))
    return tuple(found)
