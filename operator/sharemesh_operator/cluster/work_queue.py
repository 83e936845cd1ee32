"""Rounds by key, each at most once at a time; each leaves a span and a measurement."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from sharemesh.backoff import backoff_ms
from sharemesh.ports.clock import Clock
from sharemesh.tasks import wait_until_set
from sharemesh.telemetry import names
from sharemesh.telemetry.spans import Span
from sharemesh.telemetry.telemetry import Telemetry

WORKERS = 4
KEYS_MAX = 10_000
BACKOFF_FIRST_MS = 1_000
BACKOFF_MAX_MS = 60_000
GAP_MS = 250
"""Shortest time between two rounds of one key, so that a storm of events costs one round."""
DONE = "done"
FAILED = "failed"
CANCELLED = "cancelled"

_log = logging.getLogger(__name__)


class Key(NamedTuple):
    """One object."""

    kind: str
    name: str


Work = Callable[[Key], Awaitable[int | None]]


class WorkQueue:
    """Runs ``work(key)`` for keys that were added; it returns after how many ms to come again.

    A failure is logged and tried again, later each time.
    """

    def __init__(self, work: Work, clock: Clock) -> None:
        self._work = work
        self._clock = clock
        self._due: dict[Key, int] = {}
        self._busy: set[Key] = set()
        self._failures: dict[Key, int] = {}
        self._last_ms: dict[Key, int] = {}
        self._wake = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self.rounds = 0
        self.failures = 0

    def start(self) -> None:
        """Begin to work."""
        self._tasks = [
            asyncio.create_task(self._run(), name=f"reconciler {number}")
            for number in range(WORKERS)
        ]

    async def close(self) -> None:
        """Stop; running work is cancelled."""
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def add(self, key: Key, after_ms: int = 0) -> None:
        """Ask for a round of a key; an earlier request for the same key stays."""
        if key not in self._due and len(self._due) >= KEYS_MAX:
            _log.error("%d objects wait; %s is left for the next sweep", KEYS_MAX, key)
            return
        earliest = self._last_ms.get(key, -GAP_MS) + GAP_MS
        due_ms = max(self._clock.now_ms() + after_ms, earliest)
        if key not in self._due or due_ms < self._due[key]:
            self._due[key] = due_ms
            self._wake.set()

    def drop(self, key: Key) -> None:
        """Forget a key: its object is gone."""
        for table in (self._due, self._failures, self._last_ms):
            table.pop(key, None)

    async def _run(self) -> None:
        while True:
            key = self._next()
            if key is None:
                await self._until_due()
                continue
            del self._due[key]
            self._busy.add(key)
            try:
                await self._round(key)
            finally:
                self._busy.discard(key)
                self._wake.set()

    async def _round(self, key: Key) -> None:
        self.rounds += 1
        self._last_ms[key] = self._clock.now_ms()
        try:
            again_ms = await self._work(key)
        except Exception as error:
            self.failures += 1
            count = self._failures[key] = self._failures.get(key, 0) + 1
            again_ms = backoff_ms(count - 1, BACKOFF_FIRST_MS, BACKOFF_MAX_MS)
            _log.warning(
                "%s %s: round failed, again in %d ms: %s: %s",
                key.kind,
                key.name,
                again_ms,
                type(error).__name__,
                error,
                exc_info=_log.isEnabledFor(logging.DEBUG) or count == 1,
            )
        else:
            self._failures.pop(key, None)
        if again_ms is not None:
            self.add(key, again_ms)

    def _next(self) -> Key | None:
        now_ms = self._clock.now_ms()
        ready = [key for key, due in self._due.items() if due <= now_ms and key not in self._busy]
        return min(ready, key=lambda key: self._due[key], default=None)

    async def _until_due(self) -> None:
        self._wake.clear()
        waits = [due for key, due in self._due.items() if key not in self._busy]
        left_ms = max(min(waits) - self._clock.now_ms(), 1) if waits else None
        await wait_until_set(self._wake, left_ms)


def told(
    work: Work, telemetry: Telemetry, namespace: str, generation_of: Callable[[Key], int]
) -> Work:
    """Return ``work`` with a span and a measurement of each round, whatever becomes of it.

    ``generation_of`` is the generation of an object that was seen last, 0 if none was.
    """
    spans, registry = telemetry.spans, telemetry.registry

    async def one_round(key: Key) -> int | None:
        began_ns = spans.now_ns()
        outcome, error = CANCELLED, ""
        try:
            again_ms = await work(key)
            outcome = DONE
        except Exception as failure:
            outcome, error = FAILED, type(failure).__name__
            raise
        finally:
            ended_ns = spans.now_ns()
            took = registry.histogram(names.RECONCILE_DURATION, key.kind, outcome)
            took.record((ended_ns - began_ns) / 1e9)
            if spans.enabled:
                attributes = {
                    names.K8S_NAMESPACE: namespace,
                    names.OBJECT_KIND: key.kind,
                    names.OBJECT_NAME: key.name,
                    names.OBJECT_GENERATION: generation_of(key),
                    names.RECONCILE_OUTCOME: outcome,
                }
                name = f"{names.RECONCILE} {key.kind}"
                times = (began_ns, ended_ns)
                spans.end(Span(name, spans.context(), None, *times, attributes, error=error))
        return again_ms

    return one_round
