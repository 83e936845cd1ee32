"""An event loop on its own thread, for clients that are used without asyncio."""

import asyncio
import concurrent.futures
import contextlib
import math
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from sharemesh.client.errors import IllegalStateError, InterruptError

T = TypeVar("T")

STOP_GRACE_MS = 50
"""Longest wait of ``stop`` for the end of the loop's thread."""

_CANCEL_WAIT_S = 1.0

_LOOK_UP_S = 1.0
"""How long a thread that waits may not hear of a signal."""

_CLOSED = "this client is closed"
_FORKED = (
    "this client was made before the process forked, and its network stayed in the other one: "
    "make clients after the fork, one in each process"
)
_OWN_THREAD = (
    "a callback of this client called it in a way that waits, on the thread that it would wait "
    "for: call it on another thread"
)


class BackgroundLoop:
    """Runs coroutines for other threads; the thread ends with the process."""

    def __init__(self, name: str) -> None:
        self._loop = _new_loop()
        self._waited: dict[concurrent.futures.Future[Any], None] = {}
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
        finally:
            self._cancel_all()
            self._cancel_all()  # what was begun while others ended
            self._loop.close()
            for future in tuple(self._waited):  # begun while it ended: nobody else would tell them
                _refuse(future)

    def _cancel_all(self) -> None:
        pending = asyncio.all_tasks(self._loop)
        for task in pending:
            task.cancel()
        if pending:
            self._loop.run_until_complete(asyncio.wait(pending, timeout=_CANCEL_WAIT_S))

    @property
    def is_open(self) -> bool:
        """Whether work can still be run."""
        return not self._loop.is_closed() and self._thread.is_alive()

    @property
    def is_own_thread(self) -> bool:
        """Whether the caller is on the thread of the loop, as callbacks are."""
        return self._thread is threading.current_thread()

    def run(self, work: Coroutine[Any, Any, T], *, timeout_ms: int | None = None) -> T:
        """Return the coroutine's result; it is cancelled after ``timeout_ms``.

        Raises:
            IllegalStateError: The client is closed, or nobody would ever carry it out.
            InterruptError: The waiting thread was interrupted; the work was cancelled.
            TimeoutError: It did not end in time.
        """
        future = self._begun(work)
        try:
            return _result(future, timeout_ms)
        except concurrent.futures.TimeoutError:
            if future.done():
                raise
            future.cancel()
            raise
        except KeyboardInterrupt as interrupt:
            _give_up(future)
            raise InterruptError("interrupted while waiting") from interrupt
        except BaseException:  # also what a signal handler raises, such as SystemExit
            _give_up(future)
            raise
        finally:
            del self._waited[future]

    def check_may_wait(self) -> None:
        """Refuse those who would wait for themselves, or for a thread of another process.

        Raises:
            IllegalStateError: They would.
        """
        if self.is_own_thread:
            raise IllegalStateError(_OWN_THREAD)
        if not self._loop.is_closed() and not self._thread.is_alive():
            raise IllegalStateError(_FORKED)

    def _begun(self, work: Coroutine[Any, Any, T]) -> "concurrent.futures.Future[T]":
        """Begin work that somebody waits for; whatever happens to the loop, it has an end."""
        try:
            self.check_may_wait()
            if self._loop.is_closed():
                raise IllegalStateError(_CLOSED)
            future = asyncio.run_coroutine_threadsafe(work, self._loop)
        except IllegalStateError:
            work.close()
            raise
        self._waited[future] = None
        if self._loop.is_closed():
            _refuse(future)
        return future

    def run_until_stopped(self, work: Coroutine[Any, Any, T], stop: Callable[[], object]) -> T:
        """Return the coroutine's result; an interrupt calls ``stop``, a second one cancels.

        Raises:
            InterruptError: The waiting thread was interrupted twice.
        """
        future = self._begun(work)
        try:
            with contextlib.suppress(KeyboardInterrupt):
                return _result(future)
            self.soon(stop)
            return _result(future)
        except KeyboardInterrupt as interrupt:
            _give_up(future)
            raise InterruptError("interrupted while stopping") from interrupt
        except BaseException:
            _give_up(future)
            raise
        finally:
            del self._waited[future]

    def soon(self, work: Callable[[], object]) -> None:
        """Run ``work`` on the loop, without waiting.

        Raises:
            IllegalStateError: The loop's thread is one of another process.
        """
        if self._loop.is_closed():
            return
        if not self._thread.is_alive():
            raise IllegalStateError(_FORKED)
        self._loop.call_soon_threadsafe(work)

    def stop(self) -> None:
        """End the loop and its thread; work that is still running is cancelled."""
        if self._loop.is_closed() or not self._thread.is_alive():
            return
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(STOP_GRACE_MS / 1_000)


def _result(future: "concurrent.futures.Future[T]", timeout_ms: int | None = None) -> T:
    """Return the result of work, looking up now and then.

    A signal that comes while its thread is about to wait does not end that wait, so its handler
    would run when the work has ended, which may be never.

    Raises:
        TimeoutError: It did not end in time.
    """
    left_s = math.inf if timeout_ms is None else timeout_ms / 1_000
    while True:
        wait_s = min(left_s, _LOOK_UP_S)
        try:
            return future.result(wait_s)
        except concurrent.futures.TimeoutError:
            if future.done():
                return future.result()
            left_s -= wait_s
            if left_s <= 0:
                raise


def _give_up(future: "concurrent.futures.Future[Any]") -> None:
    """Cancel work that nobody waits for any more, unless it has an end."""
    if future.cancel():
        concurrent.futures.wait([future], timeout=_CANCEL_WAIT_S)


def _refuse(future: "concurrent.futures.Future[Any]") -> None:
    with contextlib.suppress(concurrent.futures.InvalidStateError):  # it has an end
        future.set_exception(IllegalStateError(_CLOSED))


class _DropsWhenClosed:
    """A loop that, once it is closed, takes what comes from other threads and drops it.

    gRPC passes what it hears of a call on to the call's loop, whichever client's loop it wakes,
    and that of a client which was closed just then would be an error in the log of another one.
    """

    def call_soon_threadsafe(self, callback: Any, *args: Any, context: Any = None) -> Any:  # noqa: ANN401 - as a loop's
        loop: Any = super()
        try:
            return loop.call_soon_threadsafe(callback, *args, context=context)
        except RuntimeError:
            if not loop.is_closed():
                raise
            dropped = asyncio.Handle(callback, args, loop, context)
            dropped.cancel()
            return dropped


def _new_loop() -> asyncio.AbstractEventLoop:
    """Return a loop for a thread of ours: uvloop's if it is installed, for its turns take less."""
    try:
        import uvloop
    except ImportError:
        plain = asyncio.new_event_loop()
        plain.close()
        kind: type = type(plain)
    else:
        kind = uvloop.Loop
    made: asyncio.AbstractEventLoop = type("ClientLoop", (_DropsWhenClosed, kind), {})()
    return made
