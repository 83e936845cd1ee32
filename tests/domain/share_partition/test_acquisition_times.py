"""Each settlement says when the delivery that it ends was acquired (spec EXP-9, EXP-10)."""

from sharemesh.domain.delivery_state import AcknowledgeType, Cause, DeliveryState
from sharemesh.domain.errors import ErrorCode
from sharemesh.domain.group_config import GroupConfig
from sharemesh.domain.ids import MemberId
from sharemesh.domain.share_partition.effects import WriteState
from sharemesh.domain.share_partition.events import (
    Acknowledge,
    AcknowledgementBatch,
    Acquire,
    AcquireMode,
    Initialize,
    LogBatch,
    ReleaseMember,
    StateRead,
    StateWritten,
    Tick,
    WriteAgain,
)
from sharemesh.domain.share_partition.machine import SharePartition
from sharemesh.domain.share_partition.rules.pending_transitions import TIMES_MAX
from sharemesh.domain.state_batch import StateBatch, combine
from tests.domain.share_partition.partition_machine import KEY

LOCK_MS = 30_000
M1 = MemberId("m1")
ACCEPT, RENEW = AcknowledgeType.ACCEPT, AcknowledgeType.RENEW
RELEASE = AcknowledgeType.RELEASE
ACKED, AVAILABLE = DeliveryState.ACKNOWLEDGED, DeliveryState.AVAILABLE
END = 5_000


class Leader:
    def __init__(self):
        config = GroupConfig(
            record_lock_duration_ms=LOCK_MS,
            partition_max_record_locks=10_000,
            renew_acknowledge_enable=True,
        )
        self.machine = SharePartition(KEY, 3, config)
        self.now_ms = 0
        self.step(Initialize())
        self.step(StateRead(ErrorCode.NONE, state_epoch=1, start_offset=0))

    def step(self, event):
        effects = self.machine.step(event, now_ms=self.now_ms)
        self.machine.validate()
        self.writes = [each for each in effects if isinstance(each, WriteState)]
        return [batch for write in self.writes for batch in write.batches]

    def acquire(self, count, at_ms):
        offset = self.machine.next_fetch_offset()
        log = (LogBatch(offset, END),)
        mode = AcquireMode.RECORD_LIMIT
        self.step(Acquire(1, M1, mode, 500, count, offset, log, acquired_at_ms=at_ms))

    def say(self, first, last, *types, **terms):
        batch = AcknowledgementBatch(first, last, types, **terms)
        return told(self.step(Acknowledge(7, M1, (batch,))))

    def written(self, error=ErrorCode.NONE):
        for write in self.writes:
            self.step(StateWritten(write.write_id, error))


def told(batches):
    return [(each.first_offset, each.last_offset, each.acquired_at_ms) for each in batches]


def test_each_way_to_end_a_delivery_says_when_it_was_acquired():
    """EXP-9: acknowledged, released, its lock expired, its session closed."""
    leader = Leader()
    leader.acquire(4, 1_000_000)
    assert leader.say(0, 0, ACCEPT) == [(0, 0, 1_000_000)]
    assert leader.say(1, 2, ACCEPT, RELEASE) == [(1, 1, 1_000_000), (2, 2, 1_000_000)]
    leader.now_ms = LOCK_MS
    assert told(leader.step(Tick())) == [(3, 3, 1_000_000)]
    leader = Leader()
    leader.acquire(4, 2_000_000)
    assert told(leader.step(ReleaseMember(1, M1))) == [(0, 3, 2_000_000)]


def test_a_renewal_keeps_the_time():
    """EXP-9."""
    leader = Leader()
    leader.acquire(2, 1_000_000)
    leader.now_ms = 20_000
    leader.say(0, 0, RENEW)
    leader.now_ms = 40_000
    assert told(leader.step(Tick())) == [(1, 1, 1_000_000)]
    assert leader.say(0, 0, ACCEPT) == [(0, 0, 1_000_000)]


def test_a_later_delivery_has_a_time_of_its_own():
    """EXP-9."""
    leader = Leader()
    leader.acquire(1, 1_000_000)
    leader.say(0, 0, RELEASE)
    leader.written()
    leader.acquire(1, 1_000_500)
    assert leader.say(0, 0, ACCEPT) == [(0, 0, 1_000_500)]


def test_what_is_written_again_says_it_again():
    """EXP-9, LK-6: and so does a lock that expired while its write failed (RS-11)."""
    leader = Leader()
    leader.acquire(2, 1_000_000)
    leader.now_ms = LOCK_MS
    leader.step(Tick())
    leader.written(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    assert told(leader.step(WriteAgain())) == [(0, 1, 1_000_000)]
    leader = Leader()
    leader.acquire(2, 1_000_000)
    leader.say(0, 1, ACCEPT)
    writes = leader.writes
    leader.now_ms = LOCK_MS
    leader.step(Tick())
    leader.writes = writes
    leader.written(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    assert told(leader.step(WriteAgain())) == [(0, 1, 1_000_000)]


def test_what_ended_no_delivery_has_no_time():
    """EXP-9: a leader that does not say when it acquires writes what it always wrote."""
    leader = Leader()
    leader.acquire(2, 0)
    assert leader.say(0, 1, ACCEPT) == [(0, 1, 0)]


def test_one_write_tells_a_thousand_times_at_most():
    """EXP-10: then neighbours are one batch, with the earliest of their times."""
    leader = Leader()
    for number in range(TIMES_MAX + 500):
        leader.acquire(1, 1_000_000 + number)
    batches = leader.say(0, TIMES_MAX + 499, ACCEPT)
    assert len(batches) == TIMES_MAX
    assert batches[:2] == [(0, 0, 1_000_000), (1, 1, 1_000_001)]
    last = TIMES_MAX - 1
    assert batches[-1] == (last, TIMES_MAX + 499, 1_000_000 + last)


def test_a_log_keeps_the_times_and_a_state_does_not():
    """EXP-9: the same state with and without; equal but for its notes."""
    early = StateBatch(0, 1, ACKED, 1, Cause.ACCEPT, 0, 1_000)
    late = StateBatch(2, 5, ACKED, 1, Cause.ACCEPT, 0, 2_000)
    kept = combine((early, late), (), start_offset=1, keep_causes=True)
    assert told(kept) == [(1, 1, 1_000), (2, 5, 2_000)]
    state = combine((), (early, late), start_offset=0)
    assert told(state) == [(0, 5, 0)]
    back = StateBatch(0, 5, AVAILABLE, 1, Cause.RELEASE, 0, 500)
    over = combine((back,), (StateBatch(2, 3, ACKED, 1, Cause.ACCEPT, 0, 600),), start_offset=0,
                   keep_causes=True)  # fmt: skip
    assert told(over) == [(0, 1, 500), (2, 3, 600), (4, 5, 500)]
    assert early == early._replace(acquired_at_ms=0)
    assert hash(early) == hash(early._replace(acquired_at_ms=0))
