"""QUO-12, QUO-13: sessions, streams and records in flight of a principal, counted anew."""

import asyncio
from collections import Counter, defaultdict
from contextvars import ContextVar
from dataclasses import dataclass
from typing import NamedTuple

from sharemesh.domain.errors import ErrorCode, RefusedError
from sharemesh.domain.quota.names import QuotaName
from sharemesh.domain.share_partition.effects import RecordsAcquired
from sharemesh.domain.share_partition.events import Acquire, Fence, HandOver, StateRead
from sharemesh.domain.share_partition.machine import SharePartition
from sharemesh.domain.share_session import ShareSessions
from sharemesh.serve.process.quota_listener import QuotaListener
from sharemesh.share_leader.pacing import LeaderPacing
from sharemesh.share_leader.requests.acquisition import FetchAcquisition
from tests.simulation.checkers.rates import RateChecker
from tests.simulation.loop import PROCESS, Process
from tests.simulation.patching import Patches
from tests.simulation.world import World

LOOK_S = 0.2
STUCK_LOOKS = 5


@dataclass(slots=True)
class _Busy:
    """Fetches of one principal at the same time: what they may come to hold together."""

    fetches: int = 0
    limit: float = 0.0
    beyond: int = 0  # a last log batch may pass the bound


class _Taker(NamedTuple):
    principal: str
    is_bound: bool


_TAKER: ContextVar[_Taker | None] = ContextVar("taker", default=None)
_Grant = tuple[SharePartition, int]


class HeldChecker:
    """Keeps who was granted what while a quota bound it, and looks whether its lock is there."""

    def __init__(self, world: World, rates: RateChecker) -> None:
        self._world = world
        self._rates = rates
        self._counters = world.event_log.counters
        self._granted: dict[Process, dict[_Grant, str]] = {}
        self._busy: dict[tuple[Process, str], _Busy] = defaultdict(_Busy)
        self._pacing: dict[Process, LeaderPacing] = {}
        self._stuck: Counter[tuple[Process, str]] = Counter()
        self._streams: dict[Process, Counter[str]] = defaultdict(Counter)
        self._listeners: dict[Process, QuotaListener] = {}

    def install(self, patches: Patches) -> None:
        """Look at grants, streams and sessions from now on."""
        self._install_grants(patches)
        self._install_streams(patches)
        checker, real_open = self, ShareSessions.open

        def opened(sessions, key, principal):
            limit = checker._rates.limit(QuotaName.SHARE_SESSIONS, principal)
            others = [each for each in sessions.all() if each.key != key]
            count = sum(each.principal == principal for each in others)
            is_more = sessions.get(key) is None
            may = not is_more or limit is None or count < limit
            try:
                found = real_open(sessions, key, principal)
            except RefusedError as refused:
                if refused.error is ErrorCode.SHARE_SESSION_LIMIT_REACHED:
                    checker._counters["sessions refused by a quota"] += not may
                    if may and "quota share_sessions" in refused.message:
                        checker._say(f"{principal} has {count} sessions, and is refused one more")
                raise
            if not may:
                checker._say(f"{principal} opened a session beside {count}; it may have {limit}")
            return found

        patches.setattr(ShareSessions, "open", opened)

    def _install_streams(self, patches: Patches) -> None:
        checker, real_offer = self, QuotaListener.offer_stream

        def offer(listener, method, handler):
            checker._listeners[PROCESS.get()] = listener

            async def serve(stream, context):
                principal, streams = context.principal, checker._streams[PROCESS.get()]
                limit = checker._rates.limit(QuotaName.STREAMS, principal)
                checker._counters["judged by streams"] += limit is not None
                if limit is not None and streams[principal] >= limit:
                    checker._say(f"{principal} has {streams[principal]} streams, and got one more")
                streams[principal] += 1
                try:
                    await handler(stream, context)
                finally:
                    streams[principal] -= 1

            real_offer(listener, method, serve)

        patches.setattr(QuotaListener, "offer_stream", offer)

    def _install_grants(self, patches: Patches) -> None:
        checker = self
        real_pacing, real_take, real_step = (
            LeaderPacing.__init__,
            FetchAcquisition._take,
            SharePartition.step,
        )

        def pacing(pacing, *arguments):
            real_pacing(pacing, *arguments)
            checker._pacing[PROCESS.get()] = pacing

        async def take(acquisition, runners, owner, order, reader, taken):
            limit = checker._rates.limit(QuotaName.RECORDS_IN_FLIGHT, reader.principal)
            token = _TAKER.set(_Taker(reader.principal, limit is not None))
            held = checker._begins(reader.principal, limit)
            try:
                await real_take(acquisition, runners, owner, order, reader, taken)
            finally:
                _TAKER.reset(token)
                if limit is not None:
                    count = sum(one.count for one in taken)
                    checker._ends(reader.principal, held, count, count - order.max_records)

        def step(machine, event, *, now_ms):
            effects = real_step(machine, event, now_ms=now_ms)
            granted = checker._granted.setdefault(PROCESS.get(), {})
            if isinstance(event, Acquire):
                checker._note(granted, machine, effects)
            elif isinstance(event, StateRead):
                checker._take_over(granted, machine, event)
            elif isinstance(event, Fence | HandOver):
                for grant in [each for each in granted if each[0] is machine]:
                    del granted[grant]
            return effects

        patches.setattr(LeaderPacing, "__init__", pacing)
        patches.setattr(FetchAcquisition, "_take", take)
        patches.setattr(SharePartition, "step", step)

    def _begins(self, principal: str, limit: float | None) -> int:
        """Note that somebody may get records; return how many it holds."""
        if limit is None:
            return 0
        busy = self._busy[PROCESS.get(), principal]
        if not busy.fetches:
            busy.limit, busy.beyond = 0.0, 0
        busy.fetches += 1
        busy.limit = max(busy.limit, limit)
        return self._held(PROCESS.get(), principal)

    def _ends(self, principal: str, before: int, count: int, beyond: int) -> None:
        """Judge what a fetch got, beside others of its principal."""
        process = PROCESS.get()
        busy = self._busy[process, principal]
        busy.fetches -= 1
        if not count:
            return
        busy.beyond += max(0, beyond)
        held = self._held(process, principal)
        self._counters["judged by records_in_flight"] += 1
        if before >= busy.limit:
            self._say(f"{principal} got more beside {before}, and may hold {busy.limit:.0f}")
        elif held > busy.limit + busy.beyond:
            self._say(f"{principal} holds {held}, and may hold {busy.limit:.0f}")

    @staticmethod
    def _note(granted: dict[_Grant, str], machine: SharePartition, effects: tuple) -> None:
        taker = _TAKER.get()
        ranges = [
            one for each in effects if isinstance(each, RecordsAcquired) for one in each.ranges
        ]
        for one in ranges:
            for offset in range(one.first_offset, one.last_offset + 1):
                granted.pop((machine, offset), None)
                if taker is not None and taker.is_bound:
                    granted[machine, offset] = taker.principal

    def _take_over(
        self, granted: dict[_Grant, str], machine: SharePartition, event: StateRead
    ) -> None:
        """Locks of before count here, if their principal is bound now."""
        for lock in event.handed_over:
            if self._rates.limit(QuotaName.RECORDS_IN_FLIGHT, lock.principal) is None:
                continue
            for offset in range(lock.first_offset, lock.last_offset + 1):
                if (found := machine.state_at(offset)) and found.member_id == lock.member_id:
                    self._counters["records in flight that were handed over"] += 1
                    granted[machine, offset] = lock.principal
                    self._busy[PROCESS.get(), lock.principal].beyond += 1  # beside a fetch

    def _held(self, process: Process, principal: str) -> int:
        """Return how many records of a principal have locks that count."""
        granted = self._granted.setdefault(process, {})
        for grant in [each for each in granted if not _is_locked(*each)]:
            del granted[grant]
        return sum(each == principal for each in granted.values())

    async def run(self) -> None:
        """Compare what leaders count with what is held, until the run ends."""
        while True:
            await asyncio.sleep(LOOK_S)
            for process, pacing in list(self._pacing.items()):
                if not process.alive:
                    del self._pacing[process]
                elif not process.frozen:
                    self._compare(process, pacing)
            for process, listener in list(self._listeners.items()):
                if not process.alive:
                    del self._listeners[process]
                elif not process.frozen:
                    self._compare_streams(process, listener)

    def _compare(self, process: Process, pacing: LeaderPacing) -> None:
        quota = pacing._in_flight
        granted = self._granted.get(process, {})
        for principal in dict.fromkeys([*quota._held, *granted.values()]):
            counted, held = quota.held(principal), self._held(process, principal)
            self._counters["counts of records in flight judged"] += 1
            if counted != held:
                text = f"{process} counts {counted} records in flight of {principal}, not {held}"
                self._world.event_log.violation(self._world.now_s, text)
        for principal in quota._waiting:
            self._counters["looks at who waits for room"] += 1
            is_stuck = quota.has_room(principal) and self._world.now_s - process.thawed_s > 1
            self._stuck[process, principal] = self._stuck[process, principal] + 1 if is_stuck else 0
            if self._stuck[process, principal] == STUCK_LOOKS:
                text = f"{principal} waits at {process} for records in flight, and has room"
                self._world.event_log.violation(self._world.now_s, text)

    def _compare_streams(self, process: Process, listener: QuotaListener) -> None:
        for principal, count in self._streams[process].items():
            counted = listener._open_streams.of(principal)
            if counted != count:
                text = f"{process} counts {counted} streams of {principal}, not {count}"
                self._world.event_log.violation(self._world.now_s, text)

    def _say(self, text: str) -> None:
        self._world.event_log.violation(self._world.now_s, f"{PROCESS.get()}: {text}")


def _is_locked(machine: SharePartition, offset: int) -> bool:
    found = machine.state_at(offset)
    return found is not None and found.lock_deadline_ms is not None
