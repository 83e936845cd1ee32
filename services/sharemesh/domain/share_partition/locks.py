"""Acquisition locks and the index of their deadlines (spec section 9)."""

from heapq import heapify, heappop, heappush

DEAD_LOCKS_KEPT = 64  # bound of the heap: at most this many dead locks beyond the live ones


class Lock:
    """One deadline for everything that one step locked or renewed at ``since_ms`` (LK-1, LK-2).

    It covers those records of ``first_offset..last_offset`` whose status names it. What expires
    as one unit is decided by the batch: the whole batch, or one offset if it is tracked so.
    """

    __slots__ = ("deadline_ms", "fired", "first_offset", "held", "last_offset", "order", "since_ms")

    def __init__(
        self, since_ms: int, deadline_ms: int, first_offset: int, last_offset: int
    ) -> None:
        self.since_ms = since_ms
        self.deadline_ms = deadline_ms
        self.first_offset = first_offset
        self.last_offset = last_offset
        self.held = 0  # records whose status names this lock
        self.fired = False  # the deadline passed while some records were in transition (LK-9)
        self.order = -1


class LockIndex:
    """Running locks by deadline, then by age; ended ones are removed lazily.

    Attributes:
        waiting: The heap of (deadline, age, lock); its head, if there is one, is a running lock.
    """

    __slots__ = ("_dead", "_orders", "waiting")

    def __init__(self) -> None:
        self.waiting: list[tuple[int, int, Lock]] = []
        self._orders = 0
        self._dead = 0

    def add(self, lock: Lock) -> None:
        """Start a lock."""
        self._orders += 1
        lock.order = self._orders
        heappush(self.waiting, (lock.deadline_ms, lock.order, lock))

    def add_again(self, lock: Lock) -> None:
        """Put a popped lock back in its old place, because a part of it has not expired yet."""
        heappush(self.waiting, (lock.deadline_ms, lock.order, lock))

    def leave(self, lock: Lock, record_count: int) -> None:
        """Note that records no longer name this lock."""
        lock.held -= record_count
        if lock.held > 0 or lock.fired:
            return
        self._dead += 1
        heap = self.waiting
        while heap and heap[0][2].held == 0:
            heappop(heap)
            self._dead -= 1
        if self._dead > DEAD_LOCKS_KEPT and self._dead * 2 > len(heap):
            self.waiting = [entry for entry in heap if entry[2].held > 0]
            heapify(self.waiting)
            self._dead = 0

    def pop_due(self, now_ms: int) -> Lock | None:
        """Remove and return the next lock whose deadline is at or before ``now_ms``."""
        heap = self.waiting
        if heap and heap[0][0] <= now_ms:
            lock = heappop(heap)[2]
            lock.fired = True
            return lock
        return None

    def earliest_ms(self) -> int | None:
        """Return the earliest deadline, or None if no lock is running."""
        return self.waiting[0][0] if self.waiting else None

    def running(self) -> list[Lock]:
        """Return the locks that are still waited for, in no order."""
        return [entry[2] for entry in self.waiting if entry[2].held > 0]
