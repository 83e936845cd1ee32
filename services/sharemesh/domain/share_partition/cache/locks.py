"""Acquisition locks and the index of their deadlines (spec LK)."""

from heapq import heapify, heappop, heappush

DEAD_LOCKS_KEPT = 64  # bound of the heap: at most this many dead locks beyond the live ones


class Lock:
    """One deadline for everything that one step locked or renewed at ``since_ms`` (LK-1, LK-2).

    It covers those records of ``first_offset..last_offset`` whose status names it. What expires
    as one unit is decided by the batch: the whole batch, or one offset if it is tracked so.
    """

    __slots__ = (
        "deadline_ms",
        "fired",
        "first_offset",
        "held",
        "last_offset",
        "order",
        "since_ms",
        "waits",
    )

    def __init__(
        self, since_ms: int, deadline_ms: int, first_offset: int, last_offset: int
    ) -> None:
        self.since_ms = since_ms
        self.deadline_ms = deadline_ms
        self.first_offset = first_offset
        self.last_offset = last_offset
        self.held = 0  # records whose status names this lock
        self.fired = False  # the deadline passed while some records were in transition (LK-9)
        self.waits = False  # for its deadline, in the index
        self.order = -1


class LockIndex:
    """Locks that hold records and wait for their deadline, by deadline, then by age.

    Ended ones are removed lazily, but none is ever the head: whoever asks for the next deadline
    hears of a lock that somebody holds.

    Attributes:
        waiting: The heap of (deadline, age, lock); its head, if there is one, holds records.
    """

    __slots__ = ("_dead", "_orders", "waiting")

    def __init__(self) -> None:
        self.waiting: list[tuple[int, int, Lock]] = []
        self._orders = 0
        self._dead = 0  # entries of locks without records

    def enter(self, lock: Lock, record_count: int) -> None:
        """Note that records name this lock from now on; the first ones start it.

        A lock that lost all its records gets none again.
        """
        lock.held += record_count
        if lock.order < 0:
            self._orders += 1
            lock.order = self._orders
            self._wait(lock)

    def leave(self, lock: Lock, record_count: int) -> None:
        """Note that records no longer name this lock."""
        lock.held -= record_count
        if lock.held == 0 and lock.waits:
            self._dead += 1
            self._drop_dead()

    def pop_due(self, now_ms: int) -> Lock | None:
        """Remove and return the next lock whose deadline is at or before ``now_ms``."""
        heap = self.waiting
        if not heap or heap[0][0] > now_ms:
            return None
        lock = heappop(heap)[2]
        lock.fired = True
        lock.waits = False
        self._drop_dead()
        return lock

    def add_again(self, lock: Lock) -> None:
        """Put a popped lock back in its old place if a part of it has not expired yet."""
        if lock.held > 0:
            self._wait(lock)

    def earliest_ms(self) -> int | None:
        """Return the earliest deadline, or None if no lock is running."""
        return self.waiting[0][0] if self.waiting else None

    def running(self) -> list[Lock]:
        """Return the locks that are still waited for, in no order."""
        return [entry[2] for entry in self.waiting if entry[2].held > 0]

    def _wait(self, lock: Lock) -> None:
        lock.waits = True
        heappush(self.waiting, (lock.deadline_ms, lock.order, lock))

    def _drop_dead(self) -> None:
        """Remove ended locks from the head, and all of them once they are many."""
        heap = self.waiting
        while heap and heap[0][2].held == 0:
            heappop(heap)[2].waits = False
            self._dead -= 1
        if self._dead > DEAD_LOCKS_KEPT and self._dead * 2 > len(heap):
            for entry in heap:
                entry[2].waits = entry[2].held > 0
            self.waiting = [entry for entry in heap if entry[2].waits]
            heapify(self.waiting)
            self._dead = 0
