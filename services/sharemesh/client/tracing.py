"""W3C trace context in record headers: put there by producers, linked to by consumers."""

from collections.abc import Iterable

from opentelemetry import trace
from opentelemetry.context import get_current

from sharemesh.client.records import ConsumerRecord, Headers
from sharemesh.telemetry.trace_context import (
    LINKS_MAX,
    TRACEPARENT,
    TRACESTATE,
    TraceContext,
    sampled_contexts,
)


def with_trace_context(headers: Headers) -> Headers:
    """Return the headers with the context of the current span, if there is one.

    Headers that the application set itself stay as they are: a record that is passed on keeps
    the context of its first producer. Leaders and redeliveries never touch them.
    """
    if not get_current():  # the common case, in a tenth of the time: no span, no baggage
        return headers
    context = trace.get_current_span().get_span_context()
    if not context.is_valid or any(name == TRACEPARENT for name, _ in headers):
        return headers
    known = TraceContext(context.trace_id, context.span_id, context.trace_flags.sampled)
    headers = (*headers, (TRACEPARENT, known.traceparent().encode()))
    if context.trace_state:
        headers = (*headers, (TRACESTATE, context.trace_state.to_header().encode()))
    return headers


def producer_links(
    records: Iterable[ConsumerRecord], *, limit: int = LINKS_MAX
) -> list[trace.Link]:
    """Return links to the sampled producers of records, for the span that processes them.

    At most ``limit``, in the order of the records.
    """
    values = [
        value
        for record in records
        for name, value in record.headers
        if name == TRACEPARENT and value is not None
    ]
    contexts, _ = sampled_contexts(values, limit=limit)
    return [
        trace.Link(
            trace.SpanContext(
                context.trace_id,
                context.span_id,
                is_remote=True,
                trace_flags=trace.TraceFlags(trace.TraceFlags.SAMPLED),
            )
        )
        for context in contexts
    ]
