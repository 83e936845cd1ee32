"""When ``run`` stops taking records because what its handlers need is away (spec CL-42).

States and what they allow; time is an argument.
"""

from collections.abc import Hashable
from dataclasses import dataclass
from enum import Enum, auto

from sharemesh.client.argument_checks import (
    check_ms,
    check_share,
    check_whole,
    exceptions_of,
)
from sharemesh.client.consumer.raised import is_of
from sharemesh.client.errors import IllegalArgumentError

WINDOW_MAX = 10_000
PROBES_MAX = 1_000
SUSPECTS_MAX = 1_000
"""Records that failed of an outage and are tried last; the oldest are forgotten."""

RECORDS_OWN = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    NameError,
    TypeError,
    ValueError,
)
"""What Python raises for data, or code, that is wrong."""

_LONGER = 2
"""After each failed probe the breaker stays open for this many times as long."""


@dataclass(frozen=True, slots=True)
class BreakerPolicy:
    """When the circuit breaker of ``run`` opens and closes; times in ms.

    Attributes:
        failure_share: It opens once this part of the last ``window`` records failed, or of the
            records so far, from ``least`` on.
        window: How many records are looked at, each by how its last handler ended.
        least: Fewer say nothing: one record that fails again and again is no outage.
        open_ms: How long it takes no records before it tries some; twice as long after each try
            that fails.
        open_max_ms: The longest such time.
        probes: How many records are tried then, such that did not fail before as long as there are
            some. It opens again if ``failure_share`` of them fail, and closes as soon as that
            cannot be.
        counts: Exceptions that are failures of what handlers need; others are the record's own.
        ignores: Those among them that are the record's own nevertheless.

    Raises:
        IllegalArgumentError: A number is out of its bounds, something is no exception class, or all
            of a class in ``counts`` is ignored.
    """

    failure_share: float = 0.5
    window: int = 20
    least: int = 5
    open_ms: int = 1_000
    open_max_ms: int = 5_000
    probes: int = 3
    counts: tuple[type[Exception], ...] = (Exception,)
    ignores: tuple[type[Exception], ...] = RECORDS_OWN

    def __post_init__(self) -> None:
        check_share("failure_share", self.failure_share)
        check_whole("window", self.window, 1, WINDOW_MAX)
        check_whole("least", self.least, 1, self.window)
        check_whole("probes", self.probes, 1, PROBES_MAX)
        check_ms("open_ms", self.open_ms)
        check_ms("open_max_ms", self.open_max_ms)
        if self.open_max_ms < self.open_ms:
            raise IllegalArgumentError(
                f"open_max_ms is {self.open_max_ms}: give at least open_ms, {self.open_ms}"
            )
        for name in ("counts", "ignores"):
            object.__setattr__(self, name, exceptions_of(name, getattr(self, name)))
        if not self.counts:
            raise IllegalArgumentError("counts is empty: give exceptions, or breaker=None for none")
        for kind in self.counts:
            if issubclass(kind, self.ignores):
                raise IllegalArgumentError(
                    f"{kind.__name__} is in counts, and ignored: give ignores=() or others"
                )

    def is_outage(self, error: Exception | None) -> bool:
        """Whether an exception of a handler is a failure of what handlers need."""
        return error is not None and is_of(error, self.counts, but=self.ignores)


DEFAULT_BREAKER = BreakerPolicy()
"""That of ``run``, unless its options say otherwise."""


class BreakerState(Enum):
    """Whether records are taken."""

    CLOSED = auto()
    OPEN = auto()
    PROBING = auto()


class CircuitBreaker:
    """One breaker; ``ended`` is told of each record that a handler ended with.

    Attributes:
        state: Whether records are taken.
        open_ms: How long it is open, or was the last time.
    """

    def __init__(self, policy: BreakerPolicy) -> None:
        self.policy = policy
        self.state = BreakerState.CLOSED
        self.open_ms = 0
        self._failed: dict[Hashable, bool] = {}  # by record, those that ended last at the end
        self._until_ms = 0
        self._probed: dict[Hashable, bool] = {}
        self._suspects: dict[Hashable, None] = {}

    @property
    def is_closed(self) -> bool:
        """Whether records are taken without a limit of the breaker."""
        return self.state is BreakerState.CLOSED

    def room(self, most: int, now_ms: int) -> int:
        """Return how many handlers may run, of ``most``; an open breaker begins to try in time."""
        if self.state is BreakerState.OPEN and now_ms >= self._until_ms:
            self.state = BreakerState.PROBING
            self._probed = {}
        if self.state is BreakerState.OPEN:
            return 0
        return most if self.is_closed else min(most, self.policy.probes - len(self._probed))

    def wait_ms(self, now_ms: int) -> int | None:
        """Return how long it stays open; None if it is not."""
        return max(self._until_ms - now_ms, 0) if self.state is BreakerState.OPEN else None

    def delay_ms(self, now_ms: int, *, again: bool = False) -> int:
        """Return how long what is given back should wait: until others have been tried.

        ``again``: it failed before since the breaker was closed, and no others came.
        """
        if self.state is BreakerState.OPEN:
            return max(self._until_ms - now_ms, 0)
        if self.is_closed:
            return 0
        return self.policy.open_max_ms if again else self._next_open_ms

    def is_suspect(self, record: Hashable) -> bool:
        """Whether a record has failed since the breaker was closed, and others say more."""
        return self.state is BreakerState.PROBING and record in self._suspects

    @property
    def _next_open_ms(self) -> int:
        return min(self.open_ms * _LONGER, self.policy.open_max_ms)

    def ended(self, record: Hashable, *, failed: bool, now_ms: int) -> None:
        """Note how a handler ended; what ends while it is open was begun before, and is no news."""
        if self.state is BreakerState.CLOSED:
            self._failed.pop(record, None)
            self._failed[record] = failed
            if len(self._failed) > self.policy.window:
                del self._failed[next(iter(self._failed))]
            seen = len(self._failed)
            enough = failed and seen >= self.policy.least
            if enough and self._are_too_many(sum(self._failed.values()), seen):
                self.open_ms = self.policy.open_ms
                self._open(now_ms)
        elif self.state is BreakerState.PROBING:
            self._probed[record] = failed
            if failed:
                self._suspect(record)
            failures = sum(self._probed.values())
            succeeded = len(self._probed) - failures
            if self._are_too_many(failures, self.policy.probes):
                self.open_ms = self._next_open_ms
                self._open(now_ms)
            elif not self._are_too_many(self.policy.probes - succeeded, self.policy.probes):
                self.state = BreakerState.CLOSED
                self._suspects.clear()

    def _suspect(self, record: Hashable) -> None:
        self._suspects[record] = None
        if len(self._suspects) > SUSPECTS_MAX:
            del self._suspects[next(iter(self._suspects))]

    def _are_too_many(self, failures: int, records: int) -> bool:
        return failures >= self.policy.failure_share * records

    def _open(self, now_ms: int) -> None:
        self.state = BreakerState.OPEN
        self._until_ms = now_ms + self.open_ms
        for record, failed in self._failed.items():
            if failed:
                self._suspect(record)
        self._failed.clear()
