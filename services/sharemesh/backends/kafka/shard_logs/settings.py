"""Bounds and waits of the stamped log."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StampedLogSettings:
    """Times in ms, sizes in bytes."""

    commit_bytes_max: int = 512 * 1024  # of appends that become one unit; one alone may be larger
    queued_bytes_max: int = 16 * 1024 * 1024
    read_bytes_max: int = 1024 * 1024
    read_wait_ms: int = 250
    produce_timeout_ms: int = 5_000
    retry_min_ms: int = 50
    retry_max_ms: int = 500
    slow_retry_max_ms: int = 5_000
    """Where each try may append the bytes once more."""
    look_interval_ms: int = 1_000
    """While requests fail: how often it is asked whether the shard is still ours."""
    stuck_ms: int = 2_000
    """A unit that waits for longer lets decisions be refused."""
    open_timeout_ms: int = 10_000
    """For each request of a take-over and a load; then another process may try."""
    give_up_ms: int = 60_000
    """For a unit and its reading back; then another process may try."""
    close_timeout_ms: int = 2_000
    delete_timeout_ms: int = 5_000
