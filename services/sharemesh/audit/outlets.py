"""Sinks as the pump sees them: what they lost, and one that others must not wait for (AUD-8)."""

import logging
import threading
from collections import deque
from collections.abc import Sequence

from sharemesh.audit.files import AuditSink
from sharemesh.audit.trail import QUEUE_BYTES_MAX, Line
from sharemesh.telemetry.span_export import ExportError

BATCH_LINES = 500
FLUSH_TIMEOUT_S = 2.0
"""How long closing waits for the sinks of one thread."""

_log = logging.getLogger(__name__)


class Outlet:
    """One sink; that it fails is said once, until it does not."""

    def __init__(self, sink: AuditSink) -> None:
        self._sink = sink
        self._lost = 0
        self._writing = 0
        self._abandoned = False
        self._failing = False

    @property
    def failed(self) -> int:
        """Lines that were not taken; those of a write that was abandoned, until it ends."""
        return self._lost + (self._writing if self._abandoned else 0)

    def write(self, lines: Sequence[Line]) -> None:
        """Write, and count what is lost."""
        why = "the collector does not take them all"
        self._writing = len(lines)
        try:
            lost = self._sink.write(lines)
        except (OSError, ExportError) as error:
            lost, why = len(lines), str(error)
        except Exception:  # whatever a sink does, the process continues
            lost = len(lines)
            if not self._failing:
                _log.exception("audit lines could not be written")
        self._lost += lost
        self._writing = 0
        if lost and not self._failing:
            _log.warning("audit lines are dropped: %s", why)
        self._failing = bool(lost)

    def abandon(self) -> int:
        """Wait for it no longer; return how many lines it may not take."""
        self._abandoned = True
        return self._writing

    def close(self) -> None:
        """Close the sink."""
        self._sink.close()


class SlowOutlet:
    """A sink with a thread and a bounded queue of its own; what finds no room is dropped."""

    def __init__(self, sink: AuditSink, *, queue_bytes_max: int = QUEUE_BYTES_MAX) -> None:
        self._outlet = Outlet(sink)
        self._bytes_max = queue_bytes_max
        self._queue: deque[Line] = deque()
        self._bytes = 0
        self._dropped = 0
        self._overflowing = False
        self._closing = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="audit collector", daemon=True)

    @property
    def failed(self) -> int:
        """Lines that were dropped here, or that the sink did not take."""
        return self._dropped + self._outlet.failed

    def start(self) -> None:
        """Begin to write."""
        self._thread.start()

    def put(self, lines: Sequence[Line]) -> None:
        """Queue lines, without waiting for the sink."""
        with self._changed:
            before = self._dropped
            for each in lines:
                if self._bytes + len(each.text) > self._bytes_max:
                    self._dropped += 1
                    continue
                self._queue.append(each)
                self._bytes += len(each.text)
            overflows = self._dropped > before
            if overflows and not self._overflowing:
                _log.warning("audit lines are dropped: they come faster than the collector takes")
            self._overflowing = overflows
            self._changed.notify()

    def close(self, timeout_s: float) -> None:
        """Write what is queued, within the time; what is left is counted as dropped."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._thread.join(timeout_s)
        if not self._thread.is_alive():
            return
        with self._changed:
            left = len(self._queue)
            self._queue.clear()
            self._dropped += left
        left += self._outlet.abandon()
        _log.warning("audit lines are dropped: the collector did not take %d in time", left)

    def _run(self) -> None:
        while lines := self._next():
            self._outlet.write(lines)
        self._outlet.close()

    def _next(self) -> list[Line]:
        """Wait for lines and take some; none once all are taken and there will be no more."""
        with self._changed:
            self._changed.wait_for(lambda: self._queue or self._closing)
            taken = [self._queue.popleft() for _ in range(min(BATCH_LINES, len(self._queue)))]
            self._bytes -= sum(len(each.text) for each in taken)
            return taken
