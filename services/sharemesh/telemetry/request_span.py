"""The request on whose behalf code runs: parent or link of its spans, trace id of its log lines."""

from contextvars import ContextVar

from sharemesh.telemetry.trace_context import TraceContext


class RequestSpan:
    """The span of one call or stream that a process answers.

    Timers and tasks inherit it and may outlive it, so it only counts while it is ``open``.
    """

    __slots__ = ("context", "is_stream", "open")

    def __init__(self, context: TraceContext, *, is_stream: bool) -> None:
        self.context = context
        self.is_stream = is_stream
        self.open = True


REQUEST: ContextVar[RequestSpan | None] = ContextVar("request span", default=None)


def current_request() -> RequestSpan | None:
    """Return the request that is being answered here, None outside of one or without spans."""
    request = REQUEST.get()
    return request if request is not None and request.open else None
