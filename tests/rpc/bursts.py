"""Many connections at the same moment, each with the first bytes of something, on loopback."""

import contextlib
import random
import resource
import selectors
import socket
import time
from collections.abc import Callable, Iterator

HALF_OPEN = b"\x16\x03\x01\x02\x00\x01"
"""The beginning of the first message of TLS; the rest never comes."""

SEND_TIMEOUT_S = 10.0

FIRST_BYTES: dict[str, Callable[[random.Random], bytes]] = {
    "half-open": lambda _: HALF_OPEN,
    "garbage": lambda rng: rng.randbytes(100),
    "silent": lambda _: b"",
    "closed at once": lambda _: b"",
}


def allow_many_files() -> None:
    """Let this process, and those that it starts, open as many files as it may."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


@contextlib.contextmanager
def burst(address: str, count: int, kind: str, rng: random.Random) -> Iterator[int]:
    """Open connections and send their first bytes; yield how many were sent. Then close them."""
    host, _, port = address.rpartition(":")
    opened: list[socket.socket] = []
    try:
        for _ in range(count):
            each = socket.socket()
            each.setblocking(False)
            each.connect_ex((host, int(port)))
            opened.append(each)
        if kind == "closed at once":
            yield count
        else:
            yield _send(opened, FIRST_BYTES[kind], rng)
    finally:
        for each in opened:
            each.close()


def _send(
    opened: list[socket.socket], first: Callable[[random.Random], bytes], rng: random.Random
) -> int:
    sent = 0
    deadline = time.monotonic() + SEND_TIMEOUT_S
    with selectors.DefaultSelector() as waiting:
        for each in opened:
            waiting.register(each, selectors.EVENT_WRITE)
        while waiting.get_map() and time.monotonic() < deadline:
            for key, _ in waiting.select(timeout=0.1):
                each = key.fileobj
                assert isinstance(each, socket.socket)
                waiting.unregister(each)
                with contextlib.suppress(OSError):  # the server closed it already
                    each.send(first(rng))
                    sent += 1
    return sent
