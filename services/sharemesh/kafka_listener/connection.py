"""One connection of a Kafka client: requests are handled one at a time, answered in order."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol, cast

from sharemesh.kafka_listener.frames import FrameReader, RefusedFrameError
from sharemesh.kafka_listener.held_bytes import HeldBytes
from sharemesh.kafka_listener.held_sessions import HeldSessions
from sharemesh.kafka_listener.limits import (
    SMALL_FRAME_BYTES,
    WRITE_BUFFER_BYTES,
    KafkaListenerLimits,
)
from sharemesh.ports.clock import Clock
from sharemesh.ports.network import CallContext
from sharemesh.tasks import OwnedTasks, cancel_and_wait

AnswerFrame = Callable[[bytes, "ListenerConnection"], Awaitable[Sequence[bytes]]]
"""Answers a frame with the pieces of one, or with none; raises RefusedFrameError."""


class ConnectionOwner(Protocol):
    """What a connection needs of its listener."""

    clock: Clock
    limits: KafkaListenerLimits
    held: HeldBytes
    tasks: OwnedTasks

    def began(self, connection: "ListenerConnection", peer: str) -> bool:
        """Return whether the connection may stay."""
        ...

    def sessions(self, context: CallContext) -> HeldSessions:
        """Return what binds share sessions to a connection."""
        ...

    async def answer(self, frame: bytes, connection: "ListenerConnection") -> Sequence[bytes]:
        """Return the answer to a frame, in pieces; none: it wants no answer."""
        ...

    def ended(self, connection: "ListenerConnection", refused: RefusedFrameError | None) -> None:
        """Hear that the connection is over, and why if it was closed here."""
        ...


class ListenerConnection(asyncio.Protocol):
    """Reads ahead of a request that is handled by one more, no further (spec KLS-3)."""

    context: CallContext
    sessions: HeldSessions

    def __init__(self, owner: ConnectionOwner) -> None:
        self._owner = owner
        self._limits = owner.limits
        self._reader = FrameReader()
        self._room = 0  # taken for the frame that is being received
        self._asks_for_room = False
        self._handling: asyncio.Task[None] | None = None
        self._heard = False
        self._since_ms = owner.clock.now_ms()
        self._sent = asyncio.Event()
        self._sent.set()
        self._unsent_bytes = 0
        self._unsent_since_ms = 0
        self._refused: RefusedFrameError | None = None
        self._closed = False

    # ---- asyncio's side -------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin (asyncio)."""
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=WRITE_BUFFER_BYTES)
        peer = _peer_name(transport.get_extra_info("peername"))
        self.context = CallContext(peer)
        self.sessions = self._owner.sessions(self.context)
        if not self._owner.began(self, peer):
            self._closed = True
            self._transport.abort()

    def data_received(self, data: bytes) -> None:
        """Take what came (asyncio)."""
        if self._closed:
            return
        if not self._reader.has_begun:
            self._since_ms = self._owner.clock.now_ms() if self._heard else self._since_ms
        self._reader.feed(data)
        self._go_on()

    def pause_writing(self) -> None:
        """The client reads slower than it asks (asyncio)."""
        self._sent.clear()
        self._unsent_since_ms = self._owner.clock.now_ms()
        size = self._transport.get_write_buffer_size()
        if not self._owner.held.add(size):
            self.close(RefusedFrameError("slow_reader", "too much waits to be sent to clients"))
            return
        self._unsent_bytes += size

    def resume_writing(self) -> None:
        """What was sent has gone (asyncio)."""
        unsent, self._unsent_bytes = self._unsent_bytes, 0
        self._owner.held.give_back(unsent)
        self._sent.set()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - as asyncio asks
        """End: sessions are over, what is handled is cancelled (asyncio)."""
        self._closed = True
        self._owner.tasks.spawn(self._end())

    # ---- the listener's side --------------------------------------------------------------------

    def close(self, refused: RefusedFrameError | None = None) -> None:
        """Close it at once; what is handled is cancelled."""
        if self._closed:
            return
        self._closed = True
        self._refused = refused
        self._transport.abort()

    def overdue(self, now_ms: int) -> RefusedFrameError | None:
        """Return why the connection has to be closed, if it waited too long for its client."""
        limits = self._limits
        if not self._sent.is_set():
            if now_ms - self._unsent_since_ms >= limits.frame_ms:
                return RefusedFrameError(
                    "slow_reader", f"it did not read its answer within {limits.frame_ms} ms"
                )
            return None
        if self._handling is not None:
            return None
        waited_ms = now_ms - self._since_ms
        if not self._heard:
            if waited_ms >= limits.first_request_ms:
                return RefusedFrameError(
                    "silent", f"no whole request came within {limits.first_request_ms} ms"
                )
        elif self._reader.has_begun:
            if waited_ms >= limits.frame_ms:
                return RefusedFrameError(
                    "slow_request", f"a request was not whole after {limits.frame_ms} ms"
                )
        elif waited_ms >= limits.idle_ms:
            return RefusedFrameError("idle", f"nothing was asked for {limits.idle_ms} ms")
        return None

    # ---- inside ---------------------------------------------------------------------------------

    def _go_on(self) -> None:
        """Begin to handle what came, if it is a whole request and its turn."""
        if self._handling is None:
            frame = self._next()
            if frame is not None:
                self._handling = self._owner.tasks.spawn(self._handle(frame))
        self._read_on()

    def _next(self) -> bytes | None:
        """Return the next frame, if it is whole; close the connection if it cannot be one."""
        try:
            frame = self._reader.take()
        except RefusedFrameError as refused:
            self.close(refused)
            return None
        self._heard = self._heard or frame is not None
        return frame

    def _read_on(self) -> None:
        """Read unless a whole request waits already, or there is no room for the next one."""
        if self._closed:
            return
        try:
            one_waits = self._reader.is_whole()
        except RefusedFrameError:
            one_waits = True  # it is refused in its turn
        if one_waits or not self._takes_room():
            self._transport.pause_reading()
        else:
            self._transport.resume_reading()

    def _takes_room(self) -> bool:
        """Return whether there is room for the frame that is being received."""
        size = self._reader.announced_bytes
        if size <= SMALL_FRAME_BYTES or self._room:
            return True
        if self._asks_for_room:
            return False
        if self._owner.held.take(self, size, self._has_room):
            self._room = size
            return True
        self._asks_for_room = True
        return False

    def _has_room(self) -> None:
        self._asks_for_room = False
        self._room = self._reader.announced_bytes
        if not self._closed:
            self._go_on()

    async def _handle(self, first: bytes) -> None:
        """Answer a frame, and those that came meanwhile, one after the other."""
        frame: bytes | None = first
        try:
            while frame is not None and not self._closed:
                room, self._room = self._room, 0
                try:
                    self._read_on()
                    pieces = await self._owner.answer(frame, self)
                    if pieces and not self._closed:
                        self._transport.writelines(pieces)
                finally:
                    self._owner.held.give_back(room)
                await self._sent.wait()
                frame = self._next()
        except RefusedFrameError as refused:
            self.close(refused)
        finally:
            self._handling = None
            self._since_ms = self._owner.clock.now_ms()
            self._read_on()

    async def _end(self) -> None:
        await self.sessions.close()
        if self._handling is not None:
            await cancel_and_wait(self._handling)
        self._owner.held.forget(self)
        left = self._room + self._unsent_bytes
        self._room = self._unsent_bytes = 0
        self._owner.held.give_back(left)
        self._owner.ended(self, self._refused)


def _peer_name(peername: tuple[object, ...] | None) -> str:
    """Return a peer as gRPC names it; unique for each connection."""
    if not peername:
        return "unknown"
    host, port = str(peername[0]), peername[1]
    return f"ipv6:[{host}]:{port}" if ":" in host else f"ipv4:{host}:{port}"
