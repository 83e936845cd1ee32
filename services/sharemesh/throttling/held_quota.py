"""How many records a principal's members may hold, counted as locks begin and end (QUO-12)."""

from collections.abc import Callable
from itertools import islice

from sharemesh.domain.quota.counts import HeldRecords
from sharemesh.domain.quota.names import QuotaName
from sharemesh.domain.quota.rates import ACCOUNTS_MAX
from sharemesh.domain.quota.sentences import in_words
from sharemesh.ports.clock import Clock
from sharemesh.ports.quotas import Quotas
from sharemesh.timers import TimerHandle, Timers

_NEXT_MS = 1
"""Between two who are called: the first may take all the room that there is."""

_LOOKED_AT = 2
"""Principals that are looked at for each new one: forgetting costs no more than remembering."""


class HeldQuota:
    """Room for records in flight of each principal, and who waits for it."""

    def __init__(self, quotas: Quotas, clock: Clock, alarms: Timers) -> None:
        self._quotas = quotas
        self._clock = clock
        self._alarms = alarms
        self._limits: dict[str, float | None] = {}  # as told; forgotten when quotas change
        self._held: dict[str, HeldRecords] = {}
        self._waiting: dict[str, dict[Callable[[], None], None]] = {}
        self._due: dict[str, TimerHandle] = {}

    def limit(self, principal: str) -> float | None:
        """Return the quota; None: nothing binds this one."""
        try:
            return self._limits[principal]
        except KeyError:
            return self._asked(principal)

    def _asked(self, principal: str) -> float | None:
        if len(self._limits) >= ACCOUNTS_MAX:
            self._limits.clear()
        limit = self._quotas.limit(QuotaName.RECORDS_IN_FLIGHT, principal)
        self._limits[principal] = limit
        return limit

    def held(self, principal: str) -> int:
        """Return how many records this one holds, of those that count."""
        held = self._held.get(principal)
        return 0 if held is None else held.count

    def room(self, principal: str) -> int | None:
        """Return how many more may be acquired now; None: nothing binds this one."""
        limit = self.limit(principal)
        if limit is None:
            return None
        held = self._held.get(principal)
        room = int(limit) if held is None else int(limit) - held.count - held.reserved
        return room if room > 0 else 0

    def has_room(self, principal: str) -> bool:
        """Return whether this one may acquire something now."""
        return self.room(principal) != 0

    def begin(self, principal: str, count: int) -> HeldRecords:
        """Reserve room; locks count in what is returned, and ``end`` gives the room back."""
        held = self._of(principal)
        held.reserved += count
        return held

    def tally_of(self, principal: str) -> HeldRecords | None:
        """Return what counts locks that are there without room; they must begin at once."""
        return None if self.limit(principal) is None else self._of(principal)

    def end(self, held: HeldRecords, count: int) -> None:
        """What was reserved is held now, or not."""
        held.reserved -= count
        if held.is_awaited:
            held.tell()

    def when_room(self, principal: str, call: Callable[[], None]) -> None:
        """Call once, in turn, when there is room; the callee must ask again."""
        self._waiting.setdefault(principal, {})[call] = None
        self._of(principal).is_awaited = True

    def forget(self, principal: str, call: Callable[[], None]) -> None:
        """Call no more."""
        waiting = self._waiting.get(principal)
        if waiting is not None:
            waiting.pop(call, None)
            if not waiting:
                del self._waiting[principal]
                self._of(principal).is_awaited = False

    def changed(self) -> None:
        """Quotas have changed: look at all who wait."""
        self._limits.clear()
        for principal in tuple(self._waiting):
            self._freed(principal)

    def in_words(self, principal: str) -> str:
        """Return the quota that leaves no room; empty: there is some."""
        limit = self.limit(principal)
        if limit is None or self.has_room(principal):
            return ""
        return in_words(QuotaName.RECORDS_IN_FLIGHT, principal, limit)

    def _of(self, principal: str) -> HeldRecords:
        """Return what is counted of a principal; for a new one some that are idle are forgotten."""
        held = self._held.get(principal)
        if held is None:
            for name in list(islice(self._held, _LOOKED_AT)):
                other = self._held.pop(name)
                if not other.is_idle:
                    self._held[name] = other  # looked at again after all others
            held = self._held[principal] = HeldRecords(principal, self._freed)
        return held

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
