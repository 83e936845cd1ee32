"""Spans, finished and written on the spot, queued within a bound; a full queue drops and counts."""

from collections import deque
from collections.abc import Callable, Sequence
from enum import IntEnum
from random import Random
from typing import Any

from sharemesh.telemetry.names import LINKS_DROPPED
from sharemesh.telemetry.trace_context import LINKS_MAX, TraceContext

QUEUE_MAX = 16_384
"""Spans that wait for export; about 8 MB when they are full."""

Attributes = dict[str, Any]
_NONE: Attributes = {}


class SpanKind(IntEnum):
    """OpenTelemetry's kinds, with its numbers."""

    INTERNAL = 0
    SERVER = 1
    CLIENT = 2
    PRODUCER = 3
    CONSUMER = 4


class Span:
    """One piece of work that has ended; times are nanoseconds since 1970."""

    __slots__ = (
        "attributes",
        "context",
        "end_ns",
        "error",
        "kind",
        "links",
        "name",
        "parent",
        "shared",
        "start_ns",
    )

    def __init__(  # noqa: PLR0913 - a span is what it is
        self,
        name: str,
        context: TraceContext,
        parent: TraceContext | None,
        start_ns: int,
        end_ns: int,
        attributes: Attributes,
        *,
        kind: SpanKind = SpanKind.INTERNAL,
        links: Sequence[TraceContext] = (),
        error: str = "",
        shared: Attributes = _NONE,
    ) -> None:
        """``shared`` are attributes that many spans have, in one dict that is never changed."""
        self.name = name
        self.context = context
        self.parent = parent
        self.start_ns = start_ns
        self.end_ns = end_ns
        self.attributes = attributes
        self.kind = kind
        self.links = links
        self.error = error
        self.shared = shared


def _as_it_is(span: Span) -> Span:
    return span


class Spans:
    """Where finished spans go. ``enabled`` is False without an exporter: then none are made."""

    def __init__(
        self,
        *,
        enabled: bool,
        rng: Random,
        now_ns: Callable[[], int],
        queue_max: int = QUEUE_MAX,
    ) -> None:
        """``now_ns`` is wall time; ``rng`` makes ids and must not be shared with decisions.

        ``write`` says what of a span is queued: what its exporter sends; without one, the span.
        """
        self.enabled = enabled
        self.now_ns = now_ns
        self.queue_max = queue_max
        self.finished = 0
        self.dropped = 0
        self.write: Callable[[Span], Any] = _as_it_is
        self._bits = rng.getrandbits
        self._queue: deque[Any] = deque()

    @property
    def queued(self) -> int:
        """How many spans wait for export."""
        return len(self._queue)

    def context(self, parent: TraceContext | None = None) -> TraceContext:
        """Return the context of a new span: in its parent's trace, or in one of its own."""
        bits = self._bits
        trace_id = (bits(128) or 1) if parent is None else parent.trace_id
        return TraceContext(trace_id, bits(64) or 1)

    def end(self, span: Span) -> None:
        """Write and queue a finished span, or drop and count it; never blocks."""
        if len(self._queue) >= self.queue_max:
            self.dropped += 1
            return
        if len(span.links) > LINKS_MAX:
            span.attributes[LINKS_DROPPED] = len(span.links) - LINKS_MAX
            span.links = span.links[:LINKS_MAX]
        self.finished += 1
        self._queue.append(self.write(span))

    def take(self, limit: int) -> list[Any]:
        """Take up to ``limit`` written spans out of the queue; safe on another thread."""
        taken: list[Any] = []
        while len(taken) < limit:
            try:
                taken.append(self._queue.popleft())
            except IndexError:
                break
        return taken
