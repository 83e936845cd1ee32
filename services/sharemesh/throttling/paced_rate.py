"""One quota that is a rate: its accounts, and who waits for which of them (spec QUO-5)."""

import asyncio
from collections.abc import Callable

from sharemesh.domain.quota.names import QuotaName
from sharemesh.domain.quota.rates import ACCOUNTS_MAX, RateAccount, RateAccounts
from sharemesh.domain.quota.sentences import in_words
from sharemesh.ports.clock import Clock
from sharemesh.ports.quotas import Quotas
from sharemesh.timers import TimerHandle, Timers

THROTTLE_MAX_MS = 30_000
"""The longest throttle time that is told at once; then the rest of it is."""

_NEXT_MS = 1
"""Between two who are called: the first may take all that there is."""


class PacedRate:
    """Lets principals, or groups, take as fast as their quota says, those who wait in turn."""

    def __init__(self, name: QuotaName, quotas: Quotas, clock: Clock, alarms: Timers) -> None:
        self.name = name
        self._quotas = quotas
        self._clock = clock
        self._alarms = alarms
        self._accounts = RateAccounts(forgotten=lambda entity: self._known.pop(entity, None))
        # As told and as found; forgotten when quotas change.
        self._limits: dict[str, float | None] = {}
        self._known: dict[str, RateAccount | None] = {}
        self._waiting: dict[str, dict[Callable[[], None], None]] = {}
        self._due: dict[str, TimerHandle] = {}

    def limit(self, entity: str) -> float | None:
        """Return the quota; None: nothing binds this one."""
        try:
            return self._limits[entity]
        except KeyError:
            return self._asked(entity)

    def _asked(self, entity: str) -> float | None:
        if len(self._limits) >= ACCOUNTS_MAX:
            self._limits.clear()
        limit = self._limits[entity] = self._quotas.limit(self.name, entity)
        return limit

    def account(self, entity: str) -> RateAccount | None:
        """Return the account of a principal or group; None: nothing binds it."""
        try:
            return self._known[entity]
        except KeyError:
            return self._found(entity)

    def _found(self, entity: str) -> RateAccount | None:
        limit, account = self.limit(entity), None
        if limit is not None:
            account = self._accounts.of(entity, limit, self._clock.now_ms())
            if entity not in self._accounts:
                return account  # others have it too, until there is room for one of its own
        if len(self._known) >= ACCOUNTS_MAX:
            self._known.clear()
        self._known[entity] = account
        return account

    def is_free(self, entity: str) -> bool:
        """Return whether this one may take now, and nobody waits for that."""
        return entity not in self._waiting and self.is_open(entity)

    def is_open(self, entity: str) -> bool:
        """Return whether this one may take now."""
        account = self.account(entity)
        return account is None or account.is_open(self._clock.now_ms())

    def throttle_ms(self, entity: str) -> int:
        """Return the throttle time to tell this one; 0: none."""
        account = self.account(entity)
        if account is None:
            return 0
        debt_ms = account.debt_ms(self._clock.now_ms())
        return debt_ms if debt_ms < THROTTLE_MAX_MS else THROTTLE_MAX_MS

    def in_words(self, entity: str) -> str:
        """Return the quota for whose debt this one waits; empty: none."""
        limit = self.limit(entity)
        return in_words(self.name, entity, limit) if limit and self.throttle_ms(entity) else ""

    def taken(self, entity: str, account: RateAccount, reserved: int, amount: float) -> bool:
        """Take what came of a reservation, and return whether it made a debt.

        The next who waits may go on.
        """
        owes = account.end(reserved, amount, self._clock.now_ms())
        if self._waiting and entity in self._waiting:
            self._plan(entity)
        return owes

    def when_open(self, entity: str, call: Callable[[], None]) -> None:
        """Call once, in turn, when this one may take; the callee must ask again."""
        self._waiting.setdefault(entity, {})[call] = None
        if entity not in self._due:
            self._plan(entity)

    def forget(self, entity: str, call: Callable[[], None]) -> None:
        """Call no more."""
        waiting = self._waiting.get(entity)
        if waiting is None:
            return
        waiting.pop(call, None)
        if not waiting:
            self._end(entity)

    def changed(self) -> None:
        """Quotas have changed: debts are paid by the new ones, and those who wait plan anew."""
        self._limits.clear()
        self._known.clear()
        self._accounts.change(self.limit, self._clock.now_ms())
        for entity in tuple(self._waiting):
            self._plan(entity)

    async def turn(self, entity: str, deadline_ms: int) -> bool:
        """Return whether this one may take now, after those who wait already; False: too late."""
        if self.is_free(entity):
            return True
        while self._clock.now_ms() < deadline_ms:
            called: asyncio.Future[None] = asyncio.get_running_loop().create_future()

            def call(called: asyncio.Future[None] = called) -> None:
                if not called.done():
                    called.set_result(None)

            self.when_open(entity, call)
            alarm = self._alarms.at(deadline_ms, call)
            try:
                await called
            finally:
                alarm.cancel()
                self.forget(entity, call)
            if self.is_open(entity):
                return True
        return False

    def _plan(self, entity: str, after_ms: int = 0) -> None:
        """Set the alarm for when the first of those who wait may go on."""
        before = self._due.pop(entity, None)
        if before is not None:
            before.cancel()
        account, now_ms = self.account(entity), self._clock.now_ms()
        if account is not None:
            after_ms = max(after_ms, account.debt_ms(now_ms))
            if not account.is_open(now_ms):  # if all is reserved, the end of one plans again
                after_ms = max(after_ms, _NEXT_MS)
        self._due[entity] = self._alarms.at(now_ms + after_ms, lambda: self._call(entity))

    def _call(self, entity: str) -> None:
        self._due.pop(entity, None)
        if self.is_open(entity):
            waiting = self._waiting[entity]
            call = next(iter(waiting))
            del waiting[call]
            try:
                call()
            finally:  # one that raises stops nobody behind it
                if waiting:
                    self._plan(entity, _NEXT_MS)
                else:
                    self._end(entity)
            return
        self._plan(entity, _NEXT_MS)

    def _end(self, entity: str) -> None:
        if not self._waiting.get(entity):
            self._waiting.pop(entity, None)
            due = self._due.pop(entity, None)
            if due is not None:
                due.cancel()
