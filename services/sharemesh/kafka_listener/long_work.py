"""Requests and answers of many parts: read and written beside the loop (spec KLS-28)."""

from collections.abc import Callable
from contextvars import copy_context
from functools import partial
from typing import TypeVar

from google.protobuf.message import Message

from sharemesh.shared_threads import SharedThreads

PARTS_IN_LOOP = 500
"""Parts of what is translated or written in the loop: some 5 ms."""

BYTES_IN_LOOP = 64 * 1024
"""Length of a request that is read in the loop, unless it carries records: some 5 ms."""

BYTES_OF_A_PART = 32
"""What a part of a response of ours takes, about."""

Result = TypeVar("Result")


class LongWork:
    """Does what is short at once, and what is long in its one thread, in turn over principals."""

    def __init__(self) -> None:
        self._thread = SharedThreads(1, "kafka-listener")

    async def done(self, principal: str, work: Callable[[], Result], *, is_long: bool) -> Result:
        """Return what ``work`` returns; it looks at nothing that others change."""
        if not is_long:
            return work()
        return await self._thread.run(principal, partial(copy_context().run, work))

    def close(self) -> None:
        """End the thread; nothing long can be done any more."""
        self._thread.close()


def has_many_parts(response: Message) -> bool:
    """Return whether a response without records is long, as its bytes tell."""
    return parts_of(response) > PARTS_IN_LOOP


def parts_of(response: Message) -> int:
    """Return about how many parts a response without records has, rounded up."""
    return -(-response.ByteSize() // BYTES_OF_A_PART)
