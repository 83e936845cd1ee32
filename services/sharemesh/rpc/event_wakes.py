"""gRPC's events are taken by the loop as they come together (decision 0014).

As it ships, gRPC's asyncio layer writes one byte to a socket pair for each event, and the loop
reads one byte at a time: the first turn handles all events that have come, and each of the others
wakes the loop once more for nothing.
"""

import logging
import socket

import grpc

WAKES_AT_ONCE = 4_096
"""Bytes that are read at a time; the socket pair holds some hundred."""

_log = logging.getLogger(__name__)


class EventWakes(socket.socket):
    """The end of the pair that the loop reads, emptied whenever it is read."""

    __slots__ = ()

    def recv(self, _size: int, flags: int = 0, /) -> bytes:
        """Return all that has come, however little was asked for."""
        return super().recv(WAKES_AT_ONCE, flags)


def take_events_together() -> bool:
    """Set up gRPC for the loop of this process; call it in the loop, before the first call.

    Returns whether it has an effect: not where gRPC was used before, and not with a gRPC that wakes
    the loop in another way.
    """
    made = 0
    real = socket.socketpair

    def emptied_pair(*arguments: int) -> tuple[socket.socket, socket.socket]:
        nonlocal made
        reader, writer = real(*arguments)
        made += 1
        return EventWakes(fileno=reader.detach()), writer

    socket.socketpair = emptied_pair  # type: ignore[assignment]
    try:
        grpc.aio.init_grpc_aio()
    finally:
        socket.socketpair = real
    if not made:
        _log.info(
            "grpcio %s was set up before, or wakes the loop in its own way: each event may cost a "
            "turn of the loop",
            grpc.__version__,
        )
    return made > 0
