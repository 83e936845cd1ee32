"""Moments for people to read."""

from datetime import UTC, datetime


def utc(timestamp_ms: int) -> str:
    """Return ms since the epoch as a time of day in UTC."""
    moment = datetime.fromtimestamp(timestamp_ms / 1_000, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
