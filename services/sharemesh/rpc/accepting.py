"""gRPC's asyncio server with several calls asked for ahead (decision 0012).

As it ships, the server asks the core of gRPC for the next call only once the last one has its
task: two changes of thread and five turns of the loop for each call. On a busy loop that is a
queue in which a few hundred calls a second wait for each other, whoever they are of.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from contextvars import Context
from typing import Any, Self

import grpc
from grpc._cython import cygrpc
from grpc.aio import _server

from sharemesh.tasks import OwnedTasks, cancel_and_wait

_log = logging.getLogger(__name__)

CALLS_AHEAD = 32
"""Calls that the core may hand over before the loop comes to the first of them."""

UNSERVED_S = 1.0
"""What is on its way has this long to arrive once the last served call of a server has ended."""

_NEEDED = ("_make_request_call_future", "_request_call", "_server_main_loop", "shutdown")

_SERVED_CALL = "rpc_task"
"""The name that the server gives the task of each call."""


class _NextCall(asyncio.Future[Any]):
    """A call that came; who waits for one that is there already does so in no turn of the loop.

    The server's loop waits with ``asyncio.wait``, which takes two turns for each call even so.
    When it is cancelled it gathers what is left: ``asyncio.gather`` wants a future as others are.
    """

    def add_done_callback(
        self, fn: Callable[[Self], object], /, *, context: Context | None = None
    ) -> None:
        """Call when the call is there, or at once."""
        task = asyncio.current_task()
        if self.done() and not (task is not None and task.cancelling()):
            fn(self)
        else:
            super().add_done_callback(fn, context=context)


class _CallsAhead(cygrpc.AioServer):  # type: ignore[misc]
    """Answers the server's loop from calls that were asked for before."""

    def __init__(self, *arguments: object) -> None:
        super().__init__(*arguments)
        self._asked: dict[asyncio.Task[Any], None] = {}
        self._came: deque[asyncio.Task[Any]] = deque()
        self._next: _NextCall | None = None
        self._stops = False
        self._takes_none = asyncio.Event()
        self._ending = OwnedTasks("a gRPC server that stops")

    async def shutdown(self, grace: float | None) -> None:
        """Stop; calls that nobody took end at once rather than with the grace.

        The core cancels a call that is held no more. One that reaches it in the moment in which it
        stops may wait there, served by nobody, until the grace is over: what is left ``UNSERVED_S``
        after the end of the last served call is cancelled.
        """
        self._stops = True
        self._came.clear()
        unserved = asyncio.ensure_future(self._end_unserved())
        try:
            await super().shutdown(grace)
        finally:
            await cancel_and_wait(unserved)

    async def _end_unserved(self) -> None:
        await self._takes_none.wait()
        served = [each for each in asyncio.all_tasks() if each.get_name() == _SERVED_CALL]
        if served:
            await asyncio.wait(served)
        # A task of its own: a shutdown that is interrupted while it cancels loses its end.
        self._ending.spawn(super().shutdown(UNSERVED_S))

    async def _server_main_loop(self, server_started: asyncio.Future[bool]) -> None:
        try:
            await super()._server_main_loop(server_started)
        finally:
            self._takes_none.set()

    def _make_request_call_future(self, method: bytes | None) -> asyncio.Future[Any]:
        """Return a future of the next call; the server's loop waits for one at a time."""
        if method is not None:
            raise NotImplementedError("methods are generic here: none is registered by its name")
        while len(self._asked) + len(self._came) < CALLS_AHEAD:
            task = asyncio.get_running_loop().create_task(self._request_call())
            self._asked[task] = None
            task.add_done_callback(self._arrived)
        self._next = _NextCall(loop=asyncio.get_running_loop())
        if self._came:
            self._give(self._came.popleft())
        return self._next

    def _arrived(self, task: asyncio.Task[Any]) -> None:
        del self._asked[task]
        if self._next is not None and not self._next.done():
            self._give(task)
        elif not task.cancelled() and task.exception() is None and not self._stops:
            self._came.append(task)

    def _give(self, task: asyncio.Task[Any]) -> None:
        assert self._next is not None
        if task.cancelled():
            self._next.cancel()
        elif (error := task.exception()) is not None:
            self._next.set_exception(error)
        else:
            self._next.set_result(task.result())


class _Server(_server.Server):
    """A server over ``_CallsAhead``; all else is gRPC's."""

    def __init__(self, options: Sequence[tuple[str, Any]], maximum_concurrent_rpcs: int) -> None:
        self._loop = cygrpc.get_working_loop()
        self._server = _CallsAhead(
            self._loop, None, (), (), tuple(options), maximum_concurrent_rpcs
        )


def accepts_ahead() -> bool:
    """Return whether this version of gRPC has the inner parts that are replaced here."""
    return all(hasattr(cygrpc.AioServer, name) for name in _NEEDED)


def grpc_server(
    options: Sequence[tuple[str, Any]], maximum_concurrent_rpcs: int
) -> grpc.aio.Server:
    """Return a server as ``grpc.aio.server`` does."""
    if accepts_ahead():
        server: grpc.aio.Server = _Server(options, maximum_concurrent_rpcs)  # type: ignore[assignment]
        return server
    _log.warning(
        "grpcio %s takes one call at a time: latencies grow with the calls of others; use the "
        "version that this release was tested with",
        grpc.__version__,
    )
    return grpc.aio.server(options=options, maximum_concurrent_rpcs=maximum_concurrent_rpcs)
