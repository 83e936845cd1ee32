"""Bounds of the persister (spec PER-6)."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PersisterSettings:
    """Times in ms; the back-off's numbers are Kafka's."""

    attempts: int = 5
    backoff_initial_ms: int = 1_000
    backoff_factor: float = 2.0
    backoff_max_ms: int = 30_000
    backoff_jitter: float = 0.2  # of the wait, to both sides
    probe_ms: int = 50
    """While a coordinator is loading or unknown it is asked this often within a back-off."""
    request_timeout_ms: int = 6_000  # above the coordinator's own write time-out
    partitions_per_request: int = 1_000
    batches_per_request: int = 20_000
    """State batches of one write, unless one share partition has more; some 500 KiB."""
    queued_per_lane: int = 20_000  # share partitions waiting for one node, RPC and group
