"""What every call passes before and after its handler: who calls, is there room, does it speak."""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from dataclasses import replace
from typing import Any

import grpc
from google.protobuf.message import Message

from sharemesh.arriving_calls import arriving_calls
from sharemesh.methods import Method, Request, Response
from sharemesh.ports.network import CallContext, CallFailedError, Stream
from sharemesh.rpc.call_refusal import (
    CallRefusal,
    mark,
    refusal_of,
    refuse,
    refused_silent,
    silent,
)
from sharemesh.rpc.carried_calls import CARRIED_BYTES_MAX, CARRY
from sharemesh.rpc.carried_stream import CarriedStream
from sharemesh.rpc.limits import (
    FIRST_MESSAGE_MS,
    REQUEST_MS,
    STREAM_TAKEN,
    ServerLimits,
)
from sharemesh.rpc.open_calls import OpenCalls
from sharemesh.rpc.quiet_streams import QuietStream, QuietStreamError
from sharemesh.rpc.receiving_memory import ReceivingMemory, TooMuchReceivedError
from sharemesh.rpc.request_parser import ParserThread, RequestParser
from sharemesh.rpc.silent_calls import SilentCalls, TooManySilentError
from sharemesh.rpc.status import code_of
from sharemesh.rpc.streams import GrpcServerStream
from sharemesh.rpc.tls import AUTHORIZATION, SECRET_HEADER, Principals
from sharemesh.rpc.token_streams import TokenStreams, token_ended
from sharemesh.rpc.unsent_answers import UnsentAnswer, UnsentAnswers
from sharemesh.throttling.call_turns import CallTurns
from sharemesh.v1 import carried_calls_pb2

_OF_THE_TRANSPORT = (SECRET_HEADER, AUTHORIZATION)
"""Metadata that no handler sees."""

_log = logging.getLogger(__name__)


_Answer = Callable[[bytes, CallContext], Awaitable[tuple[bytes, UnsentAnswer]]]
"""A method from bytes to bytes, and what these hold until they have left."""

_UNSENT: ContextVar[UnsentAnswer | None] = ContextVar("unsent answer", default=None)
"""Of the call whose task this is: gRPC makes bytes of an answer behind its handler."""

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
        self,
        principals: Principals,
        open_calls: OpenCalls,
        on_refused: RefusedCall | None = None,
        memory: ReceivingMemory | None = None,
        limits: ServerLimits | None = None,
    ) -> None:
        """``on_refused`` hears of calls that end without an answer for who calls or how much."""
        self._principals = principals
        self._open = open_calls
        self._token_streams = TokenStreams()
        self._on_refused = on_refused
        limits = limits or ServerLimits()
        self._thread = ParserThread(limits, principals.own)
        self._own = frozenset(principals.own)
        self._memory = memory or ReceivingMemory(lambda: 0, 0)
        self._silent = SilentCalls(principals.own)
        self._turns = CallTurns(principals.own)
        self._unsent = UnsentAnswers(limits, principals.own)
        self._carried: dict[str, _Answer] = {}
        self._carrying: dict[CarriedStream, None] = {}

    def close(self) -> None:
        """End what parses requests; no call is open any more."""
        self._thread.close()
        self._memory.close()

    def stop_carrying(self) -> None:
        """Let streams of calls end with those that are under way."""
        for stream in self._carrying:
            stream.stop()

    def carrier(self) -> "grpc.RpcMethodHandler[Any, Any]":
        """Return what answers streams of calls (spec CAR)."""

        async def serve(
            stream: Stream[carried_calls_pb2.CarriedAnswers, carried_calls_pb2.CarriedCalls],
            caller: CallContext,
        ) -> None:
            quiet = QuietStream()
            calls = _CarriedCalls(self, self._carried, caller, quiet)
            carried = CarriedStream(stream, calls)
            self._carrying[carried] = None
            try:
                await self._unless_quiet(quiet, caller, carried.run())
            finally:
                del self._carrying[carried]
                calls.close()

        return self.stream(CARRY, serve)

    def stream_for_all(
        self,
        method: Method[Request, Response],
        handler: Callable[[Stream[Response, Request], CallContext], Awaitable[None]],
        *,
        lasts: bool,
    ) -> "grpc.RpcMethodHandler[Any, Any]":
        """Return what answers a stream method that needs no right; see ``QuietStream``."""

        async def serve(stream: Stream[Response, Request], caller: CallContext) -> None:
            await self._unless_quiet(QuietStream(lasts=lasts), caller, handler(stream, caller))

        return self.stream(method, serve)

    async def _unless_quiet(
        self, stream: QuietStream, caller: CallContext, served: Awaitable[None]
    ) -> None:
        """Serve a stream as long as it is not quiet for too long (BND-31)."""
        if caller.principal in self._own:
            await served
        else:
            await self._memory.quiet_streams.bounded(stream, served)

    def unary(
        self,
        method: Method[Request, Response],
        handler: Callable[[Request, CallContext], Awaitable[Response]],
    ) -> "grpc.RpcMethodHandler[Any, Any]":
        """Return what answers a unary method."""
        parser = RequestParser(method, self._thread)
        if method.is_carried:

            async def carried(request: bytes, caller: CallContext) -> tuple[bytes, UnsentAnswer]:
                unsent = await self._unsent.begin(caller.principal, method.name, len(request))
                try:
                    await self._turns.turn(caller.principal, len(request))
                    parsed = await parser.parsed(request, caller.principal)
                    response = await handler(parsed, caller)
                    data = response.SerializeToString()
                except BaseException:
                    unsent.ended()
                    raise
                unsent.made(len(data))
                return data, unsent

            self._carried[method.name] = carried

        async def answer(_requests: object, context: Any) -> Response | None:  # noqa: ANN401
            caller = self._began(method.name, context)
            answered: Response | CallRefusal = (
                caller
                if isinstance(caller, CallRefusal)
                else await self._answered(method, parser, handler, context, caller)
            )
            if not isinstance(answered, CallRefusal):
                return answered
            if isinstance(caller, CallContext):
                self._tell(method.name, caller.principal, context.peer(), answered)
            refuse(context, answered)
            return None

        return grpc.stream_unary_rpc_method_handler(answer, response_serializer=_sent)

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
                if isinstance(caller, CallRefusal)
                else await self._authenticated(method, parser, handler, context, caller)
            )
            if failed is not None:
                if isinstance(caller, CallContext):
                    self._tell(method.name, caller.principal, context.peer(), failed)
                refuse(context, failed)

        return grpc.stream_stream_rpc_method_handler(
            answer, response_serializer=method.response.SerializeToString
        )

    async def _answered(
        self,
        method: Method[Request, Response],
        parser: RequestParser[Request],
        handler: Callable[[Request, CallContext], Awaitable[Response]],
        context: Any,  # noqa: ANN401 - untyped
        caller: CallContext,
    ) -> Response | CallRefusal:
        """Answer one unary call, or return why it failed."""
        own = caller.principal in self._own
        try:
            received = self._request(method, parser, context, caller.principal)
            request = await (received if own else self._memory.bounded(caller.principal, received))
        except (TooManySilentError, TooMuchReceivedError) as error:
            return refused_silent(method, error)
        except Exception as error:
            return refusal_of(method.name, error)
        if isinstance(request, CallRefusal):
            return request
        try:
            return await handler(request, replace(caller, answer=_UNSENT.get()))
        except Exception as error:
            return refusal_of(method.name, error)

    async def _request(
        self,
        method: Method[Request, Any],
        parser: RequestParser[Request],
        context: Any,  # noqa: ANN401 - untyped
        principal: str,
    ) -> Request | CallRefusal:
        """Read the one message of a unary call, and parse it in its turn."""
        try:
            data = await self._silent.spoken(principal, REQUEST_MS, context.read())
        except TimeoutError:
            return silent(method, "call", REQUEST_MS)
        if data is grpc.aio.EOF:
            asked = method.request.DESCRIPTOR.name
            return CallRefusal(
                grpc.StatusCode.INVALID_ARGUMENT,
                f"{method.name}: the call has no request: send one {asked}",
            )
        unsent = await self._unsent.begin(principal, method.name, len(data))
        _UNSENT.set(unsent)
        task = asyncio.current_task()
        assert task is not None, "gRPC serves each call in a task of its own"
        task.add_done_callback(lambda _: unsent.ended())
        await self._turns.turn(principal, len(data))
        return await parser.parsed(data, principal)

    async def _served(
        self,
        method: Method[Request, Response],
        parser: RequestParser[Request],
        handler: Callable[[Stream[Response, Request], CallContext], Awaitable[None]],
        context: Any,  # noqa: ANN401 - untyped
        caller: CallContext,
    ) -> CallRefusal | None:
        """Serve one stream to its end, from its turn on; return why it failed, if it did."""
        await self._turns.turn(caller.principal, 0)
        stream = GrpcServerStream[Response, Request](context, method, parser)
        await context.send_initial_metadata(((STREAM_TAKEN, "1"),))
        pump = asyncio.ensure_future(stream.read_ahead(caller.principal))
        try:
            if not await self._spoken(stream, pump, caller.principal):
                return silent(method, "stream", FIRST_MESSAGE_MS)
            await handler(stream, caller)
        except (TooManySilentError, TooMuchReceivedError) as error:
            return refused_silent(method, error)
        except QuietStreamError as error:
            return CallRefusal(grpc.StatusCode.RESOURCE_EXHAUSTED, f"{method.name}: {error}")
        except Exception as error:
            return refusal_of(method.name, error)
        finally:
            await _ended(pump)
        return None

    async def _spoken(
        self, stream: GrpcServerStream[Any, Any], pump: "asyncio.Task[None]", principal: str
    ) -> bool:
        """Return whether the client says something, or ends its half, in time."""
        spoken = self._silent.spoken(principal, FIRST_MESSAGE_MS, stream.begun())
        try:
            await (spoken if principal in self._own else self._memory.bounded(principal, spoken))
        except TimeoutError:
            # After a stall of the process the timer is due before what has come is read.
            await asyncio.wait([pump], timeout=0)
            return stream.has_begun
        return True

    async def _authenticated(
        self,
        method: Method[Request, Response],
        parser: RequestParser[Request],
        handler: Callable[[Stream[Response, Request], CallContext], Awaitable[None]],
        context: Any,  # noqa: ANN401 - untyped
        caller: CallContext,
    ) -> CallRefusal | None:
        """Serve one stream as long as its caller's token lasts (IDN-7), if one names it."""
        with self._token_streams.bound(caller) as end:
            if end is None:
                return await self._served(method, parser, handler, context, caller)
            failed: CallRefusal | None = None
            with contextlib.suppress(TimeoutError):
                async with end:
                    failed = await self._served(method, parser, handler, context, caller)
            if end.expired():
                return refusal_of(method.name, token_ended(method.name))
            return failed

    def _began(self, method: str, context: Any) -> CallContext | CallRefusal:  # noqa: ANN401
        """Return who calls, counted until its answer has left; or why the call is refused."""
        arriving_calls().begun += 1
        try:
            caller = call_context(context, self._principals)
        except CallFailedError as error:
            unknown = CallRefusal(code_of(error.failure), f"{method}: {error.message}", mark(error))
            self._tell(method, "", context.peer(), unknown)
            return unknown
        if caller.proven_for_ms is not None:
            self._token_streams.show(caller, caller.proven_for_ms)
        refused = self.one_too_many(method, caller)
        if refused is None:
            self._counted(caller.principal)
        return refused or caller

    def one_too_many(self, method: str, caller: CallContext) -> CallRefusal | None:
        """Count one more open call of this caller; or return why it is refused (BND-2)."""
        why = self._open.began(caller.principal)
        if not why:
            return None
        if self._open.first_refusal(caller.principal):
            _log.warning("calls are refused: %s", why, extra={"peer": caller.peer})
        refused = CallRefusal(grpc.StatusCode.RESOURCE_EXHAUSTED, f"{method}: {why}")
        self._tell(method, caller.principal, caller.peer, refused)
        return refused

    def refused(self, method: str, caller: CallContext, error: Exception) -> CallRefusal:
        """Return how a call ends whose handler raised, and tell of it."""
        refused = refusal_of(method, error)
        self._tell(method, caller.principal, caller.peer, refused)
        return refused

    def call_ended(self, principal: str) -> None:
        """A call that was counted is over."""
        self._open.ended(principal)

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
        peer: str,
        refused: CallRefusal,
    ) -> None:
        """Tell of a refused call, unless that was decided where rights are looked at (AUD-3)."""
        if self._on_refused is not None and refused.code in _TOLD:
            self._on_refused(method, principal, peer, refused.code.name)


class _CarriedCalls:
    """Answers the calls of one stream as if each had come by itself (CAR-1)."""

    def __init__(
        self,
        answering: Answering,
        methods: Mapping[str, _Answer],
        caller: CallContext,
        stream: QuietStream,
    ) -> None:
        self._answering = answering
        self._stream = stream
        self._methods = methods
        self._caller = caller
        self._unsent: dict[int, UnsentAnswer] = {}

    def refused(
        self, call: carried_calls_pb2.CarriedCall
    ) -> carried_calls_pb2.CarriedAnswer | None:
        """Count one more open call; or return why it is refused."""
        self._stream.heard()
        refusal: CallRefusal | None
        if call.method not in self._methods:
            words = f"{call.method} is not carried here: call it by itself"
            refusal = CallRefusal(grpc.StatusCode.UNIMPLEMENTED, words)
        elif len(call.request) > CARRIED_BYTES_MAX:
            size = f"{len(call.request)} bytes, more than {CARRIED_BYTES_MAX}"
            words = f"{call.method}: a request of {size}, is not carried: send it by itself"
            refusal = CallRefusal(grpc.StatusCode.RESOURCE_EXHAUSTED, words)
        else:
            refusal = self._answering.one_too_many(call.method, self._caller)
        return None if refusal is None else _refused(call.number, refusal)

    async def answer(self, call: carried_calls_pb2.CarriedCall) -> carried_calls_pb2.CarriedAnswer:
        """Return the response, or the status with which the call ends."""
        try:
            response, unsent = await self._methods[call.method](call.request, self._caller)
        except Exception as error:
            refusal = self._answering.refused(call.method, self._caller, error)
            return _refused(call.number, refusal)
        if unsent.size:
            self._unsent[call.number] = unsent
        return carried_calls_pb2.CarriedAnswer(number=call.number, response=response)

    def left(self, number: int | None) -> None:
        """A call that was counted is over, and its answer, if it has one, has left."""
        self._answering.call_ended(self._caller.principal)
        if number is not None and (unsent := self._unsent.pop(number, None)) is not None:
            unsent.ended()

    def close(self) -> None:
        """The stream is over, and with it what had not left."""
        for unsent in self._unsent.values():
            unsent.ended()


def _sent(response: Message) -> bytes:
    """Return an answer as it is sent; it counts until the task of its call ends."""
    data = response.SerializeToString()
    unsent = _UNSENT.get()
    if unsent is not None:
        unsent.made(len(data))
    return data


async def _ended(pump: "asyncio.Task[None]") -> None:
    pump.cancel()
    await asyncio.wait([pump])


def _refused(number: int, refusal: CallRefusal) -> carried_calls_pb2.CarriedAnswer:
    return carried_calls_pb2.CarriedAnswer(
        number=number,
        status=refusal.code.value[0],
        details=refusal.message,
        trailing=dict(refusal.trailing),
    )


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
