"""A Kafka-compatible cluster in memory: real record batches, replicas, leaders, faults."""

from sharemesh.testing.memory_brokers.client import MemoryBrokers
from sharemesh.testing.memory_brokers.cluster import MemoryCluster

__all__ = ["MemoryBrokers", "MemoryCluster"]
