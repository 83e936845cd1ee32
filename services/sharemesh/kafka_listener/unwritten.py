"""Answers in slices: TLS hides from its user what the transport below it has not sent."""

from collections import deque
from collections.abc import Callable, Iterable
from typing import Protocol

SLICE_BYTES = 64 * 1024
"""What a transport is given at a time."""

TURN_BYTES = 1024 * 1024
"""What it is given in a turn of the loop: it encrypts and sends so much in some milliseconds."""


class Writable(Protocol):
    """What takes pieces of answers."""

    def writelines(self, list_of_data: Iterable[memoryview], /) -> None:
        """Take pieces (asyncio)."""
        ...


class Unwritten:
    """Pieces of answers that a transport has not been given yet; none of them is copied.

    A transport of TLS passes on all that it is given at once, to a transport whose buffer nobody
    can see: it says that it is full only at what it is given after that.
    """

    def __init__(self) -> None:
        self._pieces: deque[memoryview] = deque()
        self.size = 0

    def add(self, pieces: Iterable[bytes]) -> None:
        """Put an answer behind those that are here."""
        for each in pieces:
            if each:
                self._pieces.append(memoryview(each))
                self.size += len(each)

    def write_to(self, transport: Writable, takes_more: Callable[[], bool]) -> None:
        """Give the transport what belongs to this turn, as long as it takes more."""
        left = TURN_BYTES
        while self._pieces and left > 0 and takes_more():
            some = self._next(min(left, SLICE_BYTES))
            given = sum(map(len, some))
            left -= given
            self.size -= given
            transport.writelines(some)

    def _next(self, room: int) -> list[memoryview]:
        """Take pieces of so many bytes, the last one in two if it is longer."""
        some: list[memoryview] = []
        while self._pieces and room:
            first = self._pieces.popleft()
            if len(first) > room:
                self._pieces.appendleft(first[room:])
                first = first[:room]
            some.append(first)
            room -= len(first)
        return some
