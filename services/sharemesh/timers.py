"""One timer for all deadlines of a service: locks, long polls, sessions of members."""

import asyncio
import heapq
import logging
from collections.abc import Callable
from dataclasses import dataclass, field

from sharemesh.ports.clock import Clock
from sharemesh.tasks import OwnedTasks

_log = logging.getLogger(__name__)


@dataclass(order=True, slots=True)
class TimerHandle:
    """A callback at a monotonic time; ``cancel`` it when it is no longer needed."""

    deadline_ms: int
    _order: int
    _callback: Callable[[], None] | None = field(compare=False)

    def cancel(self) -> None:
        """Never call back; repeating it is fine."""
        self._callback = None

    def fire(self) -> None:
        """Call back unless cancelled or fired before."""
        callback, self._callback = self._callback, None
        if callback is not None:
            callback()

    @property
    def is_set(self) -> bool:
        """Whether it will still call back."""
        return self._callback is not None


class Timers:
    """A heap of deadlines behind one sleeping task, however many there are.

    Callbacks run on the loop, never inside ``at``. One that raises is logged and concerns nothing
    else: the locks and sessions of all groups here end by this one timer.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._heap: list[TimerHandle] = []
        self._order = 0
        self._cancelled_bound = 64
        self._tasks = OwnedTasks("the timers")
        self._sleeper: asyncio.Task[None] | None = None
        self._wakes_at_ms = 0
        self._closed = False

    def at(self, deadline_ms: int, callback: Callable[[], None]) -> TimerHandle:
        """Call back at ``deadline_ms`` or soon after it."""
        self._order += 1
        alarm = TimerHandle(deadline_ms, self._order, callback)
        heapq.heappush(self._heap, alarm)
        if len(self._heap) > self._cancelled_bound:
            self._compact()
        if not self._closed and (self._sleeper is None or deadline_ms < self._wakes_at_ms):
            self._sleep()
        return alarm

    def every(self, interval_ms: int, callback: Callable[[], None]) -> None:
        """Call back each ``interval_ms`` from now on, also after one call that raised."""

        def due() -> None:
            self.at(self._clock.now_ms() + interval_ms, due)
            callback()

        self.at(self._clock.now_ms() + interval_ms, due)

    async def close(self) -> None:
        """Forget all alarms."""
        self._closed = True
        self._heap.clear()
        await self._tasks.close()

    def _compact(self) -> None:
        """Drop cancelled alarms once they may be half of the heap."""
        self._heap = [alarm for alarm in self._heap if alarm.is_set]
        heapq.heapify(self._heap)
        self._cancelled_bound = max(64, 2 * len(self._heap))

    def _sleep(self) -> None:
        if self._sleeper is not None:
            self._sleeper.cancel()
        self._wakes_at_ms = self._heap[0].deadline_ms
        self._sleeper = self._tasks.spawn(self._run())

    async def _run(self) -> None:
        while self._heap:
            self._wakes_at_ms = self._heap[0].deadline_ms
            wait_ms = self._wakes_at_ms - self._clock.now_ms()
            if wait_ms > 0:
                await self._clock.sleep_ms(wait_ms)
            self._fire_due()
        self._sleeper = None

    def _fire_due(self) -> None:
        now_ms = self._clock.now_ms()
        # While callbacks run, `at` must not replace this very task: it is awake anyhow.
        self._wakes_at_ms = -1
        while self._heap and self._heap[0].deadline_ms <= now_ms:
            alarm = heapq.heappop(self._heap)
            try:
                alarm.fire()
            except Exception:
                _log.exception("what was due at %d ms failed", alarm.deadline_ms)
