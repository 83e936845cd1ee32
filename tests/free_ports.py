"""Ports for processes that tests start: none is given twice, whichever suite asks."""

import fcntl
import os
import random
import socket
import tempfile
from collections import deque
from pathlib import Path

HELD_MAX = 200
_DIRECTORY = Path(tempfile.gettempdir()) / f"sharemesh-test-ports-{os.getuid()}"
_held: deque[int] = deque()


def free_port() -> int:
    """Return a port that is free now, below the range from which outgoing connections draw.

    A broker binds its ports seconds later. So a port is held, as a locked file, until this process
    ends or has asked for ``HELD_MAX`` others.
    """
    chance = random.SystemRandom()
    while True:
        port = chance.randrange(20_000, 32_000)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            if _hold(port):
                return port


def _hold(port: int) -> bool:
    """Lock the file of a port; return whether nobody else has it."""
    _DIRECTORY.mkdir(mode=0o700, exist_ok=True)
    file = os.open(_DIRECTORY / str(port), os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(file)
        return False
    _held.append(file)
    if len(_held) > HELD_MAX:
        os.close(_held.popleft())
    return True
