"""Requests and answers of many parts: read and written beside the loop (spec KLS-28)."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from typing import TypeVar

from google.protobuf.message import Message

from sharemesh.places import SharedPlaces
from sharemesh.tasks import to_its_end

PARTS_IN_LOOP = 500
"""Parts of what is translated or written in the loop: some 5 ms."""

BYTES_IN_LOOP = 64 * 1024
"""Length of a request that is read in the loop, unless it carries records: some 5 ms."""

BYTES_OF_A_PART = 32
"""What a part of a response of ours takes, about."""

Result = TypeVar("Result")


class LongWork:
    """Does what is short at once, and what is long in its one thread while the loop goes on.

    What is long is done in turn over the principals that ask: the thread never has a queue.
    """

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, "kafka-listener")
        self._turns = SharedPlaces(1)

    async def done(self, principal: str, work: Callable[[], Result], *, is_long: bool) -> Result:
        """Return what ``work`` returns; it looks at nothing that others change."""
        if not is_long:
            return work()
        run = copy_context().run
        async with self._turns.place(principal):
            return await to_its_end(self._in_thread(partial(run, work)))

    async def _in_thread(self, work: Callable[[], Result]) -> Result:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    def close(self) -> None:
        """End the thread; nothing long can be done any more."""
        self._thread.shutdown(wait=False, cancel_futures=True)


def has_many_parts(response: Message) -> bool:
    """Return whether a response without records is long, as its bytes tell."""
    return parts_of(response) > PARTS_IN_LOOP


def parts_of(response: Message) -> int:
    """Return about how many parts a response without records has, rounded up."""
    return -(-response.ByteSize() // BYTES_OF_A_PART)
