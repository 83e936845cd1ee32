"""Kafka's hash of a record's key, which decides its partition."""

from aiokafka.partitioner import murmur2


def partition_of_key(key: bytes, partitions: int) -> int:
    """Return the partition of a key, ``0..partitions-1``, as Kafka's default partitioner does."""
    return int(murmur2(key) & 0x7FFFFFFF) % partitions
