"""Bounds of record logs on Kafka."""

from dataclasses import dataclass

MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class TopicLogBounds:
    """How much is read at once and kept, and how long the cluster is waited for.

    Attributes:
        cache_bytes_max: Records of all partitions that stay in memory (KRL-5).
        fetch_bytes_min: A fetch asks for at least so much, and keeps the rest (KRL-5).
        watch_wait_ms: A poll of active partitions waits so long for news (KRL-2).
        idle_wait_ms: A poll of idle partitions waits so long for news (KRL-2).
        watch_pause_ms: Pause after an answer that nobody waited for (KRL-2).
        hot_ms: A partition whose end was read stays hot, and active, for so long (KRL-2).
        open_wait_ms: A partition opens within this time or not at all (KRL-4).
        read_wait_ms: A read that gets no records returns without them after this time (KRL-11).
        retry_first_ms: First wait after a refusal; doubled after each further one.
        retry_most_ms: Longest wait after a refusal.
        produce_timeout_ms: How long Kafka may take to replicate a batch (KRL-13).
        delete_timeout_ms: How long Kafka may take to move a log start (KRL-15).
        batch_bytes_max: Larger batches are refused here, whatever the topic allows.
    """

    cache_bytes_max: int = 64 * MIB
    fetch_bytes_min: int = 1 * MIB
    watch_wait_ms: int = 500
    idle_wait_ms: int = 2_000
    watch_pause_ms: int = 20
    hot_ms: int = 10_000
    open_wait_ms: int = 5_000
    read_wait_ms: int = 5_000
    retry_first_ms: int = 50
    retry_most_ms: int = 500
    produce_timeout_ms: int = 5_000
    delete_timeout_ms: int = 10_000
    batch_bytes_max: int = 32 * MIB
