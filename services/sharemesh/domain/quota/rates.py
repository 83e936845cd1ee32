"""Rates over time: who has taken how much, and when the next may take (spec QUO-5)."""

from collections.abc import Callable
from math import ceil

BURST_MS = 1_000
"""What one who was idle may take at once: as much as comes in so long."""

LOT_MS = 250
"""What one who takes as much as there is takes at a time: as much as comes in so long."""

ACCOUNTS_MAX = 10_000
"""Principals, or groups, that are told apart for one quota at the same time."""

_DEBT_MAX_MS = 24 * 3_600_000
_LOOKED_AT = 2
"""Accounts that are looked at for each new one: forgetting costs no more than remembering."""


class RateAccount:
    """So many units a second; what was taken beyond them is a debt, which time pays.

    Who begins to take reserves what it may get at most, so that those who take at the same time
    do not all take the same units; when it ends, what it really got is taken.

    Attributes:
        rate: Units a second.
        burst: The most that can be taken at once without a debt.
        lot: The most to take at a time, at least 1.
    """

    __slots__ = ("_at_ms", "_reserved", "_tokens", "burst", "lot", "rate")

    def __init__(self, rate: float, now_ms: int) -> None:
        self._set(rate)
        self._tokens = self.burst
        self._reserved = 0
        self._at_ms = now_ms

    def _set(self, rate: float) -> None:
        self.rate = rate
        self.burst = rate * BURST_MS / 1_000
        self.lot = max(1, int(rate * LOT_MS / 1_000))

    def change(self, rate: float, now_ms: int) -> None:
        """Set another rate from now on; a debt stays, and is paid by the new rate."""
        self._pay(now_ms)
        self._set(rate)
        self._tokens = min(self._tokens, self.burst)

    def is_open(self, now_ms: int) -> bool:
        """Return whether somebody may take now: no debt, also if all that is reserved is taken."""
        if self._tokens >= self._reserved:
            return True  # time only adds to it
        self._pay(now_ms)
        return self._tokens >= self._reserved

    def is_full(self, now_ms: int) -> bool:
        """Return whether nothing would be lost if the account were forgotten."""
        self._pay(now_ms)
        return not self._reserved and self._tokens >= self.burst

    def begin(self, amount: int) -> None:
        """Reserve what may be taken."""
        self._reserved += amount

    def end(self, reserved: int, taken: float, now_ms: int) -> bool:
        """Take what came of a reservation; it may be more, as batches are never cut.

        Return whether there is a debt now.
        """
        self._pay(now_ms)
        self._reserved -= reserved
        self._tokens -= taken
        return self._tokens < 0

    def debt_ms(self, now_ms: int) -> int:
        """Return how long it takes to pay the debt (Kafka's throttle time); 0 without one."""
        if self._tokens >= 0:
            return 0
        self._pay(now_ms)
        if self._tokens >= 0:
            return 0
        owed = -self._tokens * 1_000
        if owed >= self.rate * _DEBT_MAX_MS:  # asked first: a tiny rate divides to infinity
            return _DEBT_MAX_MS
        return ceil(owed / self.rate)

    def _pay(self, now_ms: int) -> None:
        passed_ms = now_ms - self._at_ms
        if passed_ms > 0:
            self._at_ms = now_ms
            tokens = self._tokens + self.rate * passed_ms / 1_000
            self._tokens = tokens if tokens < self.burst else self.burst


class RateAccounts:
    """The accounts of one quota by name, oldest use first, at most ``ACCOUNTS_MAX``.

    Only full ones are forgotten, so nobody gets a burst or loses a debt by that. While no account
    can be forgotten, all who come later share one.
    """

    def __init__(
        self,
        accounts_max: int = ACCOUNTS_MAX,
        forgotten: Callable[[str], object] = lambda _: None,
    ) -> None:
        """``forgotten`` is called with the name of each account that is of no more use."""
        self._accounts_max = accounts_max
        self._forgotten = forgotten
        self._accounts: dict[str, RateAccount] = {}
        self._of_others: RateAccount | None = None

    def __len__(self) -> int:
        return len(self._accounts)

    def __contains__(self, name: str) -> bool:
        """Whether this one has an account of its own."""
        return name in self._accounts

    def of(self, name: str, rate: float, now_ms: int) -> RateAccount:
        """Return the account of a principal or group, at the rate that binds it now."""
        account = self._accounts.get(name)
        if account is None:
            self._forget_full(now_ms)
            if len(self._accounts) >= self._accounts_max:
                return self._shared(rate, now_ms)
            account = self._accounts[name] = RateAccount(rate, now_ms)
        elif account.rate != rate:
            account.change(rate, now_ms)
        return account

    def change(self, rate_of: Callable[[str], float | None], now_ms: int) -> None:
        """Let each account go on by the rate that binds it from now on; None: nothing does."""
        for name, account in self._accounts.items():
            rate = rate_of(name)
            if rate is not None and rate != account.rate:
                account.change(rate, now_ms)

    def _shared(self, rate: float, now_ms: int) -> RateAccount:
        if self._of_others is None:
            self._of_others = RateAccount(rate, now_ms)
        elif self._of_others.rate != rate:
            self._of_others.change(rate, now_ms)
        return self._of_others

    def _forget_full(self, now_ms: int) -> None:
        for name in [name for name, _ in zip(self._accounts, range(_LOOKED_AT), strict=False)]:
            account = self._accounts.pop(name)
            if account.is_full(now_ms):
                self._forgotten(name)
            else:
                self._accounts[name] = account  # looked at again after all others
