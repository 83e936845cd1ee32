"""Measures every call that a process answers, outside of what answers it."""

from collections.abc import Awaitable, Callable

from sharemesh.methods import Method, Request, Response
from sharemesh.ports.network import CallContext, Listener, Stream
from sharemesh.telemetry import names
from sharemesh.telemetry.telemetry import Telemetry


class MeasuredListener:
    """Fills ``ports.network.Listener`` before another one: durations and numbers by method."""

    def __init__(self, listener: Listener, telemetry: Telemetry) -> None:
        self._listener = listener
        self._registry = telemetry.registry
        self._now_ns = telemetry.spans.now_ns

    def offer(
        self,
        method: Method[Request, Response],
        handler: Callable[[Request, CallContext], Awaitable[Response]],
    ) -> None:
        """Answer a unary method (see the port), and record how long it took."""
        duration = self._registry.histogram(names.RPC_DURATION, method.name)
        now_ns = self._now_ns

        async def answer(request: Request, context: CallContext) -> Response:
            began_ns = now_ns()
            try:
                return await handler(request, context)
            finally:
                duration.record((now_ns() - began_ns) / 1e9)

        self._listener.offer(method, answer)

    def offer_stream(
        self,
        method: Method[Request, Response],
        handler: Callable[[Stream[Response, Request], CallContext], Awaitable[None]],
    ) -> None:
        """Answer a stream method (see the port), and count it."""
        opened = self._registry.counter(names.RPC_STREAMS, method.name)

        async def answer(stream: Stream[Response, Request], context: CallContext) -> None:
            opened.add()
            await handler(stream, context)

        self._listener.offer_stream(method, answer)
