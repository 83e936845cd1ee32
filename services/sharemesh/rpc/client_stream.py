"""One bidirectional stream as the client holds it."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any, Generic

import grpc

from sharemesh.methods import Request, Response
from sharemesh.ports.clock import Clock
from sharemesh.ports.network import CallFailedError, Failure
from sharemesh.rpc.advice import ConnectionAdvice
from sharemesh.rpc.inbox import Inbox
from sharemesh.rpc.limits import INBOX_MESSAGES, MAX_CONNECT_MS, STREAM_TAKEN
from sharemesh.rpc.status import failed, failure_of

REFUSAL_MS = 100
"""How long the status of a stream is awaited that began without the header of one that is taken.

Servers before that header send none, so with them opening a stream takes so much longer.
"""
LINGER_MS = 30_000
"""How long a stream may go on after this side closed its half."""


class GrpcClientStream(Generic[Request, Response]):
    """Fills ``ports.network.Stream`` over a grpc.aio call.

    A cancelled read loses nothing. A cancelled ``send`` ends the call: what was sent is unknown.
    """

    def __init__(
        self,
        call: Any,  # noqa: ANN401 - grpc.aio types the generic call only in its stubs
        method: str,
        address: str,
        on_end: Callable[["GrpcClientStream[Any, Any]"], None],
        clock: Clock,
        advice: ConnectionAdvice,
    ) -> None:
        self._call = call
        self._method = method
        self._address = address
        self._on_end = on_end
        self._clock = clock
        self._advice = advice
        self._lingering: asyncio.Task[None] | None = None
        self._inbox: Inbox[Response] = Inbox(INBOX_MESSAGES)
        self._half_closed = False
        self._pump = asyncio.ensure_future(self._read_ahead())

    async def connected(self) -> None:
        """Return once the server has taken the stream.

        Raises:
            CallFailedError: It cannot be reached, refused, or said nothing for 5 s.
        """
        try:
            async with asyncio.timeout(MAX_CONNECT_MS / 1_000):
                taken = await self._call.initial_metadata()
        except TimeoutError as error:
            raise failed(
                Failure.UNAVAILABLE,
                self._method,
                self._address,
                f"no answer for {MAX_CONNECT_MS} ms",
            ) from error
        if not any(key == STREAM_TAKEN for key, _ in taken or ()):
            # A refusal alone has no headers either, and its status comes a moment later.
            await asyncio.wait([self._pump], timeout=REFUSAL_MS / 1_000)
        if self._call.done() and await self._call.code() != grpc.StatusCode.OK:
            raise await self._status()

    async def send(self, message: Request) -> None:
        """Send one message, waiting for flow control.

        Raises:
            CallFailedError: The stream is closed or its connection was lost.
        """
        if self._half_closed:
            raise failed(
                Failure.CANCELLED, self._method, self._address, "this side closed the stream"
            )
        try:
            await self._call.write(message)
        except grpc.aio.AioRpcError as error:
            raise failure_of(error, self._method, self._address, self._advice) from error
        except (asyncio.InvalidStateError, grpc.aio.UsageError) as error:
            raise await self._status() from error
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            raise await self._status() from None

    def __aiter__(self) -> AsyncIterator[Response]:
        return self

    async def __anext__(self) -> Response:
        """Return the next message."""
        return await self._inbox.get()

    async def close(self) -> None:
        """Say that this side has no more to send. Repeating it is fine."""
        if self._half_closed:
            return
        self._half_closed = True
        if self._call.done():
            return
        try:
            await self._call.done_writing()
        except (grpc.aio.AioRpcError, asyncio.InvalidStateError, grpc.aio.UsageError):
            return  # the stream has ended: iteration tells how
        self._lingering = asyncio.ensure_future(self._linger())

    async def abandon(self) -> None:
        """Cancel the call at once; the server's handler is cancelled."""
        self._half_closed = True
        self._call.cancel()
        self._inbox.end(failed(Failure.CANCELLED, self._method, self._address, "abandoned"))
        await asyncio.wait([self._pump])

    async def _linger(self) -> None:
        """Bound what a server, or a reader that left, may keep open after ``close``."""
        await self._clock.sleep_ms(LINGER_MS)
        self._call.cancel()

    async def _read_ahead(self) -> None:
        error: CallFailedError | None = None
        try:
            while (message := await self._call.read()) is not grpc.aio.EOF:
                await self._inbox.put(message)
            if await self._call.code() != grpc.StatusCode.OK:
                error = await self._status()
        except grpc.aio.AioRpcError as failure:
            error = failure_of(failure, self._method, self._address, self._advice)
        except (asyncio.InvalidStateError, grpc.aio.UsageError):
            error = await self._status()
        except asyncio.CancelledError:
            self._call.cancel()
            error = failed(
                Failure.CANCELLED, self._method, self._address, "the connection was closed here"
            )
        except Exception as failure:
            text = f"reading failed: {failure!r}"
            error = failed(Failure.INTERNAL, self._method, self._address, text)
        finally:
            self._inbox.end(error)
            if self._lingering is not None:
                self._lingering.cancel()
            self._on_end(self)

    async def _status(self) -> CallFailedError:
        """Return why the call ended."""
        code = await self._call.code()
        if code == grpc.StatusCode.OK:
            return failed(
                Failure.CANCELLED, self._method, self._address, "the server ended the stream"
            )
        status = grpc.aio.AioRpcError(
            code, grpc.aio.Metadata(), grpc.aio.Metadata(), details=await self._call.details()
        )
        return failure_of(status, self._method, self._address, self._advice)
