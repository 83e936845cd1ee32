"""One check of the log for many heartbeats that change nothing."""

import asyncio

from sharemesh.domain.errors import ErrorCode, RefusedError
from sharemesh.group_coordinator.group_shard import LoadedShard
from sharemesh.ports.clock import Clock

MAX_WAITING = 100_000
"""Answers that may wait for one check; beyond it they are refused."""


class HeartbeatBarrier:
    """Holds answers until a check, begun after they were decided, found the log ours (LOG-8).

    A check costs a job in the storage pool; thousands of members a second share one each
    ``interval_ms``. The first one after a quiet time is not delayed.
    """

    def __init__(self, shard: LoadedShard, clock: Clock, interval_ms: int) -> None:
        self._shard = shard
        self._clock = clock
        self._interval_ms = interval_ms
        self._last_ms = clock.now_ms() - interval_ms
        self._waiters: list[asyncio.Future[None]] = []
        self._wanted = asyncio.Event()
        self._closed = False

    async def confirmed(self) -> None:
        """Return once all that was decided before this call is durable and the log is ours.

        Raises:
            RefusedError: NOT_COORDINATOR, COORDINATOR_NOT_AVAILABLE, REQUEST_TIMED_OUT.
        """
        if self._closed:
            raise _not_served()
        if len(self._waiters) >= MAX_WAITING:
            raise RefusedError(
                ErrorCode.COORDINATOR_NOT_AVAILABLE,
                f"{MAX_WAITING} heartbeats wait for the log; slow down",
            )
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        self._wanted.set()
        await waiter

    async def run(self) -> None:
        """Check the log while anything waits, until cancelled; a job of the shard."""
        waiters: list[asyncio.Future[None]] = []
        self._closed = False
        try:
            while True:
                await self._wanted.wait()
                wait_ms = self._last_ms + self._interval_ms - self._clock.now_ms()
                if wait_ms > 0:
                    await self._clock.sleep_ms(wait_ms)
                self._wanted.clear()
                waiters, self._waiters = self._waiters, []
                self._last_ms = self._clock.now_ms()
                try:
                    await self._shard.read(lambda _: None)
                except RefusedError as error:
                    _settle(waiters, error)
                else:
                    _settle(waiters, None)
        finally:
            self._closed = True
            _settle(waiters + self._waiters, _not_served())


def _not_served() -> RefusedError:
    return RefusedError(
        ErrorCode.NOT_COORDINATOR, "the group's shard is no longer served here; look it up again"
    )


def _settle(waiters: list[asyncio.Future[None]], refusal: RefusedError | None) -> None:
    for waiter in waiters:
        if waiter.done():
            continue
        if refusal is None:
            waiter.set_result(None)
        else:
            waiter.set_exception(refusal)
