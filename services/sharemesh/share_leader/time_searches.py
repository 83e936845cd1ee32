"""Searches by time, which open batches of strangers: a few at once, in turn (spec BND-35)."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

from sharemesh.domain.errors import ErrorCode, RefusedError
from sharemesh.ports.record_log import PartitionLog
from sharemesh.share_leader.settings import LeaderSettings

SEARCHES_AT_ONCE = 2
"""That unpack a batch at the same time; of one principal half of them."""

NOBODY = ""
"""Whose searches are that a leader makes for itself: where a group begins."""


class TimeSearches:
    """Asks record logs which offset has a time."""

    def __init__(self, settings: LeaderSettings) -> None:
        self._places = settings.places(SEARCHES_AT_ONCE)
        self._wait_ms = settings.max_time_search_wait_ms

    async def find(
        self, log: PartitionLog, timestamp_ms: int, principal: str
    ) -> tuple[int, int] | None:
        """Return (offset, timestamp) of the first record at or after the time, or None.

        Raises:
            RefusedError: REQUEST_TIMED_OUT, without a turn in time; or an error of the log.
        """
        return await log.offset_for_timestamp(timestamp_ms, partial(self._turn, principal))

    @asynccontextmanager
    async def _turn(self, principal: str) -> AsyncIterator[None]:
        try:
            async with asyncio.timeout(self._wait_ms / 1_000):
                await self._places.take(principal)
        except TimeoutError:
            raise RefusedError(
                ErrorCode.REQUEST_TIMED_OUT,
                f"other searches by time took longer than {self._wait_ms} ms: ask again, for "
                "fewer partitions at once",
            ) from None
        try:
            yield
        finally:
            self._places.give_back(principal)
