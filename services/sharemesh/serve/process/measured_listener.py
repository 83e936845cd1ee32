"""Measures every call that a process answers, outside of what answers it."""

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

from sharemesh.methods import Method, Request, Response
from sharemesh.ports.network import CallContext, CallFailedError, Listener, Stream
from sharemesh.telemetry import names
from sharemesh.telemetry.spans import Span, SpanKind
from sharemesh.telemetry.telemetry import Telemetry
from sharemesh.telemetry.trace_context import (
    REQUEST,
    TRACEPARENT,
    RequestSpan,
    TraceContext,
    parsed,
)


class MeasuredListener:
    """Fills ``ports.network.Listener`` before another one: durations, numbers, SERVER spans.

    The span of a call begins in the caller's trace if the caller says which (``traceparent`` in
    the metadata), the span of a stream is written when the stream ends. Requests of Kafka's clients
    have spans of their own.
    """

    def __init__(self, listener: Listener, telemetry: Telemetry) -> None:
        self._listener = listener
        self._registry = telemetry.registry
        self._spans = telemetry.spans
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
                if context.in_span or not self._spans.enabled:
                    return await handler(request, context)
                with self._traced(method.name, context, is_stream=False):
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
            if context.in_span or not self._spans.enabled:
                await handler(stream, context)
                return
            with self._traced(method.name, context, is_stream=True):
                await handler(stream, context)

        self._listener.offer_stream(method, answer)

    @contextmanager
    def _traced(self, method: str, context: CallContext, *, is_stream: bool) -> Iterator[None]:
        """Write a span around what is done inside."""
        began_ns = self._now_ns()
        caller = _caller_of(context)
        request = RequestSpan(self._spans.context(caller), is_stream=is_stream)
        token = REQUEST.set(request)
        status, error = "OK", ""
        try:
            yield
        except CallFailedError as failed:
            status = error = failed.failure.value.upper()
            raise
        except BaseException as failed:
            # A cancelled handler is a caller that went away; the rest is INTERNAL for the caller.
            status = "INTERNAL" if isinstance(failed, Exception) else "CANCELLED"
            error = type(failed).__name__
            raise
        finally:
            request.open = False
            REQUEST.reset(token)
            full_name = f"{names.RPC_PACKAGE}.{method}"
            attributes = {
                names.RPC_SYSTEM: "grpc",
                names.RPC_METHOD: full_name,
                names.RPC_STATUS: status,
            }
            times = (began_ns, self._now_ns())
            kind = SpanKind.SERVER
            self._spans.end(
                Span(full_name, request.context, caller, *times, attributes, kind=kind, error=error)
            )


def _caller_of(context: CallContext) -> TraceContext | None:
    """Return the caller's span, if it sent one; the sampler takes its flag into account."""
    for name, value in context.metadata:
        if name == TRACEPARENT:
            return parsed(value.encode())
    return None
