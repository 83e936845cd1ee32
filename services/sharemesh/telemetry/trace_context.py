"""W3C trace context on the wire and in record headers; spans of requests and producers."""

from contextvars import ContextVar
from dataclasses import KW_ONLY, dataclass
from typing import NamedTuple

TRACEPARENT = "traceparent"
TRACESTATE = "tracestate"
_LENGTH = 55
_FLAGS = slice(53, 55)
LINKS_MAX = 32
"""Links of one span; how many more there were is an attribute."""


class TraceContext(NamedTuple):
    """One span from afar. Ids are never 0; ``sampled`` is the flag of its trace."""

    trace_id: int
    span_id: int
    sampled: bool = True

    def traceparent(self) -> str:
        """Return the header value."""
        return f"00-{self.trace_id:032x}-{self.span_id:016x}-{1 if self.sampled else 0:02x}"

    def ids(self) -> dict[str, str]:
        """Return the ids as log lines name them."""
        return {"trace_id": f"{self.trace_id:032x}", "span_id": f"{self.span_id:016x}"}


def parsed(value: bytes) -> TraceContext | None:
    """Return the context of a ``traceparent`` value, or None if it is malformed."""
    if len(value) < _LENGTH or value[2:3] != b"-" or value[35:36] != b"-" or value[52:53] != b"-":
        return None
    try:
        version, trace_id = int(value[:2], 16), int(value[3:35], 16)
        span_id, flags = int(value[36:52], 16), int(value[_FLAGS], 16)
    except ValueError:
        return None
    if version == 0xFF or not trace_id or not span_id:
        return None
    return TraceContext(trace_id, span_id, bool(flags & 1))


def sampled_contexts(
    values: list[bytes], *, limit: int = LINKS_MAX
) -> tuple[list[TraceContext], int]:
    """Return the sampled contexts among header values, at most ``limit``, and how many more.

    Only the two digits of the flags are read first: parsing every record's header would
    cost ten times more than all the rest of a span.
    """
    contexts: list[TraceContext] = []
    dropped = 0
    for value in values:
        if value[_FLAGS] not in _SAMPLED:
            continue
        if len(contexts) >= limit:
            dropped += 1
            continue
        context = parsed(value)
        if context is not None:
            contexts.append(context)
    return contexts, dropped


_SAMPLED = frozenset(b"%02x" % flags for flags in range(1, 256, 2))


@dataclass(slots=True, eq=False)
class RequestSpan:
    """The span of one call or stream that a process answers.

    Timers and tasks inherit it and may outlive it, so it only counts while it is ``open``.
    """

    context: TraceContext
    _: KW_ONLY
    is_stream: bool
    open: bool = True


REQUEST: ContextVar[RequestSpan | None] = ContextVar("request span", default=None)


def current_request() -> RequestSpan | None:
    """Return the request that is being answered here, None outside of one or without spans."""
    request = REQUEST.get()
    return request if request is not None and request.open else None


PROBE_BYTES = 2_048
"""Searched at both ends first: headers end a record, and producers that trace send them
with every record. A search through everything costs 2 us for each KiB, as much as the delivery."""

SCAN_BYTES_MAX = 1 << 18
"""Bytes searched for one acquisition, once the probe has found something."""

_KEY = b"\x16traceparent\x6e00-"
"""A record header's key and value lengths as varints (11 and 55), the key, version 00."""
_VALUE_AT = len(_KEY) - 3
_VALUE_LENGTH = 55


def producer_contexts(records: bytes) -> list[TraceContext]:
    """Return sampled contexts in the headers of uncompressed records, at most ``LINKS_MAX``.

    Compressed batches have none: the leader does not open them (LOG-1); consumers do.
    """
    if _KEY not in records[:PROBE_BYTES] and _KEY not in records[-PROBE_BYTES:]:
        return []
    values: list[bytes] = []
    position = records.find(_KEY, 0, SCAN_BYTES_MAX)
    while position >= 0 and len(values) < LINKS_MAX * 4:
        start = position + _VALUE_AT
        values.append(records[start : start + _VALUE_LENGTH])
        position = records.find(_KEY, start, SCAN_BYTES_MAX)
    return sampled_contexts(values)[0] if values else []
