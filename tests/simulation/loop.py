"""An event loop in virtual time: many processes in one thread, interleaved by a seed.

Each process has its own queue of ready callbacks and keeps asyncio's promise of first in, first
out; which process runs next is chance. A killed process never runs again, not even its
``finally`` blocks; a frozen one keeps what arrives until it is thawed, while time goes on.
"""

import asyncio
import contextvars
import heapq
import itertools
from collections import deque
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any, TypeGuard

TURNS_MAX = 20_000_000
"""Callbacks of one run; more is a busy loop that time cannot end."""

WALL_MS = 1_700_000_000_000
"""Wall clock when a run begins."""

TURN_S = 1e-6
"""What a callback costs: no two moments of a process are the same, as on a real machine."""

KEPT_MAX = 2_000
"""How many tasks a process keeps before those that are done go."""

STUCK_TURNS = 200_000
"""Callbacks within a second of virtual time; more is a busy loop."""


class Process:
    """What is killed and frozen together: a context that its tasks inherit, and a queue."""

    def __init__(self, loop: "SimLoop", name: str) -> None:
        self.loop = loop
        self.name = name
        self.alive = True
        self.frozen = False
        self.frozen_s = self.thawed_s = float("-inf")
        self.queue: deque[SimHandle] = deque()
        self._context = contextvars.copy_context()
        self._context.run(PROCESS.set, self)
        self._kept: list[object] = []
        self._failed: list[asyncio.Task[Any]] = []
        loop.processes.append(self)

    def __repr__(self) -> str:
        return self.name

    def context(self) -> contextvars.Context:
        """Return a new context of this process."""
        return self._context.copy()

    def start(self, work: Coroutine[Any, Any, Any], name: str = "") -> "asyncio.Task[Any]":
        """Run a coroutine as part of this process."""
        return self.loop.create_task(work, name=name or self.name, context=self.context())

    def keep(self, thing: object) -> None:
        """Keep a task from being collected after a kill: its ``finally`` must not run."""
        self._kept.append(thing)
        if len(self._kept) > KEPT_MAX:
            self._failed = self.unheard()
            self._kept = [each for each in self._kept if not _done(each)]

    def unheard(self) -> "list[asyncio.Task[Any]]":
        """Return the tasks that failed, and nobody asked how they ended."""
        return [each for each in (*self._failed, *self._kept) if _is_unheard(each)]

    def kill(self) -> None:
        """Stop for ever, at this very moment."""
        if self.queue:  # among those that run no more may be who asked how a task ended
            for task in self.unheard():
                if task not in self._failed:
                    task.exception()
        self.alive = False
        self.loop.forget(self)

    def freeze(self) -> None:
        """As SIGSTOP."""
        self.frozen = True
        self.frozen_s = self.loop.time()
        self.loop.forget(self, keep=True)

    def thaw(self) -> None:
        """As SIGCONT: everything that became due meanwhile is due now."""
        self.frozen = False
        self.thawed_s = self.loop.time()
        self.loop.wake(self)


PROCESS: contextvars.ContextVar[Process] = contextvars.ContextVar("process")
# What asyncio.sleep calls when it is over: to be told apart it must be the very same function.
_wake_up = asyncio.futures._set_result_unless_cancelled  # type: ignore[attr-defined]
_copy_context, _heappush, _heappop = contextvars.copy_context, heapq.heappush, heapq.heappop


def _done(thing: object) -> bool:
    return isinstance(thing, asyncio.Future) and thing.done()


def _is_unheard(thing: object) -> TypeGuard["asyncio.Task[Any]"]:
    """Whether asyncio would complain of a task, were it collected: here no task ever is.

    Only its own mark tells: to ask for the exception would count as having heard it.
    """
    return isinstance(thing, asyncio.Task) and bool(thing._log_traceback)


class _Numbered:
    """Hashes by a number given when it is first asked for: sets have the same order in each run."""

    def __hash__(self) -> int:
        try:
            return self.number
        except AttributeError:
            self.number: int = self.get_loop().next_number()  # type: ignore[attr-defined]
            return self.number


class SimFuture(_Numbered, asyncio.Future):
    """A future with a stable place in sets."""


class SimTask(_Numbered, asyncio.Task):
    """A task with a stable place in sets."""


class SimHandle:
    """A callback of a process; what asyncio's handles offer, and cheaper."""

    __slots__ = ("args", "callback", "context", "is_cancelled", "process", "when_s")

    def __init__(
        self,
        when_s: float,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        context: contextvars.Context | None,
        world: Process,
    ) -> None:
        self.when_s = when_s
        self.callback = callback
        self.args = args
        if context is None:
            context = _copy_context()
        self.context = context
        self.process = context.get(PROCESS, world)
        self.is_cancelled = False

    def __repr__(self) -> str:
        return f"<{self.callback!r} of {self.process}>"

    def cancel(self) -> None:
        self.is_cancelled = True

    def cancelled(self) -> bool:
        return self.is_cancelled

    def when(self) -> float:
        return self.when_s


class SimLoop(asyncio.BaseEventLoop):
    """Waiting costs nothing: time jumps to the next timer."""

    def __init__(self, rng: Random) -> None:
        super().__init__()
        self._rng = rng
        self._time_s = 0.0
        self._timers: list[tuple[float, int, SimHandle]] = []
        self._numbers = itertools.count(1)
        self._window_s, self._window_turns = 0.0, 0
        self._due: list[Process] = []
        self.turns = 0
        self.processes: list[Process] = []
        self.after_turn: Callable[[], None] | None = None
        self.world = Process(self, "world")

    # ---- what asyncio asks ----------------------------------------------------------------------

    def time(self) -> float:
        return self._time_s

    def get_debug(self) -> bool:
        return False  # each future asks, so nothing is looked up

    def create_future(self) -> "asyncio.Future[Any]":
        return SimFuture(loop=self)

    def next_number(self) -> int:
        """Return the number of the next future or task."""
        return next(self._numbers)

    def call_soon(  # type: ignore[override]
        self,
        callback: Callable[..., object],
        *args: Any,
        context: contextvars.Context | None = None,
    ) -> SimHandle:
        handle = SimHandle(0.0, callback, args, context, self.world)
        process = handle.process
        if process.queue and process.alive:
            process.queue.append(handle)  # the common case: it is among those that run already
        else:
            self._add(handle)
        return handle

    def call_soon_threadsafe(  # type: ignore[override]
        self,
        callback: Callable[..., object],
        *args: Any,
        context: contextvars.Context | None = None,
    ) -> SimHandle:
        raise RuntimeError("the simulation has one thread")

    def call_at(  # type: ignore[override]
        self,
        when: float,
        callback: Callable[..., object],
        *args: Any,
        context: contextvars.Context | None = None,
    ) -> SimHandle:
        handle = SimHandle(when, callback, args, context, self.world)
        _heappush(self._timers, (when, next(self._numbers), handle))
        return handle

    def call_later(  # type: ignore[override]
        self,
        delay: float,
        callback: Callable[..., object],
        *args: Any,
        context: contextvars.Context | None = None,
    ) -> SimHandle:
        return self.call_at(self._time_s + delay, callback, *args, context=context)

    def create_task(  # type: ignore[override]
        self,
        coro: Coroutine[Any, Any, Any],
        *,
        name: str | None = None,
        context: contextvars.Context | None = None,
    ) -> "asyncio.Task[Any]":
        task = SimTask(coro, loop=self, name=name, context=context)
        process = context.get(PROCESS) if context is not None else PROCESS.get(None)
        (process or self.world).keep(task)
        return task

    def _asyncgen_finalizer_hook(self, agen: Any) -> None:
        """Leave abandoned generators alone: when they are collected is not the seed's choice."""

    # ---- processes ------------------------------------------------------------------------------

    def forget(self, process: Process, *, keep: bool = False) -> None:
        """Take a process from those that run."""
        if process in self._due:
            self._due.remove(process)
        if not keep:
            for handle in process.queue:
                process.keep(handle)
            process.queue.clear()

    def wake(self, process: Process) -> None:
        """Let a process run what waits for it."""
        if process.alive and process.queue and process not in self._due:
            self._due.append(process)

    def _add(self, handle: SimHandle) -> None:
        process = handle.process
        if not process.alive:
            process.keep(handle)
            return
        process.queue.append(handle)
        if len(process.queue) == 1 and not process.frozen:
            self._due.append(process)

    def _run_once(self) -> None:
        """Run callbacks until somebody stops the loop: one function, because it is the hot one."""
        due, timers, chance = self._due, self._timers, self._rng.random
        while not self._stopping:  # type: ignore[attr-defined]
            if not due or (timers and timers[0][0] <= self._time_s):
                self._advance()
                if not due:
                    continue
            index = int(chance() * len(due)) if len(due) > 1 else 0
            queue = due[index].queue
            handle = queue.popleft()
            if not queue:
                del due[index]
            if handle.is_cancelled:
                continue
            self.turns += 1
            self._time_s = time_s = self._time_s + TURN_S
            if time_s - self._window_s > 1:
                self._window_s, self._window_turns = time_s, self.turns
            elif self.turns - self._window_turns > STUCK_TURNS or self.turns > TURNS_MAX:
                self._stuck(handle)
            try:
                handle.context.run(handle.callback, *handle.args)
            except (SystemExit, KeyboardInterrupt):
                raise
            except BaseException as error:
                self.call_exception_handler({"message": f"{handle} failed", "exception": error})
            if self.after_turn is not None:
                self.after_turn()

    def _stuck(self, handle: SimHandle) -> None:
        where = _waiting_at(getattr(handle.callback, "__self__", None))
        raise BusyLoopError(
            f"{handle.process} runs without end at {self._time_s:.3f} s: {handle} {where}"
        )

    def _advance(self) -> None:
        timers = self._timers
        if not timers:
            raise RuntimeError("deadlock: nothing is ready and nothing is scheduled")
        if not self._due and timers[0][0] > self._time_s:
            self._time_s = timers[0][0]
        while timers and timers[0][0] <= self._time_s:
            handle = _heappop(timers)[2]
            if handle.is_cancelled:
                continue
            process = handle.process
            if handle.callback is _wake_up and process.alive and not process.frozen:
                handle.callback(*handle.args)  # the end of a sleep: who slept gets the turn
            else:
                self._add(handle)


def _waiting_at(task: object) -> str:
    """Return the frames of a task, outermost first."""
    frames: list[str] = []
    inner: Any = task.get_coro() if isinstance(task, asyncio.Task) else None
    while inner is not None and getattr(inner, "cr_frame", None) is not None:
        frames.append(f"{inner.cr_code.co_qualname}:{inner.cr_frame.f_lineno}")
        inner = inner.cr_await
    return " > ".join(frames)


class BusyLoopError(Exception):
    """Callbacks follow each other and time stands still."""


class SimClock:
    """One process's clock (port Clock): its own origin, and perhaps a rate of its own."""

    def __init__(self, loop: SimLoop, *, start_ms: int = 1_000_000, rate: float = 1.0) -> None:
        self._loop = loop
        self._start_ms = start_ms
        self._rate = rate

    def now_ms(self) -> int:
        return self._start_ms + int(self._loop.time() * 1_000 * self._rate + 1e-6)

    def wall_ms(self) -> int:
        return WALL_MS + int(self._loop.time() * 1_000 + 1e-6)

    async def sleep_ms(self, duration_ms: int) -> None:
        await asyncio.sleep(max(0, duration_ms) / 1_000 / self._rate)
