"""Carries lines from the trail to its sinks, on a thread of its own (AUD-8)."""

import logging
import threading
from collections.abc import Sequence

from sharemesh.audit.files import AuditSink
from sharemesh.audit.trail import AuditTrail, Line
from sharemesh.telemetry.span_export import ExportError

INTERVAL_S = 0.2
BATCH_BYTES = 1024 * 1024
FLUSH_TIMEOUT_S = 2.0
"""How long closing waits for the sinks."""

_log = logging.getLogger(__name__)


class AuditPump:
    """One thread; a sink that fails costs its own copy only."""

    def __init__(self, trail: AuditTrail, sinks: Sequence[AuditSink]) -> None:
        self.failed = 0
        self.written = 0
        self._trail = trail
        self._sinks = list(sinks)
        self._failing: set[int] = set()
        self._dropped = 0
        self._overflowing = False
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="audit log", daemon=True)

    def start(self) -> None:
        """Begin to write."""
        self._thread.start()

    def close(self) -> None:
        """Write what is queued, for at most ``FLUSH_TIMEOUT_S``; blocks, so not on the loop."""
        self._closing.set()
        self._thread.join(FLUSH_TIMEOUT_S)

    def _run(self) -> None:
        while not self._closing.wait(INTERVAL_S):
            self._drain(ending=False)
        self._drain(ending=True)
        for sink in self._sinks:
            sink.close()

    def _drain(self, *, ending: bool) -> None:
        while lines := self._trail.take(BATCH_BYTES, ending=ending):
            for number in range(len(self._sinks)):
                self._write(number, lines)
        overflows = self._trail.dropped > self._dropped
        if overflows and not self._overflowing:
            _log.warning("audit lines are dropped: they come faster than they can be written")
        self._overflowing, self._dropped = overflows, self._trail.dropped

    def _write(self, number: int, lines: Sequence[Line]) -> None:
        """Write to one sink; say once that it fails, until it does not."""
        why = "the collector does not take them all"
        try:
            lost = self._sinks[number].write(lines)
        except (OSError, ExportError) as error:
            lost, why = len(lines), str(error)
        except Exception:  # whatever a sink does, the process continues
            lost = len(lines)
            if number not in self._failing:
                _log.exception("audit lines could not be written")
        self.written += len(lines) - lost
        self.failed += lost
        if not lost:
            self._failing.discard(number)
        elif number not in self._failing:
            self._failing.add(number)
            _log.warning("audit lines are dropped: %s", why)
