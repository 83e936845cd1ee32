"""The queue between the loop, which notes events, and the thread that writes them (AUD-8)."""

import threading
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from sharemesh.audit.events import AuditEvent, Repeats, line
from sharemesh.audit.folding import Folding

QUEUE_BYTES_MAX = 8 * 1024 * 1024
"""Half of it is for changes alone: refusals and failures, which anybody can cause, drop none."""


class Line(NamedTuple):
    """One event as it is written; ``is_change`` chooses the file."""

    at_ms: int
    is_change: bool
    text: bytes


class AuditTrail:
    """Notes events without waiting for anything; what finds no room is dropped and counted."""

    def __init__(
        self,
        node: str,
        wall_ms: Callable[[], int],
        now_ms: Callable[[], int],
        *,
        queue_bytes_max: int = QUEUE_BYTES_MAX,
    ) -> None:
        """``now_ms`` never steps back; both may be asked on two threads."""
        self.dropped = 0
        self.noted = 0
        self._node = node
        self._wall_ms = wall_ms
        self._now_ms = now_ms
        self._bytes_max = queue_bytes_max
        self._bytes = 0
        self._bytes_of_others = 0
        self._queue: deque[Line] = deque()
        self._refusals = Folding()
        self._others = Folding()
        self._lock = threading.Lock()

    @property
    def folded(self) -> int:
        """Events that were counted in another one's line."""
        return self._refusals.folded + self._others.folded

    def note(self, event: AuditEvent) -> None:
        """Queue the line of an event, unless it is folded into one that was written."""
        with self._lock:
            at_ms = self._wall_ms()
            if event.is_change or self._folding(event).is_new(event, self._now_ms(), at_ms):
                self._put(event, at_ms)

    def take(self, bytes_max: int, *, ending: bool = False) -> list[Line]:
        """Take the oldest lines out of the queue; ``ending``: folded events have theirs now."""
        taken: list[Line] = []
        size = 0
        with self._lock:
            now_ms, at_ms = self._now_ms(), self._wall_ms()
            for folding in (self._refusals, self._others):
                for event, repeats in folding.ended(now_ms, at_once=ending):
                    self._put(event, at_ms, repeats)
            while self._queue and size < bytes_max:
                taken.append(self._queue.popleft())
                size += len(taken[-1].text)
                if not taken[-1].is_change:
                    self._bytes_of_others -= len(taken[-1].text)
            self._bytes -= size
        return taken

    def abandon(self) -> int:
        """Drop what is queued or folded: nobody will write it; return how many lines."""
        left = len(self.take(2 * self._bytes_max, ending=True))
        self.dropped += left
        return left

    def _folding(self, event: AuditEvent) -> Folding:
        return self._refusals if event.is_refusal else self._others

    def _put(self, event: AuditEvent, at_ms: int, repeats: Repeats | None = None) -> None:
        text = line(event, self._node, at_ms, repeats)
        of_others = 0 if event.is_change else len(text)
        if (
            self._bytes + len(text) > self._bytes_max
            or self._bytes_of_others + of_others > self._bytes_max // 2
        ):
            self.dropped += 1
            return
        self.noted += 1
        self._bytes += len(text)
        self._bytes_of_others += of_others
        self._queue.append(Line(at_ms, event.is_change, text))
