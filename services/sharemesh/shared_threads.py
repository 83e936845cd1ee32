"""Threads for what would hold the loop, given in turn over those who ask."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from sharemesh.places import SharedPlaces
from sharemesh.tasks import to_its_end

Result = TypeVar("Result")


class SharedThreads:
    """Does work beside the loop; the threads themselves never have a queue.

    Who asks for the first time waits for one piece of each other one, however much these ask for.
    A turn lasts as long as the thread works for it, also when its caller is gone.
    """

    def __init__(self, count: int, name: str, *, newest_first: bool = False) -> None:
        """``newest_first`` is about the pieces of one who asks (see ``SharedPlaces``)."""
        self._threads = ThreadPoolExecutor(count, name)
        self._places = SharedPlaces(count, newest_first=newest_first)

    async def run(self, whose: str, work: Callable[[], Result]) -> Result:
        """Return what ``work`` returns, once it is the turn of ``whose``."""
        async with self._places.place(whose):
            return await to_its_end(self._in_thread(work))

    async def _in_thread(self, work: Callable[[], Result]) -> Result:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    def close(self) -> None:
        """End the threads; nothing can be done in them any more."""
        self._threads.shutdown(wait=False, cancel_futures=True)
