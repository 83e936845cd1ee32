"""Spans on their way out, on a thread of their own: a slow collector never stops the loop."""

import json
import logging
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from sharemesh.telemetry.otel_environment import BATCH_MAX, SPANS_INTERVAL_MS
from sharemesh.telemetry.spans import Span, Spans

FLUSH_TIMEOUT_S = 2.0
"""How long closing waits for the exporter."""

_log = logging.getLogger(__name__)


class ExportError(Exception):
    """A collector refused spans; the message says why."""


class SpanExporter(Protocol):
    """Writes spans as they end, and takes batches of what it wrote."""

    def write(self, span: Span) -> bytes:
        """Return a finished span as it will be sent; called on the loop, so never blocks."""
        ...

    def export(self, spans: Sequence[bytes]) -> int:
        """Return how many of the batch were taken; what was not is dropped and counted.

        Called on one thread, may block.

        Raises:
            ExportError: None was taken.
        """
        ...

    def close(self) -> None:
        """Free what is held."""
        ...


class SpanFile:
    """Writes one JSON object a line: for tests, and for use without a collector."""

    def __init__(self, path: Path, resource: Mapping[str, str]) -> None:
        self._resource = dict(resource)
        self._file = path.open("ab")

    def write(self, span: Span) -> bytes:
        """Return the line."""
        return json.dumps(self._line(span)).encode() + b"\n"

    def export(self, spans: Sequence[bytes]) -> int:
        """Append and flush the batch."""
        self._file.writelines(spans)
        self._file.flush()
        return len(spans)

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _line(self, span: Span) -> dict[str, object]:
        return {
            "name": span.name,
            "kind": span.kind.name,
            "trace_id": f"{span.context.trace_id:032x}",
            "span_id": f"{span.context.span_id:016x}",
            "parent_span_id": f"{span.parent.span_id:016x}" if span.parent else "",
            "start_ns": span.start_ns,
            "end_ns": span.end_ns,
            "error": span.error,
            "attributes": {**span.shared, **span.attributes},
            "links": [
                {"trace_id": f"{link.trace_id:032x}", "span_id": f"{link.span_id:016x}"}
                for link in span.links
            ],
            "resource": self._resource,
        }


class SpanPump:
    """Carries spans from the queue to an exporter, batch by batch, until closed."""

    def __init__(
        self,
        spans: Spans,
        exporter: SpanExporter,
        *,
        batch_max: int = BATCH_MAX,
        interval_ms: int = SPANS_INTERVAL_MS,
    ) -> None:
        """Every ``interval_ms`` the whole queue is exported, ``batch_max`` spans at a time."""
        self.exported = 0
        self.failed = 0
        self._spans = spans
        spans.write = exporter.write
        self._exporter = exporter
        self._batch_max = batch_max
        self._interval_s = interval_ms / 1_000
        self._closing = threading.Event()
        self._failing = False
        self._thread = threading.Thread(target=self._run, name="span export", daemon=True)

    def start(self) -> None:
        """Begin to export."""
        self._thread.start()

    def close(self) -> None:
        """Export what is queued, for at most ``FLUSH_TIMEOUT_S``; blocks, so not on the loop."""
        self._closing.set()
        self._thread.join(FLUSH_TIMEOUT_S)

    def _run(self) -> None:
        while not self._closing.wait(self._interval_s):
            self._drain()
        self._drain()
        self._exporter.close()

    def _drain(self) -> None:
        while batch := self._spans.take(self._batch_max):
            why = "the collector does not take them all"
            try:
                taken = self._exporter.export(batch)
            except ExportError as error:
                taken, why = 0, str(error)
            except Exception:  # whatever a collector does, the process continues
                taken = 0
                if not self._failing:
                    _log.exception("spans could not be exported")
            lost = len(batch) - taken
            self.exported += taken
            self.failed += lost
            if lost and not self._failing:
                _log.warning("spans are dropped: %s", why)
            self._failing = lost > 0
