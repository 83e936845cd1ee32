"""Read barrier: checks that no higher fence exists before records are delivered (LOG-8)."""

import asyncio
from functools import partial

from sharemesh.ports.record_log import PartitionLog
from sharemesh.ports.shard_log import LogFailedError
from sharemesh.tasks import OwnedTasks


class ReadBarrier:
    """Runs at most one check and plans at most one more, however many requests need one.

    A check is valid for a request only if it began after the request arrived: requests that
    arrive during a check share the next one.
    """

    def __init__(self, log: PartitionLog, tasks: OwnedTasks) -> None:
        self._log = log
        self._tasks = tasks
        self._running: asyncio.Future[None] | None = None
        self._planned: asyncio.Future[None] | None = None

    async def look(self) -> None:
        """Return once a check that began after this call found no higher fence.

        Raises:
            FencedError: There is one; LogFailedError: the epoch of the log has ended.
        """
        if self._running is None:
            await self._lead()
            return
        if self._planned is None:
            self._planned = asyncio.get_running_loop().create_future()
            self._tasks.spawn_heard(self._follow(self._running), partial(_settle, self._planned))
        await asyncio.shield(self._planned)

    async def _lead(self) -> None:
        """Check now, in the caller's own task: the common case costs no extra task."""
        running = self._running = asyncio.get_running_loop().create_future()
        try:
            await self._log.look()
        finally:
            self._running = None
            running.set_result(None)

    async def _follow(self, before: asyncio.Future[None]) -> None:
        await asyncio.wait([before])
        self._planned = None
        await self.look()


def _settle(mine: asyncio.Future[None], outcome: BaseException | None) -> None:
    """Pass the outcome of a check to its waiters, which may all be cancelled."""
    if outcome is None:
        mine.set_result(None)
        return
    is_stopped = isinstance(outcome, asyncio.CancelledError)
    mine.set_exception(LogFailedError("this process stops") if is_stopped else outcome)
    mine.exception()
