"""The handlers that a process offers, called from its other door."""

import asyncio
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import Any

from sharemesh.methods import Method, Request, Response
from sharemesh.ports.network import CallContext, CallFailedError, Failure, Stream

THROTTLE_MS: ContextVar[int] = ContextVar("throttle_ms", default=0)
"""What a handler's answer, or its refusal, told of quotas: the request's own answer tells it."""

UnaryHandler = Callable[[Any, CallContext], Awaitable[Any]]
StreamHandler = Callable[[Any, CallContext], Awaitable[None]]


class OfferedHandlers:
    """Fills ``ports.network.Listener``: keeps what it is offered, to be called in this process."""

    def __init__(self) -> None:
        self._unary: dict[str, UnaryHandler] = {}
        self._streams: dict[str, StreamHandler] = {}

    def offer(
        self,
        method: Method[Request, Response],
        handler: Callable[[Request, CallContext], Awaitable[Response]],
    ) -> None:
        """Keep the handler of a unary method (see the port)."""
        self._unary[method.name] = handler

    def offer_stream(
        self,
        method: Method[Request, Response],
        handler: Callable[[Stream[Response, Request], CallContext], Awaitable[None]],
    ) -> None:
        """Keep the handler of a stream method (see the port)."""
        self._streams[method.name] = handler

    async def call(
        self, method: Method[Request, Response], request: Request, context: CallContext
    ) -> Response:
        """Return what the handler answers, in the time that the method has.

        Raises:
            CallFailedError: As out of the handler; UNIMPLEMENTED if no role here offers it.
        """
        handler = self._unary.get(method.name)
        if handler is None:
            raise _not_here(method)
        try:
            async with asyncio.timeout(method.deadline_ms / 1_000):
                response: Response = await handler(request, context)
        except CallFailedError as error:
            THROTTLE_MS.set(error.throttle_ms)
            raise
        except TimeoutError:
            raise CallFailedError(
                Failure.DEADLINE_EXCEEDED, f"{method.name}: no answer in {method.deadline_ms} ms"
            ) from None
        THROTTLE_MS.set(getattr(response, "throttle_time_ms", 0))
        return response

    def stream(
        self, method: Method[Request, Response]
    ) -> Callable[[Stream[Response, Request], CallContext], Awaitable[None]]:
        """Return what serves a stream.

        Raises:
            CallFailedError: UNIMPLEMENTED; no role here offers it.
        """
        handler = self._streams.get(method.name)
        if handler is None:
            raise _not_here(method)
        return handler


def _not_here(method: Method[Any, Any]) -> CallFailedError:
    return CallFailedError(
        Failure.UNIMPLEMENTED, f"{method.name}: no role of this process answers it"
    )
