"""Threads for handlers that may never end.

Those of ``concurrent.futures.ThreadPoolExecutor`` are waited for when the program ends, so that one
handler that hangs keeps the process for ever.
"""

import contextlib
import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import Empty, SimpleQueue
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

_Call = tuple["Future[Any]", Callable[[], Any]]


class DaemonThreads:
    """At most ``most`` threads, each begun when no other is free."""

    def __init__(self, most: int, name: str) -> None:
        self._most = most
        self._name = name
        self._calls: SimpleQueue[_Call | None] = SimpleQueue()
        self._idle = threading.Semaphore(0)
        self._threads: list[threading.Thread] = []

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> "Future[T]":
        """Call it on one of the threads."""
        future: Future[T] = Future()
        self._calls.put((future, lambda: fn(*args, **kwargs)))
        if not self._idle.acquire(blocking=False) and len(self._threads) < self._most:
            name = f"{self._name}-{len(self._threads)}"
            thread = threading.Thread(target=self._work, name=name, daemon=True)
            self._threads.append(thread)
            thread.start()
        return future

    def close(self) -> None:
        """Leave out what has not begun; each thread ends after its call, nobody waits for it."""
        left: list[_Call | None] = []
        with contextlib.suppress(Empty):
            while True:
                left.append(self._calls.get_nowait())
        for call in left:
            if call is not None:
                call[0].cancel()
        self._calls.put(None)

    def _work(self) -> None:
        while True:
            call = self._calls.get()
            if call is None:
                self._calls.put(None)  # for the next thread
                return
            _do(*call)
            del call  # or a thread that is idle holds a record
            self._idle.release()


def _do(future: "Future[Any]", call: Callable[[], Any]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        result = call()
    except BaseException as error:
        future.set_exception(error)
    else:
        future.set_result(result)
