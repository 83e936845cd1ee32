"""What every call passes before and after its handler: who calls, is there room, does it speak."""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

import grpc

from sharemesh.methods import Method, Request, Response
from sharemesh.ports.network import CallContext, CallFailedError, Failure, Stream
from sharemesh.rpc.limits import (
    FIRST_MESSAGE_MS,
    REQUEST_MS,
    STREAM_TAKEN,
    THROTTLE_TIME,
    TOKEN_STALE,
)
from sharemesh.rpc.open_calls import OpenCalls
from sharemesh.rpc.request_parser import ParserThread, RequestParser
from sharemesh.rpc.status import code_of
from sharemesh.rpc.streams import GrpcServerStream
from sharemesh.rpc.tls import AUTHORIZATION, SECRET_HEADER, Principals
from sharemesh.rpc.token_streams import TokenStreams, token_ended

_OF_THE_TRANSPORT = (SECRET_HEADER, AUTHORIZATION)
"""Metadata that no handler sees."""

_log = logging.getLogger(__name__)


class StatusError(Exception):
    """A handler ends its call with a status that the network port has no failure for."""

    def __init__(self, code: grpc.StatusCode, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class _Refusal(NamedTuple):
    """How a call ends that has no answer."""

    code: grpc.StatusCode
    message: str
    trailing: tuple[tuple[str, str], ...] = ()


RefusedCall = Callable[[str, str, str, str], None]
"""Hears method, principal (empty: not known), peer and the status of a call; must not raise."""

_TOLD = frozenset(
    {
        grpc.StatusCode.UNAUTHENTICATED,
        grpc.StatusCode.RESOURCE_EXHAUSTED,
        grpc.StatusCode.DEADLINE_EXCEEDED,
    }
)


class Answering:
    """Makes gRPC's handlers of ours; the calls of one server are counted together.

    Unary calls are read here too, as streams of one message: gRPC would wait for the request of a
    silent one as long as its caller likes.
    """

    def __init__(
        self, principals: Principals, open_calls: OpenCalls, on_refused: RefusedCall | None = None
    ) -> None:
        """``on_refused`` hears of calls that end without an answer for who calls or how much."""
        self._principals = principals
        self._open = open_calls
        self._token_streams = TokenStreams()
        self._on_refused = on_refused
        self._thread = ParserThread()

    def close(self) -> None:
        """End what parses requests; no call is open any more."""
        self._thread.close()

    def unary(
        self,
        method: Method[Request, Response],
        handler: Callable[[Request, CallContext], Awaitable[Response]],
    ) -> "grpc.RpcMethodHandler[Any, Any]":
        """Return what answers a unary method."""
        parser = RequestParser(method, self._thread)

        async def answer(_requests: object, context: Any) -> Response | None:  # noqa: ANN401
            caller = self._began(method.name, context)
            answered: Response | _Refusal = (
                caller
                if isinstance(caller, _Refusal)
                else await _answered(method, parser, handler, context, caller)
            )
            if not isinstance(answered, _Refusal):
                return answered
            if isinstance(caller, CallContext):
                self._tell(method.name, caller.principal, context, answered)
            _refuse(context, answered)
            return None

        return grpc.stream_unary_rpc_method_handler(
            answer, response_serializer=method.response.SerializeToString
        )

    def stream(
        self,
        method: Method[Request, Response],
        handler: Callable[[Stream[Response, Request], CallContext], Awaitable[None]],
    ) -> "grpc.RpcMethodHandler[Any, Any]":
        """Return what answers a stream method; ``handler`` begins with the first message."""
        parser = RequestParser(method, self._thread)

        async def answer(_requests: object, context: Any) -> None:  # noqa: ANN401
            caller = self._began(method.name, context)
            failed = (
                caller
                if isinstance(caller, _Refusal)
                else await self._authenticated(method, parser, handler, context, caller)
            )
            if failed is not None:
                if isinstance(caller, CallContext):
                    self._tell(method.name, caller.principal, context, failed)
                _refuse(context, failed)

        return grpc.stream_stream_rpc_method_handler(
            answer, response_serializer=method.response.SerializeToString
        )

    async def _authenticated(
        self,
        method: Method[Request, Response],
        parser: RequestParser[Request],
        handler: Callable[[Stream[Response, Request], CallContext], Awaitable[None]],
        context: Any,  # noqa: ANN401 - untyped
        caller: CallContext,
    ) -> _Refusal | None:
        """Serve one stream as long as its caller's token lasts (IDN-7), if one names it."""
        with self._token_streams.bound(caller) as end:
            if end is None:
                return await _served(method, parser, handler, context, caller)
            failed: _Refusal | None = None
            with contextlib.suppress(TimeoutError):
                async with end:
                    failed = await _served(method, parser, handler, context, caller)
            if end.expired():
                return _refusal_of(method.name, token_ended(method.name))
            return failed

    def _began(self, method: str, context: Any) -> CallContext | _Refusal:  # noqa: ANN401
        """Return who calls, counted until its answer has left; or why the call is refused."""
        try:
            caller = call_context(context, self._principals)
        except CallFailedError as error:
            unknown = _Refusal(code_of(error.failure), f"{method}: {error.message}", _mark(error))
            self._tell(method, "", context, unknown)
            return unknown
        if caller.proven_for_ms is not None:
            self._token_streams.show(caller, caller.proven_for_ms)
        why = self._open.began(caller.principal)
        if not why:
            self._counted(caller.principal)
            return caller
        if self._open.first_refusal(caller.principal):
            _log.warning("calls are refused: %s", why, extra={"peer": caller.peer})
        refused = _Refusal(grpc.StatusCode.RESOURCE_EXHAUSTED, f"{method}: {why}")
        self._tell(method, caller.principal, context, refused)
        return refused

    def _counted(self, principal: str) -> None:
        """Count the call of this task until its answer has left, which is when the task ends.

        gRPC's own ``add_done_callback`` of a call makes a cycle that outlives each call.
        """
        task = asyncio.current_task()
        assert task is not None, "gRPC serves each call in a task of its own"
        task.add_done_callback(lambda _: self._open.ended(principal))

    def _tell(
        self,
        method: str,
        principal: str,
        context: Any,  # noqa: ANN401 - untyped
        refused: _Refusal,
    ) -> None:
        """Tell of a refused call, unless that was decided where rights are looked at (AUD-3)."""
        if self._on_refused is not None and refused.code in _TOLD:
            self._on_refused(method, principal, context.peer(), refused.code.name)


async def _answered(
    method: Method[Request, Response],
    parser: RequestParser[Request],
    handler: Callable[[Request, CallContext], Awaitable[Response]],
    context: Any,  # noqa: ANN401 - untyped
    caller: CallContext,
) -> Response | _Refusal:
    """Answer one unary call, or return why it failed."""
    try:
        asked = await _request(method, parser, context)
        return asked if isinstance(asked, _Refusal) else await handler(asked, caller)
    except Exception as error:
        return _refusal_of(method.name, error)


async def _served(
    method: Method[Request, Response],
    parser: RequestParser[Request],
    handler: Callable[[Stream[Response, Request], CallContext], Awaitable[None]],
    context: Any,  # noqa: ANN401 - untyped
    caller: CallContext,
) -> _Refusal | None:
    """Serve one stream to its end; return why it failed, if it did."""
    stream = GrpcServerStream[Response, Request](context, method, parser)
    await context.send_initial_metadata(((STREAM_TAKEN, "1"),))
    pump = asyncio.ensure_future(stream.read_ahead())
    try:
        if not await _spoken(stream, pump):
            return _silent(method, "stream", FIRST_MESSAGE_MS)
        await handler(stream, caller)
    except Exception as error:
        return _refusal_of(method.name, error)
    finally:
        await _ended(pump)
    return None


async def _spoken(stream: GrpcServerStream[Response, Request], pump: "asyncio.Task[None]") -> bool:
    """Return whether the client says something, or ends its half, in time."""
    try:
        async with asyncio.timeout(FIRST_MESSAGE_MS / 1_000):
            await stream.begun()
    except TimeoutError:
        # After a stall of the process the timer is due before what has come is read.
        await asyncio.wait([pump], timeout=0)
        return stream.has_begun
    return True


async def _ended(pump: "asyncio.Task[None]") -> None:
    pump.cancel()
    await asyncio.wait([pump])


async def _request(
    method: Method[Request, Any],
    parser: RequestParser[Request],
    context: Any,  # noqa: ANN401 - untyped
) -> Request | _Refusal:
    """Read and parse the one message of a unary call."""
    try:
        async with asyncio.timeout(REQUEST_MS / 1_000):
            data = await context.read()
    except TimeoutError:
        return _silent(method, "call", REQUEST_MS)
    if data is grpc.aio.EOF:
        return _Refusal(
            grpc.StatusCode.INVALID_ARGUMENT,
            f"{method.name}: the call has no request: send one {method.request.DESCRIPTOR.name}",
        )
    return await parser.parsed(data)


def _refuse(context: Any, refusal: _Refusal) -> None:  # noqa: ANN401 - untyped
    """Let the call end with a status once its handler returns.

    An ``abort`` would raise: gRPC keeps that exception in a cycle with the frames that it passed
    and the call, until the next search for cycles. Of 20,000 refused calls a process held 100 MiB
    so, and the search that found them stopped it for a second (measured).
    """
    context.set_code(refusal.code)
    context.set_details(refusal.message)
    context.set_trailing_metadata(refusal.trailing)


def _silent(method: Method[Any, Any], what: str, waited_ms: int) -> _Refusal:
    return _Refusal(
        grpc.StatusCode.DEADLINE_EXCEEDED,
        f"{method.name}: nothing came for {waited_ms} ms after the {what} was opened: send its "
        f"first {method.request.DESCRIPTOR.name} at once",
    )


def _refusal_of(method: str, error: Exception) -> _Refusal:
    if isinstance(error, CallFailedError):
        return _Refusal(code_of(error.failure), error.message, _mark(error))
    if isinstance(error, StatusError):
        return _Refusal(error.code, error.message)
    _log.error("handler of %s failed", method, exc_info=error)
    return _Refusal(code_of(Failure.INTERNAL), f"{type(error).__name__} in the server")


def _mark(error: CallFailedError) -> tuple[tuple[str, str], ...]:
    """Return the trailing metadata of a refusal that the caller, or time, heals (IDN-4, QUO-14)."""
    if error.throttle_ms:
        return ((THROTTLE_TIME, str(error.throttle_ms)),)
    return ((TOKEN_STALE, "1"),) if error.stale else ()


def call_context(context: Any, principals: Principals) -> CallContext:  # noqa: ANN401 - untyped
    """Return who calls, of a servicer context. ``peer`` is unique per connection."""
    metadata = tuple(
        (key, value)
        for key, value in context.invocation_metadata() or ()
        if isinstance(value, str) and not key.startswith(("grpc-", "user-agent"))
    )
    proven = principals.of(context.auth_context(), metadata)
    kept = tuple(pair for pair in metadata if pair[0] not in _OF_THE_TRANSPORT)
    return CallContext(context.peer(), proven.principal, kept, proven.for_ms)
