"""Instants of the wall clock in the API's form."""

import datetime

from sharemesh.ports.clock import Clock


def now_time(clock: Clock) -> datetime.datetime:
    """Return the wall clock's instant."""
    return datetime.datetime.fromtimestamp(clock.wall_ms() / 1_000, tz=datetime.UTC)


def now_text(clock: Clock) -> str:
    """Return the wall clock's instant in RFC 3339, whole seconds."""
    return now_time(clock).strftime("%Y-%m-%dT%H:%M:%SZ")
