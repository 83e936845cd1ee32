"""Kafka's choice of a partition: murmur2 of the key; without a key one sticks for a batch."""

import random

_MASK = 0xFFFFFFFF
_SEED = 0x9747B28C
_M = 0x5BD1E995


def murmur2(data: bytes) -> int:
    """Return the 32-bit murmur2 hash that Kafka's clients use, as an unsigned number."""
    length = len(data)
    h = (_SEED ^ length) & _MASK
    whole = length & ~3
    for at in range(0, whole, 4):
        k = int.from_bytes(data[at : at + 4], "little")
        k = (k * _M) & _MASK
        k ^= k >> 24
        k = (k * _M) & _MASK
        h = ((h * _M) & _MASK) ^ k
    rest = length & 3
    if rest:
        h ^= int.from_bytes(data[whole:], "little")
        h = (h * _M) & _MASK
    h ^= h >> 13
    h = (h * _M) & _MASK
    return h ^ (h >> 15)


def partition_of_key(key: bytes, partitions: int) -> int:
    """Return the partition of a key, ``0..partitions-1``, as Kafka's default partitioner does."""
    return (murmur2(key) & 0x7FFFFFFF) % partitions


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
