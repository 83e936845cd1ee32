"""Common parts of coordination back ends: sessions that end by the clock, checks of a commit.

A lease counts as valid until (time at which the last confirmed keep-alive was *sent*) + TTL -
margin, on the monotonic clock. The watchdog is a task of its own: it steps down even when the
keep-alive is stuck.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Sequence

from sharemesh.ports.clock import Clock
from sharemesh.ports.coordination import (
    GUARDS_MAX,
    OPERATIONS_MAX,
    Delete,
    Guard,
    Put,
    Session,
    SessionLostError,
)

MARGIN_MIN_MS = 1_000


def margin_ms(ttl_ms: int) -> int:
    """Return how long before the lease can end we stop: covers clock rates 20 % apart."""
    return max(MARGIN_MIN_MS, ttl_ms // 5)


class LeaseSession(ABC):
    """A granted lease that ``_keep_alive`` keeps; fills ``ports.coordination.Session``."""

    def __init__(
        self, clock: Clock, *, lease_id: int, ttl_ms: int, sent_ms: int, watchdog_step_ms: int
    ) -> None:
        """``sent_ms`` is when the grant was sent; the watchdog sleeps a step at most."""
        self._clock = clock
        self._lease_id = lease_id
        self._ttl_ms = ttl_ms
        self._watchdog_step_ms = watchdog_step_ms
        self._confirmed(sent_ms, ttl_ms)
        self._lost = asyncio.Event()
        self.why_lost = ""
        self._tasks = [
            asyncio.create_task(self._keep_alive(), name=f"keep-alive {lease_id:x}"),
            asyncio.create_task(self._watch_deadline(), name=f"session watchdog {lease_id:x}"),
        ]

    @property
    def lease_id(self) -> int:
        """The id that a parent may revoke."""
        return self._lease_id

    @property
    def valid(self) -> bool:
        """Whether work under this lease may continue now."""
        return not self._lost.is_set() and self._clock.now_ms() < self._valid_until_ms

    @property
    def trusted_ms(self) -> int:
        """For how long work may continue without another confirmed keep-alive; 0: no longer."""
        left_ms = self._valid_until_ms - self._clock.now_ms()
        return 0 if self._lost.is_set() else max(0, left_ms)

    async def lost(self) -> None:
        """Return when the lease is lost or can no longer be trusted."""
        await self._lost.wait()

    @abstractmethod
    async def close(self) -> None:
        """Stop and revoke."""

    @abstractmethod
    async def _keep_alive(self) -> None:
        """Keep the lease alive every ttl/3 until it is lost."""

    def mark_lost(self, why: str) -> None:
        """Believe no longer in the lease."""
        if not self._lost.is_set():
            self.why_lost = why
            self._lost.set()

    def _confirmed(self, sent_ms: int, ttl_ms: int) -> None:
        self._valid_until_ms = sent_ms + ttl_ms - margin_ms(ttl_ms)

    async def _watch_deadline(self) -> None:
        while not self._lost.is_set():
            left_ms = self._valid_until_ms - self._clock.now_ms()
            if left_ms <= 0:
                self.mark_lost("no keep-alive was confirmed in time")
                return
            await self._clock.sleep_ms(min(left_ms, self._watchdog_step_ms))


def needs_lease(
    guards: Sequence[Guard], operations: Sequence[Put | Delete], session: Session | None
) -> bool:
    """Check what is to be committed; return whether a write of it is tied to the session.

    Raises:
        ValueError: It is too large for one transaction.
        SessionLostError: A write is tied to a session that is not valid, or not given.
    """
    if len(operations) > OPERATIONS_MAX or len(guards) > GUARDS_MAX:
        raise ValueError(
            f"a transaction of {len(operations)} operations and {len(guards)} guards; "
            f"at most {OPERATIONS_MAX} and {GUARDS_MAX}: split it"
        )
    leased = any(isinstance(operation, Put) and operation.leased for operation in operations)
    if leased and (session is None or not session.valid):
        raise SessionLostError("a leased key needs a valid session; open a new one")
    return leased
