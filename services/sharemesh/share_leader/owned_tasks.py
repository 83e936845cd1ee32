"""Tasks with an owner: nothing runs on after its owner closed, no error goes unseen."""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from sharemesh.tasks import cancel_and_wait

Result = TypeVar("Result")

_log = logging.getLogger(__name__)


class OwnedTasks:
    """A bounded set of background tasks; ``close`` cancels and awaits what is left."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._tasks: set[asyncio.Task[Any]] = set()

    def __len__(self) -> int:
        return len(self._tasks)

    def spawn(self, work: Coroutine[Any, Any, Result]) -> asyncio.Task[Result]:
        """Run ``work``; an error that it raises is logged with its trace."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def spawn_heard(
        self,
        work: Coroutine[Any, Any, Result],
        hear: Callable[[Result | BaseException], None],
    ) -> asyncio.Task[Result]:
        """Run ``work`` for somebody who waits for its end.

        ``hear`` gets the result, or the error or the cancellation that came instead: however the
        task ends, and even if it never began, it is called once. It must not raise.
        """
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)

        def ended(task: asyncio.Task[Result]) -> None:
            self._tasks.discard(task)
            if task.cancelled():
                hear(asyncio.CancelledError())
            else:
                error = task.exception()
                hear(task.result() if error is None else error)

        task.add_done_callback(ended)
        return task

    async def settle(self) -> None:
        """Return once every task that runs now has ended."""
        while self._tasks:
            await asyncio.wait(set(self._tasks))

    async def close(self) -> None:
        """Cancel all tasks and wait for their end."""
        await cancel_and_wait(*self._tasks)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            _log.error("a task of %s failed", self._name, exc_info=task.exception())
