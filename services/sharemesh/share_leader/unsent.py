"""One bound for all records that were acquired and wait to be sent on streams (spec BND-3)."""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

BEYOND_BYTES = 64 * 1024
"""What a stream without anything to send may acquire although the bound is reached."""


@dataclass(frozen=True, slots=True)
class _WaitingStream:
    """A stream that waits for room."""

    place: int
    wanted: int
    call: Callable[[], None]

    @property
    def least(self) -> int:
        """With how much room it goes on: however much it wants, as little as others."""
        return min(self.wanted, BEYOND_BYTES)


class UnsentBudget:
    """Bytes of records that wait in all streams of a leader, and how much is whose.

    Streams that wait are served in the order of their places, over all principals; one whose
    principal has no room is passed over.
    """

    def __init__(self, total_max: int, principal_max: int) -> None:
        self._total_max = total_max
        self._principal_max = principal_max
        self._of: Counter[str] = Counter()
        self._total = 0
        self._places = 0
        self._waiting: dict[str, dict[int, _WaitingStream]] = {}  # by principal, by place

    @property
    def total(self) -> int:
        """Bytes that wait now."""
        return self._total

    def new_place(self) -> int:
        """Return a place behind all that there were."""
        self._places += 1
        return self._places

    def room(self, principal: str) -> int:
        """Return how many bytes more a principal may have; below 0: there are too many."""
        return min(self._of_principal(principal), self._total_max - self._total)

    def is_behind(self, principal: str, place: int) -> bool:
        """Return whether somebody waits who came before, for room that this place would take."""
        return any(
            first.place < place and (whose == principal or self._of_principal(whose) >= first.least)
            for whose, first in self._firsts()
        )

    def changed(self, principal: str, difference: int) -> None:
        """Count bytes more, or fewer: then some that wait for room are called."""
        self._total += difference
        self._of[principal] += difference
        if not self._of[principal]:
            del self._of[principal]
        if difference < 0:
            self._call()

    def when_room(self, principal: str, place: int, wanted: int, call: Callable[[], None]) -> None:
        """Call once, in turn, when there is room; the callee must ask again."""
        waiting = self._waiting.setdefault(principal, {})
        waiting[place] = _WaitingStream(place, wanted, call)
        if place < max(waiting):  # it was called, and others had taken the room
            self._waiting[principal] = dict(sorted(waiting.items()))

    def forget(self, principal: str, place: int) -> None:
        """Call no more."""
        waiting = self._waiting.get(principal, {})
        waiting.pop(place, None)
        if not waiting:
            self._waiting.pop(principal, None)

    def _of_principal(self, principal: str) -> int:
        return self._principal_max - self._of[principal]

    def _firsts(self) -> Iterator[tuple[str, _WaitingStream]]:
        """Return who waits longest of each principal."""
        for principal, waiting in self._waiting.items():
            yield principal, next(iter(waiting.values()))

    def _call(self) -> None:
        """Call those that came first and have room together."""
        given: Counter[str] = Counter()
        left = self._total_max - self._total
        while True:
            found = min(
                (
                    (first.place, principal)
                    for principal, first in self._firsts()
                    if self._of_principal(principal) - given[principal] >= first.least
                ),
                default=None,
            )
            if found is None:
                return
            place, principal = found
            waiter = self._waiting[principal][place]
            if left < waiter.least:
                return
            room = min(waiter.wanted, self._of_principal(principal) - given[principal], left)
            given[principal] += room
            left -= room
            self.forget(principal, place)
            waiter.call()


class UnsentOfStream:
    """What one stream holds of the budget, and since when it waits for more.

    Attributes:
        acquiring: Bytes that the stream is acquiring now; counted with the next ``hold``.
    """

    def __init__(self, budget: UnsentBudget, principal: str, wake: Callable[[], None]) -> None:
        self._budget = budget
        self._principal = principal
        self._wake = wake
        self._held = self._waiting = 0
        self.acquiring = 0
        self._place: int | None = None
        self._closed = False

    def hold(self, waiting: int) -> None:
        """Hold what waits or is sent, and what is being acquired; after ``close`` nothing."""
        self._waiting = waiting
        size = waiting + self.acquiring
        if size != self._held and not self._closed:
            difference, self._held = size - self._held, size
            self._budget.changed(self._principal, difference)
            if not size and self._place is not None:
                self._leave()
                self._wake()

    def allowed(self, wanted: int) -> int:
        """Return how many bytes may be acquired now; if none, the stream is woken in its turn.

        A stream that has nothing to send may have a little, whatever others hold.
        """
        place = self._budget.new_place() if self._place is None else self._place
        room = self._budget.room(self._principal)
        has_room = room >= min(wanted, BEYOND_BYTES)
        if has_room and not self._budget.is_behind(self._principal, place):
            self._leave()
            return min(wanted, room)
        if not self._held:
            self._leave()
            return min(wanted, BEYOND_BYTES)
        self._place = place
        self._budget.when_room(self._principal, place, wanted, self._wake)
        return 0

    def acquire_more(self, size: int) -> bool:
        """Count so much more as being acquired; False: it has no room (spec BND-34)."""
        if self._budget.room(self._principal) < size:
            return False
        self.acquiring += size
        self.hold(self._waiting)
        return True

    def _leave(self) -> None:
        if self._place is not None:
            self._budget.forget(self._principal, self._place)
            self._place = None

    def close(self) -> None:
        """Return all that the stream holds."""
        self._leave()
        self.acquiring = 0
        self.hold(0)
        self._closed = True
