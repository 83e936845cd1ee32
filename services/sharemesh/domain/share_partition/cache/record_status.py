"""What the records of one run have in common, and the lock that they name (spec RS, LK)."""

from dataclasses import dataclass
from heapq import heapify, heappop, heappush

from sharemesh.domain.delivery_state import DeliveryState
from sharemesh.domain.ids import MemberId
from sharemesh.domain.quota.counts import HeldRecords

DEAD_LOCKS_KEPT = 64  # bound of the heap: at most this many dead locks beyond the live ones
NO_MEMBER = MemberId("")  # spec RS-15
HAND_BACKS_MAX = 1_000
"""Uncounted releases of a record in a row; the next one counts (HBK-5)."""

_AVAILABLE = DeliveryState.AVAILABLE
_ACKNOWLEDGED = DeliveryState.ACKNOWLEDGED
_ARCHIVED = DeliveryState.ARCHIVED


@dataclass(slots=True, eq=False)
class Lock:
    """One deadline for everything that one step locked or renewed at ``since_ms`` (LK-1, LK-2).

    It covers those records of ``first_offset..last_offset`` whose status names it. What expires
    as one unit is decided by the batch: the whole batch, or one offset if it is tracked so.
    ``acquired_at_ms`` is wall time, which renewals keep; 0: not known (EXP-9). ``acquired_in`` is
    the earlier leader epoch in which it was acquired, and handed over since; 0: this one (HND-6).
    ``principal`` is then whose it is: who opens a session of the member may be another (HND-10).
    """

    since_ms: int
    deadline_ms: int
    first_offset: int
    last_offset: int
    held: int = 0  # records whose status names this lock
    fired: bool = False  # the deadline passed while some records were in transition (LK-9)
    waits: bool = False  # for its deadline, in the index
    order: int = -1
    tally: HeldRecords | None = None  # of the principal, if a quota bounds its records (QUO-12)
    acquired_at_ms: int = 0
    acquired_in: int = 0
    principal: str = ""

    def again(self, since_ms: int, deadline_ms: int, first_offset: int, last_offset: int) -> "Lock":
        """Return another lock of the same acquisition."""
        return Lock(
            since_ms,
            deadline_ms,
            first_offset,
            last_offset,
            tally=self.tally,
            acquired_at_ms=self.acquired_at_ms,
            acquired_in=self.acquired_in,
            principal=self.principal,
        )


class LockIndex:
    """Locks that hold records and wait for their deadline, by deadline, then by age.

    Ended ones are removed lazily, but none is ever the head: whoever asks for the next deadline
    gets a lock that a member holds.

    Attributes:
        held_count: Records that name a lock: held, or in transition since they were (WIN-2).
        waiting: The heap of (deadline, age, lock); its head, if there is one, holds records.
    """

    __slots__ = ("_dead", "_orders", "held_count", "waiting")

    def __init__(self) -> None:
        self.waiting: list[tuple[int, int, Lock]] = []
        self.held_count = 0
        self._orders = 0
        self._dead = 0  # entries of locks without records

    def enter(self, lock: Lock, record_count: int) -> None:
        """Note that records name this lock from now on; the first ones start it.

        A lock that lost all its records gets none again.
        """
        lock.held += record_count
        self.held_count += record_count
        if lock.tally is not None:
            lock.tally.count += record_count
        if lock.order < 0:
            self._orders += 1
            lock.order = self._orders
            self._wait(lock)

    def leave(self, lock: Lock, record_count: int) -> None:
        """Note that records no longer name this lock."""
        lock.held -= record_count
        self.held_count -= record_count
        tally = lock.tally
        if tally is not None:
            tally.count -= record_count
            if tally.is_awaited:
                tally.tell()
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


class RecordStatus:
    """State, delivery count, owner, lock and transition; never changed once made, and shared.

    Runs compare statuses by identity, so one object stands for as many records as possible.

    Attributes:
        write_id: The write that a transition waits for, or None (spec RS-9).
        saved: What the record returns to if that write fails (RS-10); None with a ``write_id``
            means that it was archived meanwhile and stays so (RS-14).
        acquirable: AVAILABLE, neither in transition (OFF-5) nor delayed.
        done: Terminal and not in transition, so that the start offset may pass (OFF-7).
        terminal: ACKNOWLEDGED or ARCHIVED, in transition or not (VOC-13).
        hand_backs_left: How often it may still be released uncounted: 0 also if unknown
            whether its count is stored (HBK-4).
        not_before_ms: Monotonic time before which an AVAILABLE record is not delivered; 0: none.
        delayed: It waits for that time, and for no write.
    """

    __slots__ = (
        "acquirable",
        "delayed",
        "delivery_count",
        "done",
        "hand_backs_left",
        "lock",
        "member_id",
        "not_before_ms",
        "saved",
        "state",
        "terminal",
        "write_id",
    )

    def __init__(
        self,
        state: DeliveryState,
        delivery_count: int,
        member_id: MemberId = NO_MEMBER,
        lock: Lock | None = None,
        write_id: int | None = None,
        saved: "RecordStatus | None" = None,
        hand_backs_left: int = HAND_BACKS_MAX,
    ) -> None:
        self.state = state
        self.delivery_count = delivery_count
        self.member_id = member_id
        self.lock = lock
        self.write_id = write_id
        self.saved = saved
        self.hand_backs_left = hand_backs_left
        self.not_before_ms = 0
        self.delayed = False
        self.terminal = terminal = state is _ACKNOWLEDGED or state is _ARCHIVED
        self.done = terminal and write_id is None
        self.acquirable = state is _AVAILABLE and write_id is None

    def until(self, not_before_ms: int) -> "RecordStatus":
        """Return a status like this AVAILABLE one that waits for a time."""
        status = RecordStatus(
            self.state,
            self.delivery_count,
            self.member_id,
            self.lock,
            self.write_id,
            self.saved,
            self.hand_backs_left,
        )
        status.not_before_ms = not_before_ms
        status.delayed = status.write_id is None
        status.acquirable = False
        return status

    def __repr__(self) -> str:
        transition = "" if self.write_id is None else f" in write {self.write_id}"
        return f"<{self.state.name}({self.delivery_count}) {self.member_id}{transition}>"


class SettledStatuses:
    """One shared status for all records alike that have no owner, lock and transition."""

    __slots__ = ("_statuses",)

    def __init__(self) -> None:
        self._statuses: dict[tuple[DeliveryState, int, int], RecordStatus] = {}

    def get(
        self, state: DeliveryState, delivery_count: int, hand_backs_left: int = HAND_BACKS_MAX
    ) -> RecordStatus:
        """Return the shared status."""
        key = (state, delivery_count, hand_backs_left)
        status = self._statuses.get(key)
        if status is None:
            status = self._statuses[key] = RecordStatus(
                state, delivery_count, hand_backs_left=hand_backs_left
            )
        return status
