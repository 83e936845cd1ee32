"""Spans, finished and written on the spot, queued within a bound; a full queue drops and counts."""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, field
from enum import IntEnum
from random import Random
from typing import Any, NamedTuple

from sharemesh.telemetry.names import LINKS_DROPPED
from sharemesh.telemetry.trace_context import LINKS_MAX, TraceContext

QUEUE_MAX = 16_384
"""Spans that wait for export; about 8 MB when they are full."""

Attributes = dict[str, Any]


class SpanKind(IntEnum):
    """OpenTelemetry's kinds, with its numbers."""

    INTERNAL = 0
    SERVER = 1
    CLIENT = 2
    PRODUCER = 3
    CONSUMER = 4


@dataclass(slots=True, eq=False)
class Span:
    """One piece of work that has ended; times are nanoseconds since 1970.

    ``shared`` are attributes that many spans have, in one dict that is never changed.
    """

    name: str
    context: TraceContext
    parent: TraceContext | None
    start_ns: int
    end_ns: int
    attributes: Attributes
    _: KW_ONLY
    kind: SpanKind = SpanKind.INTERNAL
    links: Sequence[TraceContext] = ()
    error: str = ""
    shared: Attributes = field(default_factory=dict)


class Sampler(NamedTuple):
    """Which traces are recorded, by OpenTelemetry's rules: all members of a trace agree on it.

    Attributes:
        ratio: Of the traces that begin here, this part is recorded, chosen by the trace's id.
        parent_based: Whether a span that has a parent is recorded if, and only if, that one is.
    """

    ratio: float = 1.0
    parent_based: bool = True

    def samples(self, trace_id: int, parent: TraceContext | None) -> bool:
        """Return whether a new span of this trace is recorded."""
        if parent is not None and self.parent_based:
            return parent.sampled
        return trace_id & _LOW_BITS < round(self.ratio * (_LOW_BITS + 1))


_LOW_BITS = (1 << 64) - 1

PARENT_BASED = Sampler()
"""OpenTelemetry's default: a trace that begins here is recorded, others as their caller says."""


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
        sampler: Sampler = PARENT_BASED,
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
        self._samples = sampler.samples
        self._queue: deque[Any] = deque()

    @property
    def queued(self) -> int:
        """How many spans wait for export."""
        return len(self._queue)

    def context(self, parent: TraceContext | None = None) -> TraceContext:
        """Return the context of a new span: in its parent's trace, or in one of its own."""
        bits = self._bits
        trace_id = (bits(128) or 1) if parent is None else parent.trace_id
        return TraceContext(trace_id, bits(64) or 1, self._samples(trace_id, parent))

    def end(self, span: Span) -> None:
        """Write and queue a finished span, or drop and count it; never blocks.

        A span of a trace that is not sampled is only a context: nothing is queued or counted.
        """
        if not span.context.sampled:
            return
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
