"""Messages of one stream between the transport and its reader, bounded."""

import asyncio
from collections import deque
from typing import Generic, TypeVar

Item = TypeVar("Item")


class Inbox(Generic[Item]):
    """Holds what was read ahead, so that a cancelled reader loses nothing.

    gRPC ends the call when a read is cancelled; so one pump reads, and readers wait here.
    One filler and one reader at a time.
    """

    def __init__(self, max_items: int) -> None:
        self._items: deque[Item] = deque()
        self._max_items = max_items
        self._ended = False
        self._error: Exception | None = None
        self._filled: asyncio.Future[None] | None = None
        self._emptied: asyncio.Future[None] | None = None
        self._loop = asyncio.get_running_loop()

    @property
    def ended(self) -> bool:
        """Whether the other side will say nothing more."""
        return self._ended

    async def put(self, item: Item) -> None:
        """Add an item once there is room."""
        while len(self._items) >= self._max_items and not self._ended:
            self._emptied = self._loop.create_future()
            await self._emptied
        if not self._ended:
            self._items.append(item)
            _wake(self._filled)

    def end(self, error: Exception | None = None) -> None:
        """No more items: readers get what is left, then the error or the end."""
        if self._ended:
            return
        self._ended = True
        self._error = error
        _wake(self._filled)
        _wake(self._emptied)

    async def get(self) -> Item:
        """Return the next item.

        Raises:
            StopAsyncIteration: Ended in good order.
            CallFailedError: Ended with that error.
        """
        while not self._items:
            if self._ended:
                if self._error is not None:
                    raise self._error
                raise StopAsyncIteration
            self._filled = self._loop.create_future()
            await self._filled
        item = self._items.popleft()
        _wake(self._emptied)
        return item


def _wake(waiter: asyncio.Future[None] | None) -> None:
    if waiter is not None and not waiter.done():
        waiter.set_result(None)
