"""Ports for processes that tests start."""

import random
import socket


def free_port() -> int:
    """Return a port that is free now, below the range from which outgoing connections draw."""
    chance = random.SystemRandom()
    while True:
        port = chance.randrange(20_000, 32_000)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
