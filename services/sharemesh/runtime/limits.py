"""Bounds of the coordinator runtime."""

from dataclasses import dataclass

ADAPTIVE_LINGER = -1
"""Wait before a commit for as many requests as joined of late, while they keep coming."""


@dataclass(frozen=True, slots=True)
class RuntimeLimits:
    """Every wait and queue of a shard; times in ms, sizes in bytes."""

    write_timeout_ms: int = 5_000  # share.coordinator.write.timeout.ms (spec SC-5)
    max_batch_bytes: int = 1_000_000  # of one log batch; a decision must fit into one
    max_pending_bytes: int = 8_000_000  # decided, not yet handed to the log; then requests wait
    max_waiting_requests: int = 10_000  # beyond this a request is refused at once
    linger_ms: int = ADAPTIVE_LINGER  # share.coordinator.append.linger.ms; 0 never waits
    load_slice_records: int = 2_000  # replayed between two turns of the loop
    load_report_interval_ms: int = 5_000
    stop_timeout_ms: int = 5_000  # for answers still under way when a shard is given up
