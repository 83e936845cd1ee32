"""Connections of clients to brokers: one request at a time, in order; and what goes wrong there."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from functools import partial
from random import Random
from typing import Any

from sharemesh.ports.brokers import BrokerUnreachableError
from sharemesh.testing.memory_brokers.broker import MemoryBroker
from sharemesh.testing.memory_brokers.broker_codes import BrokerCode, refusal
from sharemesh.testing.memory_brokers.broker_requests import Request
from sharemesh.testing.memory_brokers.schedule import Schedule, Scheduled

Outcome = Callable[[Any], None]
"""Takes the answer or the error; called once."""

Span = tuple[float, float]


@dataclass(slots=True)
class BrokerTroubles:
    """How many requests of a thousand meet what, and how long things take, in ms.

    Attributes:
        lost: The connection is lost before the broker gets the request.
        unanswered: It is lost after the broker has done what was asked.
        late: As lost, but the request arrives nevertheless, after ``late_ms``.
        doubled: A write arrives a second time, after ``late_ms``.
        too_few: Produce is refused NOT_ENOUGH_REPLICAS.
        too_few_after: Produce is answered NOT_ENOUGH_REPLICAS_AFTER_APPEND.
        throttled: The answer, and the next request, wait for ``throttle_ms``.
        slow: A message takes ``slow_ms``, not ``travel_ms``.
        counts: How often each happened.
    """

    lost: int = 0
    unanswered: int = 0
    late: int = 0
    doubled: int = 0
    too_few: int = 0
    too_few_after: int = 0
    throttled: int = 0
    slow: int = 0
    travel_ms: Span = (0.0, 0.0)
    slow_ms: Span = (20.0, 800.0)
    late_ms: Span = (10.0, 12_000.0)
    throttle_ms: Span = (50.0, 2_000.0)
    counts: dict[str, int] = field(default_factory=dict)

    def end(self) -> None:
        """Let nothing go wrong from now on."""
        for each in fields(self):
            if each.type is int:
                setattr(self, each.name, 0)


class Chance:
    """Draws from the seed only where something may go wrong."""

    def __init__(self, rng: Random, troubles: BrokerTroubles) -> None:
        self._rng = rng
        self.troubles = troubles

    def meets(self, name: str) -> bool:
        """Return whether a request meets a trouble, and count it."""
        permille: int = getattr(self.troubles, name)
        if not permille or self._rng.random() * 1_000 >= permille:
            return False
        counts = self.troubles.counts
        counts[name] = counts.get(name, 0) + 1
        return True

    def span_ms(self, span: Span) -> float:
        """Return a time within bounds; without an upper bound 0."""
        return self._rng.uniform(*span) if span[1] > 0 else 0.0

    def travel_ms(self) -> float:
        """Return how long the next message takes."""
        troubles = self.troubles
        permille = troubles.slow
        is_slow = permille and self._rng.random() * 1_000 < permille
        return self.span_ms(troubles.slow_ms if is_slow else troubles.travel_ms)


class BrokerLink:
    """One connection. What was sent may be carried out even when it is lost."""

    def __init__(
        self,
        broker: MemoryBroker,
        schedule: Schedule,
        chance: Chance,
        is_cut: Callable[[int], bool],
    ) -> None:
        self.broker = broker
        self.is_open = True
        self._schedule = schedule
        self._chance = chance
        self._is_cut = is_cut
        self._under_way: dict[int, tuple[Outcome, Scheduled]] = {}
        self._waiting: deque[tuple[int, Request]] = deque()
        self._is_busy = False
        self._sent = 0
        self._arrives_ms = 0.0

    def send(
        self, request: Request, outcome: Outcome, timeout_ms: float, *, is_write: bool = False
    ) -> None:
        """Send a request; the outcome comes once, at the latest after the time-out."""
        self._sent += 1
        number = self._sent
        deadline = self._schedule.later(
            timeout_ms, partial(self.lose, f"no answer within {timeout_ms:.0f} ms")
        )
        self._under_way[number] = (outcome, deadline)
        chance = self._chance
        late_ms = chance.troubles.late_ms
        if chance.meets("lost"):
            self._soon(partial(self.lose, "the connection was reset"))
        elif is_write and chance.meets("late"):
            self._soon(partial(self.lose, "the connection was reset"))
            self._schedule.later(chance.span_ms(late_ms), partial(self._unheard, request))
        else:
            if is_write and chance.meets("doubled"):
                self._schedule.later(chance.span_ms(late_ms), partial(self._unheard, request))
            self._travel(partial(self._arrive, number, request))

    def lose(self, why: str) -> None:
        """End the connection: whoever waits for an answer hears of it."""
        if not self.is_open:
            return
        self.is_open = False
        under_way, self._under_way = self._under_way, {}
        for outcome, deadline in under_way.values():
            deadline.cancel()
            outcome(BrokerUnreachableError(f"{self._name}: {why}"))

    @property
    def _name(self) -> str:
        address = self.broker.address
        return f"broker {address.broker_id} at {address.host}:{address.port}"

    def _soon(self, action: Callable[[], None]) -> None:
        self._schedule.later(self._chance.travel_ms(), action)

    def _travel(self, action: Callable[[], None]) -> None:
        now_ms = self._schedule.now_ms()
        self._arrives_ms = max(self._arrives_ms, now_ms + self._chance.travel_ms())
        self._schedule.later(self._arrives_ms - now_ms, action)

    def _arrive(self, number: int, request: Request) -> None:
        if self._is_cut(self.broker.broker_id):
            return  # its time-out tells
        if not self.broker.alive:
            self.lose("connection refused")
            return
        self.broker.do(partial(self._queue, number, request))

    def _queue(self, number: int, request: Request) -> None:
        self._waiting.append((number, request))
        if not self._is_busy:
            self._next()

    def _next(self) -> None:
        self._is_busy = bool(self._waiting)
        if self._is_busy:
            number, request = self._waiting.popleft()
            request(self.broker, partial(self._answered, number))

    def _answered(self, number: int, answer: Any) -> None:  # noqa: ANN401
        pause_ms = 0.0
        if self._chance.meets("throttled"):
            pause_ms = self._chance.span_ms(self._chance.troubles.throttle_ms)
        if self._chance.meets("unanswered"):
            self._soon(partial(self.lose, "the connection was reset"))
        else:
            delay_ms = pause_ms + self._chance.travel_ms()
            self._schedule.later(delay_ms, partial(self._deliver, number, answer))
        if pause_ms > 0:
            self.broker.later(pause_ms, self._next)
        else:
            self._next()

    def _deliver(self, number: int, answer: Any) -> None:  # noqa: ANN401
        if self._is_cut(self.broker.broker_id):
            return
        outcome, deadline = self._under_way.pop(number, (None, None))
        if outcome is not None and deadline is not None:
            deadline.cancel()
            outcome(answer)

    def _unheard(self, request: Request) -> None:
        self.broker.do(lambda: request(self.broker, lambda _: None))


def with_refusals(request: Request, chance: Chance) -> Request:
    """Return a produce request that may be refused for want of replicas, before or after it."""

    def handle(broker: MemoryBroker, reply: Callable[[Any], None]) -> None:
        if chance.meets("too_few"):
            reply(refusal(BrokerCode.NOT_ENOUGH_REPLICAS, "a moment of too few replicas"))
        elif chance.meets("too_few_after"):
            after = refusal(BrokerCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, "a moment of too few")
            request(broker, lambda _: reply(after))
        else:
            request(broker, reply)

    return handle
