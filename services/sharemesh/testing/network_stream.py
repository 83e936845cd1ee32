"""One stream of the in-process network: two bounded queues."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from typing import Any, Generic, TypeVar

from sharemesh.ports.network import CallFailedError, Failure

Sent = TypeVar("Sent")
Received = TypeVar("Received")

MAX_QUEUED_MESSAGES = 16
"""Messages on their way in one direction, at most; then ``send`` waits."""

MAX_QUEUED_BYTES = 4 * 1024 * 1024
"""Bytes on their way in one direction; one message may pass it, the next one waits."""


class _Pipe:
    """One direction. Ends after what is queued; only a lost connection drops that."""

    def __init__(self) -> None:
        self.items: deque[Any] = deque()
        self.queued_bytes = 0
        self.ended = False
        self.error: CallFailedError | None = None
        self._waiters: list[asyncio.Future[None]] = []

    @property
    def full(self) -> bool:
        return len(self.items) >= MAX_QUEUED_MESSAGES or self.queued_bytes >= MAX_QUEUED_BYTES

    def end(self, error: CallFailedError | None = None) -> None:
        if self.ended and (error is None or self.error is not None):
            return
        self.ended = True
        self.error = error
        self.changed()

    def lose(self, error: CallFailedError) -> None:
        if self.ended and self.error is None and not self.items:
            return  # ended in good order before
        self.items.clear()
        self.end(error)

    def changed(self) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    async def change(self) -> None:
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        await waiter


class LocalStream(Generic[Sent, Received]):
    """One end; fills ``ports.network.Stream``."""

    def __init__(
        self, outgoing: _Pipe, incoming: _Pipe, copied: Callable[[Any], Any], *, server: bool
    ) -> None:
        self._outgoing = outgoing
        self._incoming = incoming
        self._copied = copied
        self._server = server

    async def send(self, message: Sent) -> None:
        """Send one message, waiting while the other side is behind.

        Raises:
            CallFailedError: The stream is closed or its connection was lost.
        """
        copy = self._copied(message)
        pipe = self._outgoing
        while pipe.full and not pipe.ended:
            await pipe.change()
        if pipe.error is not None:
            raise pipe.error
        if pipe.ended:
            raise CallFailedError(Failure.CANCELLED, "the stream is closed")
        pipe.items.append(copy)
        pipe.queued_bytes += copy.ByteSize()
        pipe.changed()

    def __aiter__(self) -> AsyncIterator[Received]:
        return self

    async def __anext__(self) -> Received:
        """Return the next message."""
        pipe = self._incoming
        while not pipe.items:
            if pipe.error is not None:
                raise pipe.error
            if pipe.ended:
                raise StopAsyncIteration
            await pipe.change()
        message: Received = pipe.items.popleft()
        pipe.queued_bytes -= message.ByteSize()  # type: ignore[attr-defined]
        pipe.changed()
        return message

    async def close(self) -> None:
        """End this half (client) or the stream (server). Repeating it is fine."""
        self._outgoing.end()
        if self._server:
            self._incoming.end()


class StreamPair(Generic[Sent, Received]):
    """Both ends of one stream; ``Sent`` is what the client sends."""

    def __init__(
        self,
        method: str,
        address: str,
        *,
        to_server: Callable[[Any], Any],
        to_client: Callable[[Any], Any],
    ) -> None:
        self.method = method
        self.address = address
        self._requests = _Pipe()
        self._responses = _Pipe()
        self.client: LocalStream[Sent, Received] = LocalStream(
            self._requests, self._responses, to_server, server=False
        )
        self.server: LocalStream[Received, Sent] = LocalStream(
            self._responses, self._requests, to_client, server=True
        )

    def lose(self, error: CallFailedError) -> None:
        """The connection is gone: both ends fail."""
        self._requests.lose(error)
        self._responses.lose(error)

    def finish(self, error: CallFailedError | None) -> None:
        """The handler returned or raised: the client gets what was sent, then the end."""
        self._responses.end(error)
        self._requests.end(
            CallFailedError(Failure.CANCELLED, f"{self.method}: the server ended the stream")
        )
