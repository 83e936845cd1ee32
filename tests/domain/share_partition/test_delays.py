"""Released records that wait before they are delivered again (docs/spec/delivery.md, RTY, HND)."""

import random

import pytest

from sharemesh.domain.delivery_state import AcknowledgeType, Cause, DeliveryState
from sharemesh.domain.errors import ErrorCode
from sharemesh.domain.group_config import GroupConfig
from sharemesh.domain.group_config.retry_delays import RELEASE_DELAY_MAX_MS, RetryDelays
from sharemesh.domain.ids import MemberId
from sharemesh.domain.packed_batches import PackedBatches, columns_of
from sharemesh.domain.share_partition.cache.delays import STALE_DELAYS_KEPT, Delays
from sharemesh.domain.share_partition.cache.record_status import HAND_BACKS_MAX
from sharemesh.domain.share_partition.effects import (
    AcquiredRun,
    Answered,
    RecordsAcquired,
    WakeAt,
    WakeWaiters,
    WriteState,
)
from sharemesh.domain.share_partition.events import (
    Acknowledge,
    AcknowledgementBatch,
    Acquire,
    AcquireMode,
    Configure,
    Initialize,
    LogBatch,
    LogStartMoved,
    StateRead,
    StateWritten,
    Tick,
    WriteAgain,
)
from sharemesh.domain.share_partition.machine import SharePartition
from sharemesh.domain.share_partition.rules.retry import loaded_batches, stored_batches
from sharemesh.domain.state_batch import StateBatch
from tests.domain.share_partition.partition_machine import KEY

LOCK_MS = 30_000
NONE = ErrorCode.NONE
AWAY = ErrorCode.COORDINATOR_NOT_AVAILABLE
M1, M2 = MemberId("m1"), MemberId("m2")
ACCEPT, RELEASE = AcknowledgeType.ACCEPT, AcknowledgeType.RELEASE
AVAILABLE, ACQUIRED = DeliveryState.AVAILABLE, DeliveryState.ACQUIRED
ARCHIVED = DeliveryState.ARCHIVED


class Led:
    """A machine that leads ten records, whose writes succeed unless a test says otherwise."""

    def __init__(self, retry=RetryDelays(jitter=0.0), batches=(), limit=3):  # noqa: B008
        self.config = GroupConfig(
            record_lock_duration_ms=LOCK_MS, delivery_count_limit=limit, retry=retry
        )
        self.machine = SharePartition(KEY, 3, self.config)
        self.now_ms = 5_000
        self.effects = ()
        self.step(Initialize())
        self.step(StateRead(NONE, state_epoch=1, start_offset=0, batches=tuple(batches)))

    def step(self, event):
        self.effects = self.machine.step(event, now_ms=self.now_ms)
        self.machine.validate()
        return self.effects

    def acquire(self, member=M1):
        offset = self.machine.next_fetch_offset()
        if offset > 9:
            return ()
        batch = LogBatch(offset, 9)
        self.step(Acquire(1, member, AcquireMode.BATCH_OPTIMIZED, 500, 500, offset, (batch,)))
        return next(each.ranges for each in self.effects if isinstance(each, RecordsAcquired))

    def say(self, *batches, member=M1, error=NONE, draw=0.0):
        """Acknowledge; the write of it, if any, ends as ``error``."""
        effects = self.step(Acknowledge(7, member, batches, draw))
        self.written = [each for each in effects if isinstance(each, WriteState)]
        for write in self.written:
            effects += self.step(StateWritten(write.write_id, error))
        return next(each for each in effects if isinstance(each, Answered))

    def release(self, first=0, last=9, delay_ms=None, **more):
        batch = AcknowledgementBatch(first, last, (RELEASE,), delay_ms=delay_ms)
        return self.say(batch, **more)

    def tick(self, by_ms):
        self.now_ms += by_ms
        return self.step(Tick())

    def at(self, offset):
        view = self.machine.state_at(offset)
        return view.state, view.delivery_count, view.not_before_ms


def test_rty_2_a_record_released_with_a_delay_is_not_delivered_before_it():
    led = Led()
    led.acquire()
    assert led.release(3, 4, delay_ms=1_000).error is NONE
    assert led.at(3) == (AVAILABLE, 1, 6_000)
    assert led.machine.delayed_count == 2
    assert led.acquire(M2) == ()
    assert led.machine.next_fetch_offset() == 10
    led.tick(999)
    assert led.acquire(M2) == ()
    assert led.machine.start_offset == 0


def test_rty_3_it_is_available_when_its_time_has_come_and_waiting_fetches_are_woken():
    led = Led()
    led.acquire()
    led.release(3, 4, delay_ms=1_000)
    assert WakeAt(6_000) in led.effects
    assert WakeWaiters() in led.tick(1_000)
    assert not [each for each in led.effects if isinstance(each, WriteState)]
    assert led.at(3) == (AVAILABLE, 1, 0)
    assert led.machine.delayed_count == 0
    assert led.acquire(M2) == (AcquiredRun(3, 4, 2),)


def test_rty_3_delays_end_one_by_one_at_their_own_times_also_under_a_bound_of_work():
    led = Led()
    led.acquire()
    for offset in range(10):
        led.release(offset, offset, delay_ms=100 if offset % 2 else 50)
    led.now_ms += 50
    for left in (9, 8, 7, 6, 5):
        led.step(Tick(lock_limit=1))
        assert led.machine.delayed_count == left
    assert WakeAt(5_100) in led.effects
    led.now_ms += 50
    led.step(Tick())
    assert led.acquire() == (AcquiredRun(0, 9, 2),)


@pytest.mark.parametrize(
    "batch",
    [
        AcknowledgementBatch(0, 9, (ACCEPT,), delay_ms=5),
        AcknowledgementBatch(0, 1, (RELEASE, RELEASE), delay_ms=5),
        AcknowledgementBatch(0, 9, (RELEASE,), delay_ms=-1),
        AcknowledgementBatch(0, 9, (RELEASE,), delay_ms=RELEASE_DELAY_MAX_MS + 1),
    ],
)
def test_rty_1_a_delay_needs_one_release_and_is_bounded(batch):
    led = Led()
    led.acquire()
    assert led.say(batch).error is ErrorCode.INVALID_REQUEST
    assert led.at(0) == (ACQUIRED, 1, 0)


def test_rty_2_at_the_delivery_limit_a_record_is_archived_whatever_its_delay():
    led = Led(limit=2)
    led.acquire()
    led.release(delay_ms=10)
    led.tick(10)
    led.acquire()
    led.release(delay_ms=10)
    assert led.machine.delayed_count == 0
    assert led.machine.start_offset == 10


def test_without_settings_a_release_is_available_at_once_as_in_kafka():
    led = Led()
    led.acquire()
    led.release()
    assert led.acquire() == (AcquiredRun(0, 9, 2),)


def test_rty_4_a_release_without_a_delay_has_the_groups_back_off_and_0_means_at_once():
    led = Led(RetryDelays(backoff_ms=100, multiplier=3.0, max_ms=250, jitter=0.0), limit=9)
    led.acquire()
    for wait_ms in (100, 250, 250):
        led.release()
        assert led.at(0)[2] == led.now_ms + wait_ms
        led.tick(wait_ms)
        led.acquire()
    led.release(delay_ms=0)
    assert led.at(0)[::2] == (AVAILABLE, 0)
    led.acquire()
    led.release()
    before = led.at(0)
    led.step(Configure(GroupConfig()))
    assert led.at(0) == before, "what is delayed keeps its time"


def test_rty_4_jitter_moves_a_wait_to_either_side_by_the_draw_of_the_request():
    retry = RetryDelays(backoff_ms=1_000, jitter=0.2)
    assert [retry.after(1, draw) for draw in (-1, -0.5, 0, 1)] == [800, 900, 1_000, 1_200]
    led = Led(retry)
    led.acquire()
    led.release(draw=0.5)
    assert led.at(0)[2] == led.at(9)[2] == led.now_ms + 1_100
    assert led.machine.run_count == 1
    assert RetryDelays(backoff_ms=1, multiplier=100.0).after(30_000, 0) == 600_000


def test_rty_5_a_schedule_lists_the_waits_and_the_last_one_is_for_all_that_follow():
    retry = RetryDelays(backoff_ms=7, schedule_ms=(1_000, 10_000), jitter=0.0)
    assert [retry.after(count, 0) for count in (1, 2, 3, 9)] == [1_000, 10_000, 10_000, 10_000]


@pytest.mark.parametrize(("on_timeout", "not_before_ms"), [(True, 35_100), (False, 0)])
def test_rty_6_expired_locks_wait_only_if_the_group_says_so(on_timeout, not_before_ms):
    led = Led(RetryDelays(backoff_ms=100, jitter=0.0, on_timeout=on_timeout))
    led.acquire()
    effects = led.tick(LOCK_MS)
    assert led.at(0) == (AVAILABLE, 1, not_before_ms)
    (write,) = (each for each in effects if isinstance(each, WriteState))
    assert write.is_delayed is on_timeout
    assert write.batches == (
        StateBatch(0, 9, AVAILABLE, 1, Cause.LOCK_EXPIRY, not_before_ms=not_before_ms),
    )


def test_rty_7_the_write_says_until_when_and_runs_that_wait_for_another_time_are_apart():
    led = Led()
    led.acquire()
    led.say(
        AcknowledgementBatch(0, 4, (RELEASE,), delay_ms=10),
        AcknowledgementBatch(5, 9, (RELEASE,), delay_ms=20),
    )
    (write,) = led.written
    assert write.is_delayed
    stored = stored_batches(write.batches, led.now_ms, 1_750_000_000_000)
    assert [(b.first_offset, b.last_offset, b.not_before_ms) for b in stored] == [
        (0, 4, 1_750_000_000_010),
        (5, 9, 1_750_000_000_020),
    ]


def test_rty_8_a_new_leader_waits_for_what_is_left_by_its_clock_and_a_day_at_most():
    wall_ms = 1_750_000_000_000

    def seen(not_before_ms):
        batch = StateBatch(0, 9, AVAILABLE, 1, not_before_ms=not_before_ms)
        return loaded_batches([batch], 5_000, wall_ms)[0].not_before_ms

    assert seen(wall_ms + 700) == 5_700
    assert seen(wall_ms) == seen(wall_ms - 1) == seen(1) == seen(0) == 0
    assert seen(2**62) == 5_000 + RELEASE_DELAY_MAX_MS
    held = loaded_batches(
        [
            StateBatch(0, 4, AVAILABLE, 2, not_before_ms=wall_ms + 700),
            StateBatch(5, 9, AVAILABLE, 1, not_before_ms=wall_ms - 5),
        ],
        5_000,
        wall_ms,
    )
    led = Led(batches=held, limit=9)
    assert WakeAt(5_700) in led.effects
    assert led.acquire() == (AcquiredRun(5, 9, 2),)
    led.tick(700)
    assert led.acquire(M2) == (AcquiredRun(0, 4, 3),)


def test_rty_8_packed_batches_wait_for_what_is_left_too():
    wall_ms = 1_750_000_000_000
    plain = tuple(
        StateBatch(n, n, AVAILABLE, 1 + n % 2, not_before_ms=(wall_ms + n - 5) * (n % 3 > 0))
        for n in range(20)
    )
    loaded = loaded_batches(PackedBatches.of(columns_of(plain)), 5_000, wall_ms)
    assert isinstance(loaded, PackedBatches)
    assert tuple(loaded) == loaded_batches(plain, 5_000, wall_ms)


def test_rty_10_a_failed_release_leaves_the_record_with_its_holder_and_without_a_delay():
    led = Led()
    led.acquire()
    assert led.release(delay_ms=1_000, error=AWAY).error is AWAY
    assert led.at(0) == (ACQUIRED, 1, 0)
    assert led.machine.delayed_count == 0
    led.tick(LOCK_MS)
    assert led.acquire() == (AcquiredRun(0, 9, 2),)


def test_rty_10_the_repeated_write_of_expired_locks_says_until_when_they_wait():
    led = Led(RetryDelays(backoff_ms=100, jitter=0.0, on_timeout=True))
    led.acquire()
    (write,) = (each for each in led.tick(LOCK_MS) if isinstance(each, WriteState))
    led.step(StateWritten(write.write_id, AWAY))
    led.tick(100)
    assert led.at(0) == (AVAILABLE, 1, 0)
    (again,) = (each for each in led.step(WriteAgain()) if isinstance(each, WriteState))
    assert again.batches == write.batches
    assert again.batches[0].not_before_ms == write.batches[0].not_before_ms
    assert again.is_delayed


def test_rty_11_a_delayed_record_is_no_lock_and_what_the_log_lost_waits_for_nothing():
    led = Led()
    led.acquire()
    led.release(delay_ms=60_000)
    assert led.machine.lock_count == 0
    assert led.machine.next_deadline_ms is None
    led.step(LogStartMoved(4))
    assert led.machine.delayed_count == 6
    led.tick(60_000)
    assert led.acquire() == (AcquiredRun(4, 9, 2),)


def test_rty_2_records_of_different_counts_released_together_wait_together():
    led = Led(limit=9)
    led.acquire()
    led.release(5, 9)
    led.acquire()
    assert led.release(0, 9, delay_ms=1_000).error is NONE
    assert (led.at(0), led.at(9)) == ((AVAILABLE, 1, 6_000), (AVAILABLE, 2, 6_000))
    assert led.machine.delayed_count == 10
    led.tick(1_000)
    assert led.acquire() == (AcquiredRun(0, 4, 2), AcquiredRun(5, 9, 3))


def test_rty_2_a_delay_holds_for_what_the_log_keeps_of_a_batch_whose_release_is_being_written():
    led = Led()
    led.acquire()
    effects = led.step(Acknowledge(7, M1, (AcknowledgementBatch(0, 9, (RELEASE,), delay_ms=500),)))
    [write] = [each for each in effects if isinstance(each, WriteState)]
    led.step(LogStartMoved(4))
    led.step(StateWritten(write.write_id, NONE))
    assert led.at(4) == (AVAILABLE, 1, 5_500)
    assert led.acquire() == ()
    led.tick(500)
    assert led.acquire() == (AcquiredRun(4, 9, 2),)


def test_rty_2_what_waits_is_forgotten_once_the_start_offset_has_passed_it():
    delays = Delays()
    for offset in range(STALE_DELAYS_KEPT):
        delays.add(offset, offset, 1_000 + offset, 200)
    assert delays.waiting == [(1_000 + offset, offset, offset) for offset in range(200, 256)]


def test_hnd_1_an_uncounted_release_with_a_delay_is_written_with_the_count_of_before():
    led = Led(RetryDelays(backoff_ms=100, jitter=0.0))
    led.acquire()
    led.say(AcknowledgementBatch(0, 9, (RELEASE,), uncounted=True, delay_ms=50))
    (write,) = led.written
    assert write.batches == (
        StateBatch(0, 9, AVAILABLE, 0, Cause.RELEASE, not_before_ms=led.now_ms + 50),
    )
    assert led.at(0) == (AVAILABLE, 0, led.now_ms + 50)
    led.tick(50)
    assert led.acquire() == (AcquiredRun(0, 9, 1),)
    led.say(AcknowledgementBatch(0, 9, (RELEASE,), uncounted=True))
    assert led.written == []
    assert led.acquire() == (AcquiredRun(0, 9, 1),), "the group's back-off is not for it"


def test_hnd_1_a_failed_write_of_it_does_not_make_the_next_one_count():
    led = Led()
    led.acquire()
    unseen = AcknowledgementBatch(0, 9, (RELEASE,), uncounted=True, delay_ms=50)
    assert led.say(unseen, error=AWAY).error is AWAY
    assert led.at(0) == (ACQUIRED, 1, 0)
    led.say(unseen)
    assert led.at(0)[1] == 0


def test_hnd_2_a_record_cannot_circle_for_ever_uncounted_delayed_or_not():
    led = Led()
    for number in range(HAND_BACKS_MAX + 1):
        (run,) = led.acquire()
        assert run.delivery_count == 1
        delay_ms = 1 if number % 2 else None
        led.say(AcknowledgementBatch(0, 9, (RELEASE,), uncounted=True, delay_ms=delay_ms))
        led.tick(1)
    assert led.acquire() == (AcquiredRun(0, 9, 2),)


@pytest.mark.parametrize("seed", range(60))
def test_rty_2_in_any_order_no_record_is_early_and_each_comes_back(seed):
    """Random releases, expiries, failures and log starts, judged by a dict of not-befores."""
    rng = random.Random(seed)
    retry = RetryDelays(40, 200, jitter=0.0, on_timeout=rng.random() < 0.5)
    led = Led(retry, limit=200)
    until = {}
    for _ in range(120):
        for run in led.acquire(rng.choice([M1, M2])) if rng.random() < 0.5 else ():
            for offset in range(run.first_offset, run.last_offset + 1):
                assert until.pop(offset, 0) <= led.now_ms, offset
        for view in led.machine.record_states():
            if view.state is not ACQUIRED or rng.random() < 0.4:
                continue
            first = rng.randint(view.first_offset, view.last_offset)
            last = rng.randint(first, view.last_offset)
            delay_ms = rng.choice([0, 5, 50, 300])
            batch = AcknowledgementBatch(
                first, last, (RELEASE,), rng.random() < 0.3, delay_ms=delay_ms
            )
            error = AWAY if rng.random() < 0.2 else NONE
            if led.say(batch, member=view.member_id, error=error).error is NONE:
                until |= dict.fromkeys(range(first, last + 1), led.now_ms + delay_ms)
        if rng.random() < 0.02:
            led.step(LogStartMoved(min(9, led.machine.start_offset + 1)))
        led.tick(rng.choice([1, 10, 60, LOCK_MS]))
        delayed = led.machine.delayed_count
        assert delayed == sum(
            view.last_offset - view.first_offset + 1
            for view in led.machine.record_states()
            if view.not_before_ms and not view.in_transition
        )
    led.tick(LOCK_MS + 300)
    led.tick(LOCK_MS + 300)
    assert led.machine.delayed_count == 0
    seen = set()
    while runs := led.acquire():  # suspicious ones come in small lots (THR-4)
        seen |= {each for run in runs for each in range(run.first_offset, run.last_offset + 1)}
    assert seen == set(range(led.machine.start_offset, 10))
