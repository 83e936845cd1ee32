"""Connections that speak TLS: taken one by one, so that each handshake is counted and bounded."""

import asyncio
import contextlib
import logging
import socket
from typing import Protocol

from sharemesh.kafka_listener.connection import ConnectionOwner, ListenerConnection, peer_name
from sharemesh.kafka_listener.frames import RefusedFrameError
from sharemesh.kafka_listener.tls import ListenerTls
from sharemesh.tasks import cancel_and_wait

BACKLOG = 1_024
"""Connections that the kernel keeps until they are taken."""

PAUSE_MS = 1_000
"""How long none is taken after the kernel had none to give: files are used up, for example."""

_log = logging.getLogger(__name__)


class HandshakeOwner(ConnectionOwner, Protocol):
    """What the door needs of its listener."""

    def shakes_hands(self, handshake: "Handshake") -> bool:
        """Return whether a connection may stay."""
        ...

    def shook_hands(self, handshake: "Handshake", error: Exception | None) -> None:
        """Hear that a handshake ended, and why if it failed."""
        ...


class Handshake:
    """One connection until its handshake has ended."""

    def __init__(self, taken: socket.socket, peer: str) -> None:
        self.taken = taken
        self.peer = peer
        self.refused: RefusedFrameError | None = None

    def give_way(self, refused: RefusedFrameError) -> None:
        """End it: the side that shakes sees that the other one has gone."""
        self.refused = refused
        with contextlib.suppress(OSError):  # it has gone already
            self.taken.shutdown(socket.SHUT_RDWR)


class TlsDoor:
    """Takes connections and shakes hands; whoever does is a connection like others."""

    def __init__(self, owner: HandshakeOwner, tls: ListenerTls, host: str, port: int) -> None:
        """Listen; raises OSError."""
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._owner = owner
        self._tls = tls
        self._socket = socket.create_server((host, port), family=family, backlog=BACKLOG)
        self._socket.settimeout(0)
        self._taking: asyncio.Task[None] | None = None

    @property
    def port(self) -> int:
        """The port that is listened on."""
        port: int = self._socket.getsockname()[1]
        return port

    def open(self) -> None:
        """Take connections until ``close``."""
        self._taking = self._owner.tasks.spawn(self._take())

    async def close(self) -> None:
        """Listen no more; the owner ends handshakes."""
        if self._taking is not None:
            await cancel_and_wait(self._taking)
        self._socket.close()

    async def _take(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                taken, address = await loop.sock_accept(self._socket)
            except OSError as error:
                _log.warning("no connection of Kafka's clients could be taken: %s", error)
                await self._owner.clock.sleep_ms(PAUSE_MS)
                continue
            handshake = Handshake(taken, peer_name(address))
            if self._owner.shakes_hands(handshake):
                self._owner.tasks.spawn(self._shake_hands(handshake))
            else:
                taken.close()
            await self._owner.clock.sleep_ms(0)  # a crowd waits there: others have their turn

    async def _shake_hands(self, handshake: Handshake) -> None:
        loop, owner = asyncio.get_running_loop(), self._owner
        failed: Exception | None = None
        taken = handshake.taken
        try:
            with contextlib.suppress(OSError):  # it has gone already, as the handshake will tell
                taken.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            await loop.connect_accepted_socket(
                lambda: ListenerConnection(owner),
                taken,
                ssl=self._tls.context(),
                ssl_handshake_timeout=owner.limits.first_request_ms / 1_000,
            )
        except OSError as error:  # of TLS, too
            failed = error
        finally:
            owner.shook_hands(handshake, failed)
