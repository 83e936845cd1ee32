"""One bidirectional stream as the client and as a handler holds it, read ahead within a bound."""

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Callable
from typing import Any, Generic, TypeVar

import grpc

from sharemesh.methods import Method, Request, Response
from sharemesh.ports.clock import Clock
from sharemesh.ports.network import CallFailedError, Failure
from sharemesh.rpc.limits import INBOX_MESSAGES, MAX_CONNECT_MS, STREAM_TAKEN
from sharemesh.rpc.request_parser import RequestParser
from sharemesh.rpc.status import ConnectionAdvice, StaleToken, failed, failure_of

Item = TypeVar("Item")
REFUSAL_MS = 100
"""How long the status of a stream is awaited that began without the header of one that is taken.

Servers before that header send none, so with them opening a stream takes so much longer.
"""

LINGER_MS = 30_000
"""How long a stream may stay open after this side closed its half."""

_log = logging.getLogger(__name__)


class Inbox(Generic[Item]):
    """Holds what was read ahead, so that a cancelled reader loses nothing.

    gRPC ends the call when a read is cancelled; so one pump reads, and readers wait here.
    One filler and one reader at a time.
    """

    def __init__(self, max_items: int) -> None:
        self._items: deque[Item] = deque()
        self._max_items = max_items
        self._ended = False
        self._error: Exception | None = None
        self._filled: asyncio.Future[None] | None = None
        self._emptied: asyncio.Future[None] | None = None
        self._loop = asyncio.get_running_loop()

    @property
    def ended(self) -> bool:
        """Whether the other side will say nothing more."""
        return self._ended

    async def put(self, item: Item) -> None:
        """Add an item once there is room."""
        while len(self._items) >= self._max_items and not self._ended:
            self._emptied = self._loop.create_future()
            await self._emptied
        if not self._ended:
            self._items.append(item)
            _wake(self._filled)

    def end(self, error: Exception | None = None) -> None:
        """No more items: readers get what is left, then the error or the end."""
        if self._ended:
            return
        self._ended = True
        self._error = error
        _wake(self._filled)
        _wake(self._emptied)

    @property
    def has_news(self) -> bool:
        """Whether there is an item or the end."""
        return bool(self._items) or self._ended

    async def ready(self) -> None:
        """Return once there is an item or the end."""
        while not self.has_news:
            self._filled = self._loop.create_future()
            await self._filled

    async def get(self) -> Item:
        """Return the next item.

        Raises:
            StopAsyncIteration: Ended in good order.
            CallFailedError: Ended with that error.
        """
        await self.ready()
        if not self._items:
            if self._error is not None:
                raise self._error
            raise StopAsyncIteration
        item = self._items.popleft()
        _wake(self._emptied)
        return item


def _wake(waiter: asyncio.Future[None] | None) -> None:
    if waiter is not None and not waiter.done():
        waiter.set_result(None)


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
        stale: StaleToken,
    ) -> None:
        self._call = call
        self._stale = stale
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
            raise failure_of(
                error, self._method, self._address, self._advice, self._stale
            ) from error
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
            return  # the stream has ended: iteration raises its error
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
            error = failure_of(failure, self._method, self._address, self._advice, self._stale)
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
            code,
            grpc.aio.Metadata(),
            await self._call.trailing_metadata() or grpc.aio.Metadata(),
            details=await self._call.details(),
        )
        return failure_of(status, self._method, self._address, self._advice, self._stale)


class GrpcServerStream(Generic[Response, Request]):
    """Fills ``ports.network.Stream`` over a grpc.aio servicer context."""

    def __init__(
        self,
        context: Any,  # noqa: ANN401 - grpc has no type for it
        method: Method[Any, Any],
        parser: RequestParser[Request],
    ) -> None:
        self._context = context
        self._parser = parser
        self._method = method.name
        self._inbox: Inbox[Request] = Inbox(INBOX_MESSAGES)
        self._closed = False

    @property
    def has_begun(self) -> bool:
        """Whether the client has said something or ended its half."""
        return self._inbox.has_news

    async def begun(self) -> None:
        """Return once the client has said something or ended its half."""
        await self._inbox.ready()

    async def send(self, message: Response) -> None:
        """Send one message, waiting for flow control.

        Raises:
            CallFailedError: The stream is closed or its connection was lost.
        """
        if self._closed:
            raise CallFailedError(Failure.CANCELLED, f"{self._method}: the stream is closed")
        try:
            await self._context.write(message)
        except (grpc.aio.AioRpcError, grpc.aio.UsageError, grpc.aio.InternalError) as error:
            raise self._lost() from error
        except asyncio.InvalidStateError as error:
            raise self._lost() from error

    def __aiter__(self) -> AsyncIterator[Request]:
        return self

    async def __anext__(self) -> Request:
        """Return the next message."""
        return await self._inbox.get()

    async def close(self) -> None:
        """End the stream: iteration ends, and nothing more can be sent. Repeating it is fine."""
        self._closed = True
        self._inbox.end()

    async def read_ahead(self, principal: str) -> None:
        """Move what the client, a principal, says into the inbox until it has no more to say."""
        try:
            while (data := await self._context.read()) is not grpc.aio.EOF:
                await self._inbox.put(await self._parser.parsed(data, principal))
        except CallFailedError as error:
            self._inbox.end(error)
        except (grpc.aio.AioRpcError, grpc.aio.UsageError, grpc.aio.InternalError):
            self._inbox.end(self._lost())
        except asyncio.CancelledError:
            self._inbox.end(self._lost())
            raise
        except Exception as error:
            _log.exception("reading a stream of %s failed", self._method)
            self._inbox.end(CallFailedError(Failure.INTERNAL, f"{self._method}: {error!r}"))
        else:
            self._inbox.end()

    def _lost(self) -> CallFailedError:
        return CallFailedError(
            Failure.UNAVAILABLE, f"{self._method}: the connection to the client was lost"
        )
