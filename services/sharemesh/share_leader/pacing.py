"""The rates of a leader: who may produce, and who may get records, when (spec QUO-6, QUO-9)."""

from collections.abc import Callable
from dataclasses import dataclass

from sharemesh.domain.quota.counts import HeldRecords, OpenCounts
from sharemesh.domain.quota.names import QuotaName
from sharemesh.domain.quota.rates import RateAccount
from sharemesh.ports.clock import Clock
from sharemesh.ports.quotas import Quotas
from sharemesh.share_leader.settings import LeaderSettings
from sharemesh.throttling.held_quota import HeldQuota
from sharemesh.throttling.paced_rate import PacedRate
from sharemesh.throttling.quota_signals import QuotaSignals
from sharemesh.timers import Timers

_ROOM_CHECK_MS = 50
"""A fetch that waits for room among the records in flight looks again so often."""


@dataclass(frozen=True, slots=True)
class Throttled:
    """Why a request is refused now, and when to send it again."""

    throttle_ms: int
    message: str


@dataclass(slots=True)
class Allowance:
    """What may be acquired at once; ``max_records`` 0: nothing now. It must be settled."""

    max_bytes: int
    max_records: int
    of_principal: RateAccount | None = None
    of_group: RateAccount | None = None
    tally: HeldRecords | None = None


class LeaderPacing:
    """Bytes that principals produce and get, and records that groups get, as quotas allow."""

    def __init__(
        self,
        quotas: Quotas,
        clock: Clock,
        alarms: Timers,
        signals: QuotaSignals,
        settings: LeaderSettings,
    ) -> None:
        self._clock = clock
        self._settings = settings
        self._signals = signals
        self._producing = PacedRate(QuotaName.PRODUCER_BYTE_RATE, quotas, clock, alarms)
        self._consuming = PacedRate(QuotaName.CONSUMER_BYTE_RATE, quotas, clock, alarms)
        self._delivering = PacedRate(QuotaName.RECORD_RATE, quotas, clock, alarms)
        self._in_flight = HeldQuota(quotas, clock, alarms)
        self._held = OpenCounts()
        self._held_bytes = 0
        self.close = quotas.on_change(self._changed)

    def _changed(self) -> None:
        for rate in (self._producing, self._consuming, self._delivering):
            rate.changed()
        self._in_flight.changed()

    # ---- producing ------------------------------------------------------------------------------

    def binds_producer(self, principal: str) -> bool:
        """Return whether ``admit`` has anything to say."""
        return self._producing.limit(principal) is not None

    async def admit(self, principal: str, size: int) -> Throttled | None:
        """Take so many bytes; who comes before the debt is paid waits a little, or is refused."""
        rate = self._producing
        if not rate.is_free(principal) and not await self._paid_soon(principal, size):
            limit = rate.limit(principal)
            if limit is not None:
                words = self._signals.refused(rate.name, principal, limit)
                return Throttled(max(1, rate.throttle_ms(principal)), words)
        account = rate.account(principal)
        if account is not None:
            rate.taken(principal, account, 0, size)
        return None

    async def _paid_soon(self, principal: str, size: int) -> bool:
        settings = self._settings
        of_principal = self._held.of(principal)
        if (
            self._held_bytes + size > settings.max_held_produce_bytes
            or of_principal + size > settings.max_held_produce_bytes // 4
        ):
            return False
        self._held.add(principal, size)
        self._held_bytes += size
        try:
            deadline_ms = self._clock.now_ms() + settings.max_throttle_hold_ms
            return await self._producing.turn(principal, deadline_ms)
        finally:
            self._held.add(principal, -size)
            self._held_bytes -= size

    def produced(self, principal: str) -> int:
        """Return the throttle time to tell one whose records were taken."""
        return self._throttle(self._producing, principal)

    # ---- consuming ------------------------------------------------------------------------------

    def begin(
        self, principal: str, group_id: str, max_bytes: int, max_records: int
    ) -> Allowance | None:
        """Reserve what one fetch may get at most; None: nothing binds it. ``settle`` ends it."""
        of_principal = self._consuming.account(principal)
        of_group = self._delivering.account(group_id)
        room = self._in_flight.room(principal)
        if of_principal is None and of_group is None and room is None:
            return None
        now_ms = self._clock.now_ms()
        if (
            room == 0
            or (of_principal is not None and not of_principal.is_open(now_ms))
            or (of_group is not None and not of_group.is_open(now_ms))
        ):
            return Allowance(0, 0)
        allowance = Allowance(max_bytes, max_records, of_principal, of_group)
        if room is not None:
            allowance.max_records = min(max_records, room)
        if of_principal is not None:
            allowance.max_bytes = min(max_bytes, of_principal.lot)
            of_principal.begin(allowance.max_bytes)
        if of_group is not None:
            allowance.max_records = min(allowance.max_records, of_group.lot)
            of_group.begin(allowance.max_records)
        if room is not None:
            allowance.tally = self._in_flight.begin(principal, allowance.max_records)
        return allowance

    def begin_read(self, principal: str, max_bytes: int) -> Allowance | None:
        """Reserve what a read without a group may get; None: nothing binds it. ``settle`` it."""
        account = self._consuming.account(principal)
        if account is None:
            return None
        allowance = Allowance(min(max_bytes, account.lot), 0, account)
        account.begin(allowance.max_bytes)
        return allowance

    def may_read(self, principal: str) -> bool:
        """Return whether a principal may read without a group now, and nobody waits for that."""
        return self._consuming.is_free(principal)

    async def until_may_read(self, principal: str, deadline_ms: int) -> bool:
        """Return whether a principal may read in its turn, or False at the deadline."""
        return await self._consuming.turn(principal, deadline_ms)

    def read_throttle_ms(self, principal: str) -> int:
        """Return the throttle time to tell who read without a group; 0: none."""
        return self._throttle(self._consuming, principal)

    def tally_of(self, principal: str) -> HeldRecords | None:
        """Return what counts locks that come from another leader; None: nothing binds them."""
        return self._in_flight.tally_of(principal)

    def settle(
        self, allowance: Allowance, principal: str, group_id: str, size: int, count: int
    ) -> None:
        """Take what the fetch got."""
        if allowance.of_principal is not None:
            self._consuming.taken(principal, allowance.of_principal, allowance.max_bytes, size)
        if allowance.of_group is not None:
            self._delivering.taken(group_id, allowance.of_group, allowance.max_records, count)
        if allowance.tally is not None:
            self._in_flight.end(allowance.tally, allowance.max_records)

    def throttle_ms(self, principal: str, group_id: str) -> int:
        """Return the throttle time to tell a member; 0: none."""
        of_principal = self._throttle(self._consuming, principal)
        of_group = self._throttle(self._delivering, group_id)
        return of_principal if of_principal > of_group else of_group

    async def until_open(self, principal: str, group_id: str, deadline_ms: int) -> bool:
        """Return whether a member may get records now, or False at the deadline."""
        while not self._in_flight.has_room(principal):
            left_ms = deadline_ms - self._clock.now_ms()
            if left_ms <= 0:
                return False
            await self._clock.sleep_ms(min(left_ms, _ROOM_CHECK_MS))
        return await self._consuming.turn(principal, deadline_ms) and await self._delivering.turn(
            group_id, deadline_ms
        )

    def is_open(self, principal: str, group_id: str) -> bool:
        """Return whether a member may get records now."""
        return (
            self._consuming.is_open(principal)
            and self._delivering.is_open(group_id)
            and self._in_flight.has_room(principal)
        )

    def may_get(self, principal: str, group_id: str, call: Callable[[], None]) -> bool:
        """Return whether a member may get records now; if not, it is called once, in turn.

        Who is called must ask again.
        """
        if not self._consuming.is_open(principal):
            self._consuming.when_open(principal, call)
        elif not self._delivering.is_open(group_id):
            self._delivering.when_open(group_id, call)
        elif not self._in_flight.has_room(principal):
            self._in_flight.when_room(principal, call)
        else:
            return True
        return False

    def forget(self, principal: str, group_id: str, call: Callable[[], None]) -> None:
        """Call no more."""
        self._consuming.forget(principal, call)
        self._delivering.forget(group_id, call)
        self._in_flight.forget(principal, call)

    def holding_back(self, principal: str) -> str:
        """Return in words which quota of a principal its members wait for; empty: none."""
        return self._consuming.in_words(principal) or self._in_flight.in_words(principal)

    def holding_back_group(self, group_id: str) -> str:
        """Return in words the quota of a group that its members wait for; empty: none."""
        return self._delivering.in_words(group_id)

    def _throttle(self, rate: PacedRate, entity: str) -> int:
        throttle_ms = rate.throttle_ms(entity)
        if throttle_ms:
            limit = rate.limit(entity)
            if limit is not None:
                self._signals.throttled(rate.name, entity, limit, throttle_ms)
        return throttle_ms
