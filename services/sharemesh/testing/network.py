"""The network port inside one process: same promises as gRPC, no sockets."""

import asyncio
import itertools
import logging
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from google.protobuf.message import Message

from sharemesh.methods import Method, Request, Response
from sharemesh.ports.network import CallContext, CallFailedError, Failure, Stream
from sharemesh.tasks import cancel_and_wait
from sharemesh.testing.network_stream import LocalStream, StreamPair

MAX_MESSAGE_BYTES = 64 * 1024 * 1024
"""Largest message, inclusive, as over gRPC."""

Copied = TypeVar("Copied", bound=Message)

_log = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class _Open:
    """One open call: what ends its client's wait, and its handler."""

    client: "LocalCaller"
    handler: asyncio.Task[Any]
    lose: Callable[[CallFailedError], None]


@dataclass(slots=True)
class _Host:
    """What listens at one address."""

    unary: dict[str, Callable[[Any, CallContext], Awaitable[Any]]] = field(default_factory=dict)
    streams: dict[str, Callable[[Any, CallContext], Awaitable[None]]] = field(default_factory=dict)
    listening: bool = True
    open: dict[_Open, None] = field(default_factory=dict)


class LocalNetwork:
    """Addresses are only names. Messages are copied by serialization: nothing is shared."""

    def __init__(self, *, max_message_bytes: int = MAX_MESSAGE_BYTES) -> None:
        self._max_message_bytes = max_message_bytes
        self._hosts: dict[str, _Host] = {}
        self._numbers = itertools.count(1)

    def caller(self, principal: str = "User:ANONYMOUS") -> "LocalCaller":
        """Return a new client; it is one connection to each address."""
        return LocalCaller(self, f"local:{next(self._numbers)}", principal)

    def listener(self, address: str) -> "LocalListener":
        """Return the server side of an address (``host:port``)."""
        host = self._hosts.setdefault(address, _Host())
        host.listening = True
        return LocalListener(self, host, address)

    async def disconnect(self, address: str) -> None:
        """Lose every connection to an address: clients fail, handlers are cancelled."""
        host = self._hosts.get(address)
        if host is not None:
            await self.drop(host.open, address)

    async def drop(self, calls: Iterable["_Open"], address: str) -> None:
        """Lose these calls and wait until their handlers have ended."""
        lost = list(calls)
        for call in lost:
            call.lose(_failed(Failure.UNAVAILABLE, "", address, "the connection was lost"))
            call.handler.cancel()
        if lost:
            await asyncio.wait([call.handler for call in lost])

    def host(self, method: str, to: str) -> _Host:
        """Return who listens at an address."""
        host = self._hosts.get(to)
        if host is None or not host.listening:
            raise CallFailedError(
                Failure.UNAVAILABLE,
                f"{method or 'call'} to {to}: nobody listens at this address",
                unreachable="connection refused",
            )
        return host

    def hosts(self) -> list[_Host]:
        """Return all that ever listened."""
        return list(self._hosts.values())

    def asked(self, message: Request, method: Method[Request, Response], to: str) -> Request:
        """Return a request as the server gets it, within the method's own bound."""
        bytes_max = min(self._max_message_bytes, method.request_bytes_max)
        return _copied(message, method.request, bytes_max, method.name, to)

    def answered(self, message: Response, method: Method[Request, Response], to: str) -> Response:
        """Return an answer as the client gets it."""
        return _copied(message, method.response, self._max_message_bytes, method.name, to)


def _copied(message: Copied, kind: type[Copied], bytes_max: int, method: str, to: str) -> Copied:
    data = message.SerializeToString()
    if len(data) > bytes_max:
        raise _failed(
            Failure.RESOURCE_EXHAUSTED,
            method,
            to,
            f"a message of {len(data)} bytes is larger than {bytes_max}",
        )
    return kind.FromString(data)


class LocalCaller:
    """Fills ``ports.network.Caller``."""

    def __init__(self, network: LocalNetwork, peer: str, principal: str) -> None:
        self._network = network
        self._context = CallContext(peer, principal)
        self._closed = False

    async def call(
        self,
        method: Method[Request, Response],
        request: Request,
        *,
        to: str,
        timeout_ms: int | None = None,
    ) -> Response:
        """Return the response of a unary method (see the port)."""
        host = self._reach(method.name, to)
        handler = host.unary.get(method.name)
        if handler is None:
            raise _failed(Failure.UNIMPLEMENTED, method.name, to, "not offered here")
        copy = self._network.asked(request, method, to)
        task = asyncio.ensure_future(handler(copy, self._context))
        outcome: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        task.add_done_callback(lambda done: _settle(outcome, done, method.name, to))
        opened = _Open(self, task, lambda error: _fail(outcome, error))
        host.open[opened] = None
        deadline_ms = method.deadline_ms if timeout_ms is None else timeout_ms
        try:
            async with asyncio.timeout(deadline_ms / 1_000):
                answer = await outcome
        except TimeoutError as error:
            raise _failed(
                Failure.DEADLINE_EXCEEDED, method.name, to, f"no answer for {deadline_ms} ms"
            ) from error
        finally:
            host.open.pop(opened, None)
            await cancel_and_wait(task)
        response: Response = self._network.answered(answer, method, to)
        return response

    async def stream(
        self, method: Method[Request, Response], *, to: str
    ) -> Stream[Request, Response]:
        """Open a bidirectional stream (see the port)."""
        host = self._reach(method.name, to)
        handler = host.streams.get(method.name)
        if handler is None:
            raise _failed(Failure.UNIMPLEMENTED, method.name, to, "not offered here")
        pair: StreamPair[Request, Response] = StreamPair(
            method.name,
            to,
            to_server=lambda message: self._network.asked(message, method, to),
            to_client=lambda message: self._network.answered(message, method, to),
        )
        task = asyncio.ensure_future(_serve(handler, pair, self._context))
        opened = _Open(self, task, pair.lose)
        host.open[opened] = None
        task.add_done_callback(lambda _: host.open.pop(opened, None))
        return pair.client

    async def close(self) -> None:
        """Close all connections; open calls fail and their handlers are cancelled."""
        self._closed = True
        for host in self._network.hosts():
            mine = [call for call in host.open if call.client is self]
            await self._network.drop(mine, "closed here")

    def _reach(self, method: str, to: str) -> _Host:
        if self._closed:
            raise _failed(Failure.CANCELLED, method, to, "this caller is closed")
        return self._network.host(method, to)


class LocalListener:
    """Fills ``ports.network.Listener``."""

    def __init__(self, network: LocalNetwork, host: _Host, address: str) -> None:
        self._network = network
        self._host = host
        self._address = address

    def offer(
        self,
        method: Method[Request, Response],
        handler: Callable[[Request, CallContext], Awaitable[Response]],
    ) -> None:
        """Answer a unary method (see the port)."""
        self._host.unary[method.name] = handler

    def offer_stream(
        self,
        method: Method[Request, Response],
        handler: Callable[[Stream[Response, Request], CallContext], Awaitable[None]],
    ) -> None:
        """Answer a stream method (see the port)."""
        self._host.streams[method.name] = handler

    async def stop(self) -> None:
        """Stop listening and lose all connections; what was offered is forgotten."""
        self._host.listening = False
        self._host.unary.clear()
        self._host.streams.clear()
        await self._network.drop(self._host.open, self._address)


async def _serve(
    handler: Callable[[Any, CallContext], Awaitable[None]],
    pair: StreamPair[Any, Any],
    context: CallContext,
) -> None:
    server: LocalStream[Any, Any] = pair.server
    try:
        await handler(server, context)
    except CallFailedError as error:
        pair.finish(_failed(error.failure, pair.method, pair.address, error.message))
    except Exception as error:
        _log.error("handler of %s failed", pair.method, exc_info=error)
        pair.finish(_internal(error, pair.method, pair.address))
    except asyncio.CancelledError:
        pair.lose(_failed(Failure.UNAVAILABLE, pair.method, pair.address, "connection lost"))
        raise
    else:
        pair.finish(None)


def _settle(outcome: asyncio.Future[Any], task: asyncio.Task[Any], method: str, to: str) -> None:
    if task.cancelled():
        _fail(outcome, _failed(Failure.UNAVAILABLE, method, to, "the connection was lost"))
        return
    error = task.exception()
    if error is None:
        if not outcome.done():
            outcome.set_result(task.result())
    elif isinstance(error, CallFailedError):
        _fail(outcome, _failed(error.failure, method, to, error.message, error.throttle_ms))
    else:
        _log.error("handler of %s failed", method, exc_info=error)
        _fail(outcome, _internal(error, method, to))


def _fail(outcome: asyncio.Future[Any], error: CallFailedError) -> None:
    if not outcome.done():
        outcome.set_exception(error)
        outcome.exception()  # seen: the waiter may have left already


def _internal(error: BaseException, method: str, to: str) -> CallFailedError:
    return _failed(Failure.INTERNAL, method, to, f"{type(error).__name__} in the server")


def _failed(
    failure: Failure, method: str, to: str, details: str, throttle_ms: int = 0
) -> CallFailedError:
    return CallFailedError(
        failure, f"{method or 'call'} to {to}: {details}", throttle_ms=throttle_ms
    )
