"""How many bytes all connections of a listener hold together (spec KLS-5)."""

from collections import Counter, deque
from collections.abc import Callable
from typing import NamedTuple


class _RoomWanted(NamedTuple):
    """Who waits for room, and for how much."""

    owner: object
    principal: str
    size: int
    when_room: Callable[[], None]


class HeldBytes:
    """A budget of bytes, of which one principal has at most ``share``.

    Who finds no room is called once there is, in the order of asking; whoever waits for room of
    its own principal is passed over.
    """

    def __init__(self, limit: int, share: int) -> None:
        self._limit = limit
        self._share = share
        self._of: Counter[str] = Counter()
        self._waiting: deque[_RoomWanted] = deque()
        self.held = 0

    def take(self, owner: object, principal: str, size: int, when_room: Callable[[], None]) -> bool:
        """Take room, or be called when it was taken; more than all there is is never had."""
        is_next = not any(
            self._is_within_share(each.principal, each.size) for each in self._waiting
        )
        if is_next and self.add(principal, size):
            return True
        self._waiting.append(_RoomWanted(owner, principal, size, when_room))
        return False

    def add(self, principal: str, size: int) -> bool:
        """Take room at once; return False, and take none, if there is none."""
        if not self._is_within_share(principal, size):
            return False
        if self.held and self.held + size > self._limit:
            return False
        self.held += size
        self._of[principal] += size
        return True

    def spare(self, principal: str, size: int) -> bool:
        """Take room that nobody waits for, of the first half; return False if there is none."""
        if self._waiting or (self.held + size) * 2 > self._limit:
            return False
        return self.add(principal, size)

    def give_back(self, principal: str, size: int) -> None:
        """Give room back, and call who waited for it."""
        if not size:
            return
        self.held -= size
        self._of[principal] -= size
        if not self._of[principal]:
            del self._of[principal]
        self._call()

    def forget(self, owner: object) -> None:
        """Whoever waited waits no more."""
        self._waiting = deque(each for each in self._waiting if each.owner is not owner)
        self._call()

    def _call(self) -> None:
        """Call those that have room now, up to the first that waits for room of all."""
        called: list[_RoomWanted] = []
        passed: list[_RoomWanted] = []
        while self._waiting:
            first = self._waiting[0]
            if self.add(first.principal, first.size):
                called.append(first)
            elif not self._is_within_share(first.principal, first.size):
                passed.append(first)
            else:
                break
            self._waiting.popleft()
        self._waiting.extendleft(reversed(passed))
        for each in called:
            each.when_room()

    def _is_within_share(self, principal: str, size: int) -> bool:
        has = self._of[principal]
        return has == 0 or has + size <= self._share
