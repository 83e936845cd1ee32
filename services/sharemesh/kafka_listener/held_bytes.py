"""How many bytes all connections of a listener hold together (spec KLS-5)."""

from collections import deque
from collections.abc import Callable


class HeldBytes:
    """A budget of bytes: who finds no room is called once there is, in the order of asking."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._waiting: deque[tuple[object, int, Callable[[], None]]] = deque()
        self.held = 0

    def take(self, owner: object, size: int, when_room: Callable[[], None]) -> bool:
        """Take room, or be called when it was taken; more than all there is is never had."""
        if not self._waiting and self._fits(size):
            self.held += size
            return True
        self._waiting.append((owner, size, when_room))
        return False

    def add(self, size: int) -> bool:
        """Take room at once; return False, and take none, if there is none."""
        if not self._fits(size):
            return False
        self.held += size
        return True

    def give_back(self, size: int) -> None:
        """Give room back, and call who waited for it."""
        self.held -= size
        while self._waiting and self._fits(self._waiting[0][1]):
            _, taken, when_room = self._waiting.popleft()
            self.held += taken
            when_room()

    def forget(self, owner: object) -> None:
        """Whoever waited waits no more."""
        self._waiting = deque(each for each in self._waiting if each[0] is not owner)
        self.give_back(0)

    def _fits(self, size: int) -> bool:
        return self.held == 0 or self.held + size <= self._limit
