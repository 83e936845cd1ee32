"""An event loop on its own thread, for clients that are used without asyncio."""

import asyncio
import concurrent.futures
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from sharemesh.client.errors import IllegalStateError, InterruptError

T = TypeVar("T")

STOP_GRACE_MS = 50
"""Longest wait of ``stop`` for the end of the loop's thread."""

_CANCEL_WAIT_S = 1.0


class BackgroundLoop:
    """Runs coroutines for other threads; the thread ends with the process."""

    def __init__(self, name: str) -> None:
        self._loop = _new_loop()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
        finally:
            pending = asyncio.all_tasks(self._loop)
            for task in pending:
                task.cancel()
            if pending:
                self._loop.run_until_complete(asyncio.wait(pending, timeout=_CANCEL_WAIT_S))
            self._loop.close()

    @property
    def is_open(self) -> bool:
        """Whether work can still be run."""
        return not self._loop.is_closed() and self._thread.is_alive()

    def run(self, work: Coroutine[Any, Any, T], *, timeout_ms: int | None = None) -> T:
        """Return the coroutine's result; it is cancelled after ``timeout_ms``.

        Raises:
            InterruptError: The waiting thread was interrupted; the work was cancelled.
            TimeoutError: It did not end in time.
        """
        if self._loop.is_closed():
            work.close()
            raise IllegalStateError("this client is closed")
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result(None if timeout_ms is None else timeout_ms / 1_000)
        except concurrent.futures.TimeoutError:
            if future.done():
                raise
            future.cancel()
            raise
        except KeyboardInterrupt as interrupt:
            future.cancel()
            concurrent.futures.wait([future], timeout=_CANCEL_WAIT_S)
            raise InterruptError("interrupted while waiting") from interrupt

    def run_until_stopped(self, work: Coroutine[Any, Any, T], stop: Callable[[], object]) -> T:
        """Return the coroutine's result; an interrupt calls ``stop``, a second one cancels.

        Raises:
            InterruptError: The waiting thread was interrupted twice.
        """
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except KeyboardInterrupt:
            self.soon(stop)
        try:
            return future.result()
        except KeyboardInterrupt as interrupt:
            future.cancel()
            concurrent.futures.wait([future], timeout=_CANCEL_WAIT_S)
            raise InterruptError("interrupted while stopping") from interrupt

    def soon(self, work: Callable[[], object]) -> None:
        """Run ``work`` on the loop, without waiting."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(work)

    def stop(self) -> None:
        """End the loop and its thread; work that is still running is cancelled."""
        if self._loop.is_closed():
            return
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(STOP_GRACE_MS / 1_000)


def _new_loop() -> asyncio.AbstractEventLoop:
    """Return a loop for a thread of ours: uvloop's if it is installed, for its turns take less."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()
