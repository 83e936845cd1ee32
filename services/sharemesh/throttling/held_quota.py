"""How many records a principal's members may hold, counted as locks begin and end (QUO-12)."""

from collections.abc import Callable

from sharemesh.domain.quota.counts import HeldRecords, OpenCounts
from sharemesh.domain.quota.names import QuotaName
from sharemesh.domain.quota.sentences import in_words
from sharemesh.ports.clock import Clock
from sharemesh.ports.quotas import Quotas
from sharemesh.timers import TimerHandle, Timers

_NEXT_MS = 1
"""Between two who are called: the first may take all the room that there is."""


class HeldQuota:
    """Room for records in flight of each principal, and who waits for it."""

    def __init__(self, quotas: Quotas, clock: Clock, alarms: Timers) -> None:
        self._quotas = quotas
        self._clock = clock
        self._alarms = alarms
        self._held = OpenCounts()
        self._reserved = OpenCounts()
        self._waiting: dict[str, dict[Callable[[], None], None]] = {}
        self._due: dict[str, TimerHandle] = {}

    def room(self, principal: str) -> int | None:
        """Return how many more may be acquired now; None: nothing binds this one."""
        limit = self._quotas.limit(QuotaName.RECORDS_IN_FLIGHT, principal)
        if limit is None:
            return None
        return max(0, int(limit) - self._held.of(principal) - self._reserved.of(principal))

    def has_room(self, principal: str) -> bool:
        """Return whether this one may acquire something now."""
        room = self.room(principal)
        return room is None or room > 0

    def begin(self, principal: str, count: int) -> HeldRecords:
        """Reserve room; locks count in what is returned, and ``end`` gives the room back."""
        self._reserved.add(principal, count)
        return HeldRecords(self._held, principal, self._freed)

    def end(self, principal: str, count: int) -> None:
        """What was reserved is held now, or not."""
        self._reserved.add(principal, -count)
        self._freed(principal)

    def when_room(self, principal: str, call: Callable[[], None]) -> None:
        """Call once, in turn, when there is room; the callee must ask again."""
        self._waiting.setdefault(principal, {})[call] = None

    def forget(self, principal: str, call: Callable[[], None]) -> None:
        """Call no more."""
        waiting = self._waiting.get(principal)
        if waiting is not None:
            waiting.pop(call, None)
            if not waiting:
                del self._waiting[principal]

    def changed(self) -> None:
        """Quotas have changed: look at all who wait."""
        for principal in tuple(self._waiting):
            self._freed(principal)

    def in_words(self, principal: str) -> str:
        """Return the quota that leaves no room; empty: there is some."""
        limit = self._quotas.limit(QuotaName.RECORDS_IN_FLIGHT, principal)
        if limit is None or self.has_room(principal):
            return ""
        return in_words(QuotaName.RECORDS_IN_FLIGHT, principal, limit)

    def _freed(self, principal: str) -> None:
        if principal in self._waiting and principal not in self._due:
            self._plan(principal, 0)

    def _plan(self, principal: str, after_ms: int) -> None:
        at_ms = self._clock.now_ms() + after_ms
        self._due[principal] = self._alarms.at(at_ms, lambda: self._call(principal))

    def _call(self, principal: str) -> None:
        self._due.pop(principal, None)
        waiting = self._waiting.get(principal)
        if not waiting or not self.has_room(principal):
            return
        call = next(iter(waiting))
        self.forget(principal, call)
        try:
            call()
        finally:  # one that raises stops nobody behind it
            if principal in self._waiting:
                self._plan(principal, _NEXT_MS)
