"""Calls that have said nothing yet: each has a time, and each principal room for some (BND-29)."""

import asyncio
from collections.abc import Awaitable, Iterable
from typing import TypeVar

SILENT_CALLS_MAX = 1_000
"""Calls of one principal that may be open without a word; 30 MiB of memory (measured)."""

Words = TypeVar("Words")


class TooManySilentError(Exception):
    """A call was ended for newer ones of its principal; the message says how many there are."""


class SilentCalls:
    """Waits for the first words of calls.

    Where a principal has more silent calls than it may, the one that is silent for longest ends:
    who speaks at once is heard, however many of the same principal's calls say nothing.
    """

    def __init__(self, own: Iterable[str]) -> None:
        self._own = frozenset(own)
        self._silent: dict[str, dict[asyncio.Timeout, None]] = {}

    async def spoken(self, principal: str, timeout_ms: int, words: Awaitable[Words]) -> Words:
        """Return what is awaited.

        Raises:
            TimeoutError: It did not come in time.
            TooManySilentError: It had not come when newer silent calls needed the room.
        """
        silent = self._silent.setdefault(principal, {})
        ended: asyncio.Timeout | None = None
        try:
            async with asyncio.timeout(timeout_ms / 1_000) as end:
                ended = end
                silent[end] = None
                if len(silent) > SILENT_CALLS_MAX and principal not in self._own:
                    oldest = next(iter(silent))
                    del silent[oldest]
                    if not oldest.expired():  # its time may be over, and its task not have run
                        oldest.reschedule(asyncio.get_running_loop().time())
                return await words
        except TimeoutError:
            if ended in silent:
                raise
            raise TooManySilentError(
                f"{principal} has {SILENT_CALLS_MAX} calls open here that have said nothing, and "
                "this one was silent for longest"
            ) from None
        finally:
            if ended is not None:
                silent.pop(ended, None)
            if not silent and self._silent.get(principal) is silent:
                del self._silent[principal]
