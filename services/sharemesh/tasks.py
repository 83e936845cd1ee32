"""Background tasks, each with an owner that ends it; bounded waits for tasks and events."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any, TypeVar

Result = TypeVar("Result")

_log = logging.getLogger(__name__)


async def cancel_and_wait(*tasks: "asyncio.Future[Any]") -> None:
    """Cancel tasks and wait until they have ended; the calling task itself is left out.

    Exceptions are retrieved, also those of tasks that are done already, so that asyncio does not
    log them as never retrieved. If the caller is cancelled meanwhile, its own ``CancelledError``
    propagates; awaiting a cancelled task and suppressing the error would swallow it.
    """
    asking = asyncio.current_task()
    running = [task for task in tasks if not task.done() and task is not asking]
    for task in tasks:
        if task.done() and not task.cancelled():
            task.exception()
    for task in running:
        task.cancel()
    await asyncio.gather(*running, return_exceptions=True)


async def wait_until_set(event: asyncio.Event, timeout_ms: int | None) -> None:
    """Return when ``event`` is set, at the latest after ``timeout_ms`` (None: no limit)."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(None if timeout_ms is None else timeout_ms / 1_000):
            await event.wait()


async def to_its_end(work: Coroutine[Any, Any, Result]) -> Result:
    """Return what ``work`` returns; who is cancelled meanwhile waits for its end first.

    For jobs of threads, which nobody can stop, so that what is held for one is held until it is
    over; and for the end of what nobody else knows of any more.
    """
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        while not task.done():  # also when it is cancelled again
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait({task})
        if not task.cancelled():
            task.exception()  # nobody is left to be told
        raise


async def first_done(*waits: "Coroutine[Any, Any, Any] | asyncio.Future[Any]") -> None:
    """Return when one is done; coroutines are then cancelled, tasks and futures continue."""
    own = [asyncio.create_task(each) for each in waits if not isinstance(each, asyncio.Future)]
    try:
        others = [each for each in waits if isinstance(each, asyncio.Future)]
        await asyncio.wait({*own, *others}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in own:
            task.cancel()


@contextlib.asynccontextmanager
async def beside(
    work: Callable[[], Coroutine[Any, Any, None]], *, quiet: type[Exception]
) -> AsyncIterator[None]:
    """Run ``work`` beside the body, whose end cancels it; the body ends with an error of it.

    Errors of the kind ``quiet`` end only the work: of those the body hears by itself.
    """
    body = asyncio.current_task()
    assert body is not None
    failure: Exception | None = None
    is_over = False

    async def run() -> None:
        nonlocal failure
        try:
            await work()
        except quiet:
            pass
        except Exception as error:
            if not is_over:
                failure = error
                body.cancel()

    running = asyncio.ensure_future(run())
    try:
        yield
    except asyncio.CancelledError:
        if failure is None or body.uncancel():
            raise  # somebody else cancelled it
        raise failure from None
    finally:
        is_over = True
        await cancel_and_wait(running)


class OwnedTasks:
    """A bounded set of background tasks; ``close`` cancels and awaits what is left."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._tasks: dict[asyncio.Task[Any], None] = {}  # in the order of their beginning

    def __len__(self) -> int:
        return len(self._tasks)

    def spawn(self, work: Coroutine[Any, Any, Result]) -> asyncio.Task[Result]:
        """Run ``work``; an error that it raises is logged with its trace."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks[task] = None
        task.add_done_callback(self._ended)
        return task

    def spawn_heard(
        self,
        work: Coroutine[Any, Any, Result],
        hear: Callable[[Result | BaseException], None],
    ) -> asyncio.Task[Result]:
        """Run ``work`` and pass its result to a callback.

        ``hear`` gets the result, or the error or the cancellation that came instead: however the
        task ends, and even if it never began, it is called once. It must not raise.
        """
        task = asyncio.get_running_loop().create_task(work)
        self._tasks[task] = None

        def ended(task: asyncio.Task[Result]) -> None:
            self._tasks.pop(task, None)
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
            await asyncio.wait(list(self._tasks))

    async def close(self) -> None:
        """Cancel all tasks and wait for their end."""
        await cancel_and_wait(*self._tasks)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.pop(task, None)
        if not task.cancelled() and task.exception() is not None:
            _log.error("a task of %s failed", self._name, exc_info=task.exception())
