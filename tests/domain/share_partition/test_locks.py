"""Locks: the next deadline is always that of a lock that somebody holds (spec LK-1, LK-3)."""

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from sharemesh.domain.delivery_state import AcknowledgeType
from sharemesh.domain.errors import ErrorCode
from sharemesh.domain.group_config import GroupConfig
from sharemesh.domain.ids import MemberId
from sharemesh.domain.quota.counts import HeldRecords
from sharemesh.domain.share_partition.cache.record_status import DEAD_LOCKS_KEPT, Lock, LockIndex
from sharemesh.domain.share_partition.effects import WakeAt, WriteState
from sharemesh.domain.share_partition.events import (
    Acknowledge,
    AcknowledgementBatch,
    Acquire,
    AcquireMode,
    Fence,
    Initialize,
    LogBatch,
    StateRead,
    StateWritten,
    Tick,
)
from sharemesh.domain.share_partition.machine import SharePartition
from tests.domain.share_partition.partition_machine import KEY

LOCK_MS = 30_000
M1, M2 = MemberId("m1"), MemberId("m2")


class Locked:
    """A machine whose writes are confirmed at once."""

    def __init__(self):
        self.machine = SharePartition(KEY, 0, GroupConfig(record_lock_duration_ms=LOCK_MS))
        self.now_ms = 0
        self.step(Initialize())
        self.step(StateRead(ErrorCode.NONE, state_epoch=1, start_offset=0))

    def step(self, event):
        effects = self.machine.step(event, now_ms=self.now_ms)
        for effect in effects:
            if isinstance(effect, WriteState):
                self.step(StateWritten(effect.write_id))
        self.machine.validate()
        return effects

    def acquire(self, member, first, last, tally=None):
        batch = LogBatch(first, last)
        self.step(
            Acquire(1, member, AcquireMode.BATCH_OPTIMIZED, 500, 500, first, (batch,), tally=tally)
        )

    def acknowledge(self, member, first, last, kind=AcknowledgeType.ACCEPT):
        self.step(Acknowledge(1, member, (AcknowledgementBatch(first, last, (kind,)),)))


def test_a_lock_that_ended_is_not_the_next_deadline_once_the_one_before_it_expired():
    locked = Locked()
    locked.acquire(M1, 0, 4)
    locked.now_ms = 1_000
    locked.acquire(M2, 5, 9)
    locked.acknowledge(M2, 5, 9)
    locked.now_ms = LOCK_MS
    effects = locked.step(Tick())
    assert locked.machine.next_deadline_ms is None
    assert effects[-1] == WakeAt(None)


def test_what_an_interrupted_expiry_left_and_its_member_accepted_is_no_deadline():
    locked = Locked()
    locked.acquire(M1, 0, 4)
    locked.acknowledge(M1, 0, 0)  # from here on each offset is a unit
    locked.now_ms = LOCK_MS
    locked.step(Tick(lock_limit=2))
    assert locked.machine.next_deadline_ms == LOCK_MS
    locked.acknowledge(M1, 3, 4)
    assert locked.machine.next_deadline_ms is None


def test_quo_12_locks_of_a_leader_that_is_fenced_make_room_at_once():
    told = []
    waits, others = HeldRecords("User:jane", told.append), HeldRecords("User:joe", told.append)
    locked = Locked()
    locked.acquire(M1, 0, 4, waits)
    locked.acquire(M2, 5, 9, others)
    waits.is_awaited = True
    locked.step(Fence())
    assert (waits.count, others.count) == (0, 0)
    assert told == ["User:jane"], "nobody else waits for room"


def test_a_refused_renewal_leaves_no_lock_without_records():
    locked = Locked()
    locked.acquire(M1, 0, 4)
    locked.acknowledge(M1, 3, 3)
    locked.now_ms = 1_000
    locked.acknowledge(M1, 2, 4, AcknowledgeType.RENEW)  # 2 is renewed, 3 is not held any more
    locked.acknowledge(M1, 0, 2)
    locked.acknowledge(M1, 4, 4)
    assert locked.machine.next_deadline_ms is None


def test_the_oldest_lock_is_as_old_as_its_grant_whatever_the_duration_is_now():
    locked = Locked()
    locked.now_ms = 1_000
    locked.acquire(M1, 0, 4)
    assert locked.machine.oldest_lock_ms == 1_000
    locked.now_ms = 2_000
    locked.acknowledge(M1, 0, 4, AcknowledgeType.RENEW)
    assert locked.machine.oldest_lock_ms == 2_000
    locked.acknowledge(M1, 0, 4)
    assert locked.machine.oldest_lock_ms is None


class IndexMachine(RuleBasedStateMachine):
    """The index, and a list of all locks in which every question is answered by looking at each."""

    def __init__(self):
        super().__init__()
        self.index = LockIndex()
        self.now_ms = 0
        self.locks: list[Lock] = []
        self.held: dict[Lock, int] = {}
        self.over: set[Lock] = set()  # popped, and not put back

    def waiting(self):
        live = [lock for lock in self.locks if self.held[lock] and lock not in self.over]
        return sorted(live, key=lambda lock: (lock.deadline_ms, lock.order))

    def pick(self, number, locks):
        return locks[number % len(locks)] if locks else None

    @rule(duration_ms=st.sampled_from([5, 10, 10, 20]), count=st.integers(1, 3))
    def begin(self, duration_ms, count):
        lock = Lock(self.now_ms, self.now_ms + duration_ms, 0, count - 1)
        self.locks.append(lock)
        self.held[lock] = count
        self.index.enter(lock, count)

    @rule(number=st.integers(0, 99), whole=st.booleans())
    def leave(self, number, whole):
        lock = self.pick(number, [lock for lock in self.locks if self.held[lock]])
        if lock is not None:
            count = self.held[lock] if whole else 1
            self.held[lock] -= count
            self.index.leave(lock, count)

    @rule(number=st.integers(0, 99))
    def hold_more(self, number):
        lock = self.pick(number, [lock for lock in self.locks if self.held[lock]])
        if lock is not None:
            self.held[lock] += 1
            self.index.enter(lock, 1)

    @rule(passed_ms=st.sampled_from([1, 4, 11]))
    def time_passes(self, passed_ms):
        self.now_ms += passed_ms

    @rule(put_back=st.booleans(), left=st.integers(0, 2))
    def expire(self, put_back, left):
        expected = next((one for one in self.waiting() if one.deadline_ms <= self.now_ms), None)
        lock = self.index.pop_due(self.now_ms)
        assert lock is expected
        if lock is None:
            return
        assert lock.fired
        self.over.add(lock)
        count = max(0, self.held[lock] - left)  # expired; what is left is in transition
        self.held[lock] -= count
        self.index.leave(lock, count)
        if put_back:
            self.index.add_again(lock)
            if self.held[lock]:
                self.over.discard(lock)

    @invariant()
    def agrees(self):
        waiting = self.waiting()
        expected = waiting[0].deadline_ms if waiting else None
        assert self.index.earliest_ms() == expected
        assert sorted(self.index.running(), key=lambda lock: lock.order) == sorted(
            waiting, key=lambda lock: lock.order
        )
        dead = len(self.index.waiting) - len(waiting)
        assert dead <= max(DEAD_LOCKS_KEPT, len(waiting))


def test_the_index_answers_as_a_list_of_all_locks_would():
    run_state_machine_as_test(
        IndexMachine,
        settings=settings(
            max_examples=300,
            stateful_step_count=60,
            derandomize=True,
            database=None,
            deadline=None,
            print_blob=True,
            suppress_health_check=list(HealthCheck),
        ),
    )


def test_dead_locks_are_removed_once_they_are_more_than_those_that_live():
    index = LockIndex()
    first = Lock(0, 1, 0, 0)
    index.enter(first, 1)  # the head lives, so that nothing behind it is removed by itself
    for number in range(10 * DEAD_LOCKS_KEPT):
        lock = Lock(0, 2 + number, 0, 0)
        index.enter(lock, 1)
        index.leave(lock, 1)
        assert len(index.waiting) <= 2 + DEAD_LOCKS_KEPT
    assert index.running() == [first]
