"""Threads for jobs that block: the least work for each job, since every commit is one."""

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from typing import Any, NamedTuple, TypeVar

Result = TypeVar("Result")


class _Job(NamedTuple):
    work: Callable[[], Any]
    outcome: asyncio.Future[Any]
    loop: asyncio.AbstractEventLoop


class DiskThreads:
    """Runs jobs in the order of their coming, at most ``count`` at a time.

    ``concurrent.futures`` would do; but its future with a lock of its own, its semaphore, and the
    second future that is chained to it cost more than a small job itself.
    """

    def __init__(self, count: int, name: str) -> None:
        self._count = count
        self._name = name
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._unfinished = 0
        self._closed = False

    def close(self) -> None:
        """Wait for running jobs and end the threads; jobs that wait are cancelled."""
        self._closed = True
        for _ in self._threads:
            self._jobs.put(None)
        for thread in self._threads:
            thread.join()
        self._threads.clear()

    async def run(self, work: Callable[[], Result]) -> Result:
        """Return the result of a job; if its caller is cancelled before it begins, it never does.

        Raises:
            RuntimeError: The threads have ended, or the machine gives no more of them.
        """
        if self._closed:
            raise RuntimeError(f"the threads {self._name!r} have ended")
        loop = asyncio.get_running_loop()
        outcome: asyncio.Future[Result] = loop.create_future()
        if len(self._threads) < min(self._unfinished + 1, self._count):
            self._start()
        self._unfinished += 1
        self._jobs.put(_Job(work, outcome, loop))
        return await outcome

    def _start(self) -> None:
        name = f"{self._name}_{len(self._threads)}"
        thread = threading.Thread(target=self._work, name=name, daemon=True)
        thread.start()
        self._threads.append(thread)  # only now: one that could not start would count for ever

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            result, error = None, None
            if not (self._closed or job.outcome.cancelled()):
                try:
                    result = job.work()
                except BaseException as failure:
                    error = failure
            else:
                error = asyncio.CancelledError()
            with suppress(RuntimeError):  # the loop has ended: nobody waits any more
                job.loop.call_soon_threadsafe(self._ended, job.outcome, result, error)
            del job, result, error  # nothing is held while the thread waits

    def _ended(
        self, outcome: asyncio.Future[Any], result: object, error: BaseException | None
    ) -> None:
        self._unfinished -= 1
        if outcome.done():
            return  # its caller was cancelled
        if error is None:
            outcome.set_result(result)
        elif isinstance(error, asyncio.CancelledError):
            outcome.cancel()
        elif isinstance(error, StopIteration):  # no future takes one: its caller would wait forever
            outcome.set_exception(RuntimeError("a job raised StopIteration"))
        else:
            outcome.set_exception(error)
