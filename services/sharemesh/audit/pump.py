"""Carries lines from the trail to its sinks, on threads of its own (AUD-8)."""

import logging
import threading
from collections.abc import Sequence

from sharemesh.audit.files import AuditSink
from sharemesh.audit.outlets import FLUSH_TIMEOUT_S, Outlet, SlowOutlet
from sharemesh.audit.trail import AuditTrail

INTERVAL_S = 0.2
BATCH_BYTES = 1024 * 1024

_log = logging.getLogger(__name__)


class AuditPump:
    """One thread, and one for a collector; a sink that fails costs its own copy only."""

    def __init__(
        self, trail: AuditTrail, sinks: Sequence[AuditSink], collector: AuditSink | None = None
    ) -> None:
        """``collector`` may be slow: the others do not wait for it."""
        self._trail = trail
        self._outlets = [Outlet(each) for each in sinks]
        self._slow = None if collector is None else SlowOutlet(collector)
        self._dropped = 0
        self._overflowing = False
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="audit log", daemon=True)

    @property
    def failed(self) -> int:
        """Lines that a sink did not take, or had not taken when the time to close was over."""
        slow = 0 if self._slow is None else self._slow.failed
        return slow + sum(each.failed for each in self._outlets)

    def start(self) -> None:
        """Begin to write."""
        if self._slow is not None:
            self._slow.start()
        self._thread.start()

    def close(self) -> None:
        """Write what is queued, each thread for at most ``FLUSH_TIMEOUT_S``; blocks."""
        self._closing.set()
        self._thread.join(FLUSH_TIMEOUT_S)
        if self._thread.is_alive():
            left = self._trail.abandon() + sum(each.abandon() for each in self._outlets)
            _log.warning("audit lines are dropped: %d were not written in time", left)
        if self._slow is not None:
            self._slow.close(FLUSH_TIMEOUT_S)

    def _run(self) -> None:
        while not self._closing.wait(INTERVAL_S):
            self._drain(ending=False)
        self._drain(ending=True)
        for outlet in self._outlets:
            outlet.close()

    def _drain(self, *, ending: bool) -> None:
        while lines := self._trail.take(BATCH_BYTES, ending=ending):
            for outlet in self._outlets:
                outlet.write(lines)
            if self._slow is not None:
                self._slow.put(lines)
        overflows = self._trail.dropped > self._dropped
        if overflows and not self._overflowing:
            _log.warning("audit lines are dropped: they come faster than they can be written")
        self._overflowing, self._dropped = overflows, self._trail.dropped
