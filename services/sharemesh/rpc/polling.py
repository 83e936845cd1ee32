"""How gRPC's core waits for its sockets (decision 0014)."""

import os

EXPERIMENTS = "GRPC_EXPERIMENTS"
"""The environment variable of gRPC's core; what is set from outside stands."""

POLLED = "-event_engine_client,-event_engine_listener"
"""Sockets are read by the thread that waits for events, not by four others that wake it."""


def poll_in_one_thread() -> None:
    """Set up gRPC for this process; call it before the first server or channel."""
    os.environ.setdefault(EXPERIMENTS, POLLED)
