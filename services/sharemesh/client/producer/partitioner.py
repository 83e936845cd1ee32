"""Where records without a key go: one partition sticks for a batch."""

import random


class StickyPartition:
    """Partition for records without a key: the same one until ``next_batch`` is called.

    Many records without a key then share a batch, and batches spread evenly.
    """

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._current: dict[str, int] = {}

    def of(self, topic: str, partitions: int) -> int:
        """Return the current partition of a topic."""
        current = self._current.get(topic)
        if current is None or current >= partitions:
            current = self._chance.randrange(partitions)
            self._current[topic] = current
        return current

    def next_batch(self, topic: str, partitions: int) -> None:
        """Move on, to another partition if there is one."""
        if partitions <= 1:
            return
        current = self._current.get(topic, 0)
        self._current[topic] = (current + 1 + self._chance.randrange(partitions - 1)) % partitions
