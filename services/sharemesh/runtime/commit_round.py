"""What the next commit of a shard takes along, and how long it waits for more."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from sharemesh.domain.errors import RefusedError
from sharemesh.ports.shard_log import LogRecord
from sharemesh.runtime.shard_kind import ADAPTIVE_LINGER, RuntimeLimits
from sharemesh.tasks import wait_until_set

_STEP_MS = 2  # a round keeps waiting while a request joins in each such step
_STEPS_MAX = 5
FEW_CALLERS = 3
"""So few save one another less than a step takes: a commit of each costs about a millisecond."""


@dataclass(slots=True)
class CommitRound:
    """Batches of records, and the requests that wait until they are durable."""

    batches: list[list[LogRecord]] = field(default_factory=list)
    batch_bytes: int = 0
    pending_bytes: int = 0
    waiters: list[asyncio.Future[None]] = field(default_factory=list)
    deadlines_s: list[float] = field(default_factory=list)

    def add(self, records: list[LogRecord], size: int, batch_bytes_max: int) -> None:
        """Take records of ``size`` bytes along, with those before them if they fit one batch."""
        if self.batches and self.batch_bytes + size <= batch_bytes_max:
            self.batches[-1].extend(records)
            self.batch_bytes += size
        else:
            self.batches.append(records)
            self.batch_bytes = size
        self.pending_bytes += size

    def join(self, deadline_s: float) -> asyncio.Future[None]:
        """Return what a request awaits, until ``deadline_s`` on the loop's clock."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.waiters.append(waiter)
        self.deadlines_s.append(deadline_s)
        return waiter

    def time_out(self, now_s: float) -> float | None:
        """Fail with TimeoutError whose deadline has come; return the next one, None if none."""
        next_s = None
        for waiter, deadline_s in zip(self.waiters, self.deadlines_s, strict=True):
            if waiter.done():
                continue
            if deadline_s <= now_s:
                waiter.set_exception(TimeoutError())
            elif next_s is None or deadline_s < next_s:
                next_s = deadline_s
        return next_s

    def settle(self, refusal: RefusedError | None) -> None:
        """Complete all waiters: with the refusal, or with their results."""
        for waiter in self.waiters:
            if waiter.done():
                continue  # timed out or cancelled
            if refusal is None:
                waiter.set_result(None)
            else:
                waiter.set_exception(fresh_copy(refusal))


class Deadlines:
    """One timer for all requests of a shard that wait for a commit, instead of one each."""

    def __init__(self, rounds: Callable[[], Sequence[CommitRound]]) -> None:
        self._rounds = rounds
        self._timer: asyncio.TimerHandle | None = None
        self._due_s = 0.0

    def watch(self, deadline_s: float) -> None:
        """See to it that a request of this deadline (on the loop's clock) does not miss it."""
        if self._timer is None or deadline_s < self._due_s:
            self._set(deadline_s)

    def close(self) -> None:
        """Stop. Repeating it is fine."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _set(self, due_s: float) -> None:
        self.close()
        self._due_s = due_s
        self._timer = asyncio.get_running_loop().call_at(due_s, self._come)

    def _come(self) -> None:
        self._timer = None
        now_s = max(self._due_s, asyncio.get_running_loop().time())
        found = [each.time_out(now_s) for each in self._rounds()]
        following = [due_s for due_s in found if due_s is not None]
        if following:
            self._set(min(following))


class Linger:
    """How long a round waits before its commit, so that others share it.

    Callers that wait for their responses come back at about the same time, and few large commits
    cost less than many small ones. So a round waits for as many callers as recent rounds had, but
    only while one joins in each step: a single caller never waits, and callers that do not come
    back delay no others. The expected number falls slowly, so that one small round does not end
    the grouping of many callers. A fixed linger (share.coordinator.append.linger.ms) holds a round
    with records for that long, or until it fills a batch.
    """

    def __init__(self, limits: RuntimeLimits) -> None:
        self._limits = limits
        self._enough = asyncio.Event()
        self._joined_of_late = 1

    def joined(self, joining: CommitRound) -> None:
        """A request joined the round that will be committed next."""
        if self._is_enough(joining):
            self._enough.set()

    async def wait(self, joining: CommitRound) -> None:
        """Return when the round should be committed."""
        if self._limits.linger_ms == ADAPTIVE_LINGER:
            for _ in range(_STEPS_MAX if self._joined_of_late > FEW_CALLERS else 0):
                before = len(joining.waiters)
                if await self._filled(joining, _STEP_MS) or len(joining.waiters) == before:
                    break
            self._joined_of_late = max(len(joining.waiters), self._joined_of_late * 7 // 8)
        elif joining.batches:
            await self._filled(joining, self._limits.linger_ms)

    async def _filled(self, joining: CommitRound, wait_ms: int) -> bool:
        if not self._is_enough(joining):
            self._enough.clear()
            await wait_until_set(self._enough, wait_ms)
        return self._is_enough(joining)

    def _is_enough(self, joining: CommitRound) -> bool:
        if self._limits.linger_ms == ADAPTIVE_LINGER:
            return len(joining.waiters) >= self._joined_of_late
        return self._limits.linger_ms == 0 or joining.pending_bytes >= self._limits.max_batch_bytes


def fresh_copy(refusal: RefusedError) -> RefusedError:
    """Return a copy: an exception that is raised again and again grows its traceback."""
    return RefusedError(refusal.error, refusal.message)
