"""Quotas of calls: connections, streams, and the processor time of handlers (QUO-13, QUO-14)."""

from collections.abc import Awaitable, Callable, Coroutine, Generator
from dataclasses import replace
from typing import Any, Generic, NamedTuple, Protocol, TypeVar, cast

from sharemesh import methods
from sharemesh.domain.quota.counts import OpenCounts
from sharemesh.domain.quota.names import QuotaName
from sharemesh.domain.quota.rates import ACCOUNTS_MAX
from sharemesh.methods import Method, Request, Response
from sharemesh.ports.clock import Clock
from sharemesh.ports.network import CallContext, CallFailedError, Failure, Listener, Stream
from sharemesh.ports.quotas import Quotas
from sharemesh.telemetry.telemetry import Telemetry
from sharemesh.throttling.counted_quota import CountedQuota
from sharemesh.throttling.paced_rate import PacedRate
from sharemesh.throttling.quota_signals import QuotaSignals
from sharemesh.timers import Timers

HOLD_MS = 1_000
"""How long a call waits whose principal has used up its processor time: Kafka's window."""

HELD_MAX = 100
"""Calls of one principal that wait so; more are refused at once."""

NEVER_HELD = frozenset({methods.SHARE_GROUP_HEARTBEAT.name, methods.SHARE_ACKNOWLEDGE.name})
"""Who may get nothing more can finish what it has (QUO-10)."""

ASKS_WHO_OWES = frozenset({methods.EXPLAIN.name})
"""Unary methods whose handlers are told who waits for processor time (QUO-15)."""

TAKEN_AT_ONCE_NS = 1_000_000
"""A stream's processor time is taken when it is so much, and at its end: a step has less."""

_PERCENT_SECONDS = 1e-7
"""Of a core in a nanosecond."""

Result = TypeVar("Result")


class QuotaListener:
    """Fills ``ports.network.Listener`` before another one; who has no quota passes at once."""

    def __init__(
        self, listener: Listener, quotas: Quotas, clock: Clock, telemetry: Telemetry
    ) -> None:
        self._listener = listener
        self._clock = clock
        self._now_ns = telemetry.spans.now_ns
        self._signals = QuotaSignals(telemetry.registry, clock)
        self._alarms = Timers(clock)
        self._time = PacedRate(QuotaName.REQUEST_PERCENTAGE, quotas, clock, self._alarms)
        self._connections = CountedQuota(QuotaName.CONNECTIONS, quotas, self._signals)
        self._streams = CountedQuota(QuotaName.STREAMS, quotas, self._signals)
        self._open_streams = OpenCounts()
        self._held = OpenCounts()
        self._peers: dict[str, dict[str, int]] = {}  # with open calls, of bounded principals
        self._bounds: dict[str, _Bounds] = {}  # as told; forgotten when quotas change
        self._unsubscribe = quotas.on_change(self._changed)

    def _changed(self) -> None:
        self._bounds.clear()
        self._time.changed()

    def _bounds_of(self, principal: str) -> "_Bounds":
        """Return what binds a principal, looked up once until quotas change."""
        if len(self._bounds) >= ACCOUNTS_MAX:
            self._bounds.clear()
        found = _Bounds(self._connections.limit(principal), self._time.limit(principal) is not None)
        self._bounds[principal] = found
        return found

    async def close(self) -> None:
        """End the timers."""
        self._unsubscribe()
        await self._alarms.close()

    def offer(
        self,
        method: Method[Request, Response],
        handler: Callable[[Request, CallContext], Awaitable[Response]],
    ) -> None:
        """Answer a unary method (see the port), as quotas allow."""
        may_wait = method.name not in NEVER_HELD
        tells = may_wait and "throttle_time_ms" in method.response.DESCRIPTOR.fields_by_name
        asks = method.name in ASKS_WHO_OWES

        async def timed(request: Request, context: CallContext) -> Response:
            principal = context.principal
            if may_wait and not self._time.is_free(principal):
                await self._turn(method.name, principal)
            steps = MeasuredSteps(handler(request, context), self._now_ns)
            owes = False
            try:
                response = await steps
            finally:
                owes = _take(self._time, principal, steps.spent_ns)
            if owes and tells:
                self._tell(cast("_Telling", response), principal)
            return response

        async def answer(request: Request, context: CallContext) -> Response:
            principal = context.principal
            bounds = self._bounds.get(principal) or self._bounds_of(principal)
            if asks:
                context = replace(context, time=self._time_of(principal))
            serve = timed if bounds.time else handler
            if bounds.connections is None:
                return await serve(request, context)
            self._connect(method.name, context, bounds.connections)
            try:
                return await serve(request, context)
            finally:
                self._disconnect(context)

        self._listener.offer(method, answer)

    def offer_stream(
        self,
        method: Method[Request, Response],
        handler: Callable[[Stream[Response, Request], CallContext], Awaitable[None]],
    ) -> None:
        """Answer a stream method (see the port), unless there is one too many."""

        async def counted(stream: Stream[Response, Request], context: CallContext) -> None:
            principal, streams = context.principal, self._open_streams
            _check(method.name, self._streams.exceeded(principal, streams.of(principal)))
            streams.add(principal)
            time = self._time_of(principal)
            try:
                await handler(stream, replace(context, time=time))
            finally:
                time.take()
                streams.add(principal, -1)

        async def answer(stream: Stream[Response, Request], context: CallContext) -> None:
            bounds = self._bounds.get(context.principal) or self._bounds_of(context.principal)
            if bounds.connections is None:
                await counted(stream, context)
                return
            self._connect(method.name, context, bounds.connections)
            try:
                await counted(stream, context)
            finally:
                self._disconnect(context)

        self._listener.offer_stream(method, answer)

    def _time_of(self, principal: str) -> "_TimeOfCalls":
        return _TimeOfCalls(self._time, self._now_ns, self._signals, principal)

    def _connect(self, method: str, context: CallContext, limit: float) -> None:
        """Count the connection of a call, until the call ends; refuse one too many."""
        peers = self._peers.get(context.principal)
        count = 0 if peers is None else peers.get(context.peer, 0)
        if not count:
            others = 0 if peers is None else len(peers)
            if others >= limit:
                _check(method, self._connections.exceeded(context.principal, others))
        if peers is None:
            peers = self._peers[context.principal] = {}
        peers[context.peer] = count + 1

    def _disconnect(self, context: CallContext) -> None:
        peers = self._peers[context.principal]
        left = peers[context.peer] - 1
        if left:
            peers[context.peer] = left
            return
        del peers[context.peer]
        if not peers:
            del self._peers[context.principal]

    async def _turn(self, method: str, principal: str) -> None:
        """Wait until a principal that has used it up has time again, at most ``HOLD_MS``."""
        time = self._time
        limit = time.limit(principal)
        if limit is None:
            return
        self._signals.throttled(time.name, principal, limit, time.throttle_ms(principal))
        if self._held.of(principal) < HELD_MAX:
            self._held.add(principal)
            try:
                if await time.turn(principal, self._clock.now_ms() + HOLD_MS):
                    return
            finally:
                self._held.add(principal, -1)
        throttle_ms = max(1, time.throttle_ms(principal))
        _check(method, self._signals.refused(time.name, principal, limit), throttle_ms)

    def _tell(self, response: "_Telling", principal: str) -> None:
        """Say how long the next call of the principal would wait, if its answer says no more."""
        throttle_ms = _told(self._time, principal, self._signals)
        response.throttle_time_ms = max(response.throttle_time_ms, throttle_ms)


class _Bounds(NamedTuple):
    """Which quotas of calls bind a principal."""

    connections: float | None
    """How many it may have."""
    time: bool
    """Whether its processor time is bounded."""


class _Telling(Protocol):
    """An answer that has room for a throttle time."""

    throttle_time_ms: int


class _TimeOfCalls:
    """Fills ``ports.network.CallTime`` for one call; a quota binds it from its moment."""

    def __init__(
        self, rate: PacedRate, now_ns: Callable[[], int], signals: QuotaSignals, principal: str
    ) -> None:
        self._rate = rate
        self._now_ns = now_ns
        self._signals = signals
        self._principal = principal
        self._spent_ns = 0

    def measured(self, work: Coroutine[Any, Any, Result]) -> Coroutine[Any, Any, Result]:
        """Count the steps of the work (see the port); where nothing binds, it is not touched."""
        if self._rate.limit(self._principal) is None:
            return work
        return self._measure(work)

    async def _measure(self, work: Coroutine[Any, Any, Result]) -> Result:
        return await MeasuredSteps(work, self._now_ns, self._spent)

    def may_go_on(self, call: Callable[[], None]) -> bool:
        """Return whether there is no debt; if there is, be called in turn (see the port)."""
        if self._rate.is_open(self._principal):
            return True
        self._rate.when_open(self._principal, call)
        return False

    def forget(self, call: Callable[[], None]) -> None:
        """Call no more."""
        self._rate.forget(self._principal, call)

    @property
    def throttle_ms(self) -> int:
        """How long the stream brings nothing new (see the port)."""
        return _told(self._rate, self._principal, self._signals)

    def holding_back(self, principal: str) -> str:
        """Return in words whether a principal waits for processor time (see the port)."""
        return self._rate.in_words(principal)

    def _spent(self, spent_ns: int) -> None:
        self._spent_ns += spent_ns
        if self._spent_ns >= TAKEN_AT_ONCE_NS:
            self.take()

    def take(self) -> None:
        """Take what was spent and is not taken yet."""
        spent_ns, self._spent_ns = self._spent_ns, 0
        _take(self._rate, self._principal, spent_ns)


def _take(rate: PacedRate, principal: str, spent_ns: int) -> bool:
    """Count what was spent; return whether it is a debt."""
    account = rate.account(principal)
    if account is None:
        return False
    return rate.taken(principal, account, 0, spent_ns * _PERCENT_SECONDS)


def _told(rate: PacedRate, principal: str, signals: QuotaSignals) -> int:
    """Return the throttle time to tell, counted and logged as such; 0: none."""
    throttle_ms = rate.throttle_ms(principal)
    limit = rate.limit(principal) if throttle_ms else None
    if limit is not None:
        signals.throttled(rate.name, principal, limit, throttle_ms)
    return throttle_ms


def _check(method: str, exceeded: str, throttle_ms: int = 0) -> None:
    if exceeded:
        raise CallFailedError(
            Failure.RESOURCE_EXHAUSTED, f"{method}: {exceeded}", throttle_ms=throttle_ms
        )


class MeasuredSteps(Generic[Result]):
    """Awaits what it is given, and adds up the time of its steps without that between them.

    ``tell`` hears of each step as it ends: of work that may last.
    """

    def __init__(
        self,
        work: Awaitable[Result],
        now_ns: Callable[[], int],
        tell: Callable[[int], None] | None = None,
    ) -> None:
        self._work = work
        self._now_ns = now_ns
        self._tell = tell
        self.spent_ns = 0

    def __await__(self) -> Generator[Any, Any, Result]:
        steps, now_ns, tell = self._work.__await__(), self._now_ns, self._tell
        thrown: BaseException | None = None
        while True:
            began_ns = now_ns()
            try:
                waited_for = next(steps) if thrown is None else steps.throw(thrown)
            except StopIteration as ended:
                result: Result = ended.value
                return result
            finally:
                spent_ns = now_ns() - began_ns
                if spent_ns > 0:  # the wall clock may have been set back
                    self.spent_ns += spent_ns
                    if tell is not None:
                        tell(spent_ns)
            thrown = None
            try:
                yield waited_for
            except BaseException as error:  # the caller went away, for example
                thrown = error
