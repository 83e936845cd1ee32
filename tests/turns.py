"""How long a turn of the loop takes, in processor time: others wait for so long (BND-20)."""

import asyncio
import gc
import time
from collections.abc import Awaitable, Callable

import pytest

from sharemesh.ports.clock import Clock

SLICE_MAX_S = 0.05
_TRIES = 3


async def holds_no_turn(work: Callable[[], Awaitable[object]]) -> None:
    """Check that no turn of the loop takes longer than a slice may while ``work`` is done.

    Work is done three times at most: what else a machine does lengthens one turn or another, a
    slice that is too long is so each time.
    """
    longest_s: list[float] = []
    while len(longest_s) < _TRIES:
        longest_s.append(await _longest_turn(work()))
        if longest_s[-1] <= SLICE_MAX_S:
            return
    raise AssertionError(f"longest turns in s: {longest_s}; at most {SLICE_MAX_S}")


async def _longest_turn(work: Awaitable[object]) -> float:
    """Return the processor time of the longest turn of the loop while ``work`` is done.

    What other tests left behind is hidden from the garbage collector: a server has none of it.
    """
    gc.collect()
    gc.freeze()
    try:
        task = asyncio.ensure_future(work)
        longest = 0.0
        while not task.done():
            began = time.thread_time()
            await asyncio.sleep(0)
            longest = max(longest, time.thread_time() - began)
        await task
        return longest
    finally:
        gc.unfreeze()


class Turns:
    """How often functions are called in one turn of work: until its ``Slices`` end a slice."""

    def __init__(self, clock: Clock, patch: pytest.MonkeyPatch) -> None:
        self._patch = patch
        self._now = 0
        self.total = 0
        self.most = 0
        sleep_ms = clock.sleep_ms

        async def slept(duration_ms: int) -> None:
            self._now = 0
            await sleep_ms(duration_ms)

        patch.setattr(clock, "sleep_ms", slept)

    def count(self, owner: object, name: str) -> None:
        """Count the calls of one function."""
        called = getattr(owner, name)

        def counted(*given: object, **named: object) -> object:
            self.total += 1
            self._now += 1
            self.most = max(self.most, self._now)
            return called(*given, **named)

        self._patch.setattr(owner, name, counted)
