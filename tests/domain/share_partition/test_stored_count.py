"""The stored delivery-complete count is corrected after a roll-back (spec ACK-23, SC-16, GC-41)."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sharemesh.domain.delivery_state import AcknowledgeType, DeliveryState
from sharemesh.domain.errors import ErrorCode
from sharemesh.domain.group_config import GroupConfig
from sharemesh.domain.ids import MemberId
from sharemesh.domain.share_partition.effects import WriteState
from sharemesh.domain.share_partition.events import (
    Acknowledge,
    AcknowledgementBatch,
    Acquire,
    AcquireMode,
    HandOver,
    Initialize,
    LogBatch,
    StateRead,
    StateWritten,
    WriteAgain,
)
from sharemesh.domain.share_partition.machine import SharePartition
from sharemesh.domain.share_partition.rules.stored_count import StoredCount
from sharemesh.domain.share_state.checks import WriteRequest
from sharemesh.domain.share_state.machine import ShareStateMachine
from tests.domain.share_partition.partition_machine import KEY

RECORDS = 8
AWAY = ErrorCode.COORDINATOR_NOT_AVAILABLE
M1 = MemberId("m1")


class Mesh:
    """A leader of eight records, and the share coordinator that its writes reach, in any order."""

    def __init__(self):
        self.stored = ShareStateMachine()
        self.offset = 0
        self.take(self.stored.initialize(KEY, 1, 0, in_metadata=True, now_ms=0))
        self.epoch = 0
        self.out = []
        self.machine = None
        self.lead()

    def take(self, decided):
        assert not decided.answer.error
        if decided.record is not None:
            self.stored.apply(decided.record, self.offset)
            self.offset += 1
        return decided.answer

    def lead(self):
        """Let a new leader begin; what the one before had out is never decided."""
        self.epoch += 1
        self.out.clear()
        read = self.take(self.stored.read(KEY, self.epoch, in_metadata=True, now_ms=0)).state
        self.machine = SharePartition(KEY, self.epoch, GroupConfig())
        self.step(Initialize())
        self.step(
            StateRead(
                ErrorCode.NONE,
                read.state_epoch,
                read.start_offset,
                tuple(read.batches),
                delivery_complete_count=read.delivery_complete_count,
            )
        )
        self.acquire()

    def step(self, event):
        effects = self.machine.step(event, now_ms=0)
        found = [each for each in effects if isinstance(each, WriteState)]
        self.out += found
        return found

    def acquire(self):
        offset = self.machine.next_fetch_offset()
        while offset < RECORDS:
            batch = LogBatch(offset, RECORDS - 1)
            self.step(Acquire(1, M1, AcquireMode.BATCH_OPTIMIZED, 500, 500, offset, (batch,)))
            before, offset = offset, self.machine.next_fetch_offset()
            if offset == before:
                return

    def accept(self, offset):
        state = self.machine.state_at(offset)
        if state is not None and state.state is DeliveryState.ACQUIRED:
            batch = AcknowledgementBatch(offset, offset, (AcknowledgeType.ACCEPT,))
            self.step(Acknowledge(7, M1, (batch,)))

    def answer(self, index, *, is_stored, is_heard=True):
        """Let the coordinator decide one of the writes that are out, or refuse it."""
        write = self.out.pop(index % len(self.out))
        if is_stored:
            request = WriteRequest(
                write.state_epoch,
                write.leader_epoch,
                write.start_offset,
                write.delivery_complete_count,
                write.batches,
                is_recount=write.is_recount,
            )
            self.take(self.stored.write(KEY, request, in_metadata=True, now_ms=0))
        is_good = is_stored and is_heard
        return self.step(StateWritten(write.write_id, ErrorCode.NONE if is_good else AWAY))

    def settle(self):
        """Let all that is out be stored, and what is behind be written again."""
        while self.out or self.machine.is_behind:
            self.step(WriteAgain())
            while self.out:
                self.answer(0, is_stored=True)

    @property
    def lag(self):
        state = self.stored.summary(KEY, in_metadata=True).answer.state
        return RECORDS - state.start_offset - state.delivery_complete_count

    @property
    def unfinished(self):
        return RECORDS - self.machine.start_offset - self.machine.delivery_complete_count


def doubtful():
    """Return a mesh whose stored count is 2, though of two records only the later one is done."""
    mesh = Mesh()
    mesh.accept(0)
    mesh.accept(5)
    mesh.answer(1, is_stored=True)
    mesh.answer(0, is_stored=False)
    return mesh


def test_ack_23_a_count_with_what_was_rolled_back_is_corrected_once_no_write_is_out():
    mesh = Mesh()
    mesh.accept(0)
    mesh.accept(5)
    first, second = mesh.out
    assert (first.delivery_complete_count, second.delivery_complete_count) == (1, 2)
    mesh.answer(1, is_stored=True)
    assert mesh.lag == 6
    mesh.answer(0, is_stored=False)
    assert mesh.out == []
    assert mesh.machine.is_behind
    (recount,) = mesh.step(WriteAgain())
    assert (recount.is_recount, recount.batches, recount.delivery_complete_count) == (True, (), 1)
    mesh.answer(0, is_stored=True)
    assert mesh.lag == mesh.unfinished == 7
    assert not mesh.machine.is_behind


def test_ack_23_a_write_that_succeeds_last_is_followed_by_the_recount_at_once():
    mesh = Mesh()
    mesh.accept(0)
    mesh.accept(5)
    mesh.answer(0, is_stored=False)
    (recount,) = mesh.answer(0, is_stored=True)
    assert recount.is_recount
    mesh.answer(0, is_stored=True)
    assert mesh.lag == 7


def test_ack_23_a_recount_that_fails_is_repeated():
    mesh = doubtful()
    for _ in range(3):
        (recount,) = mesh.step(WriteAgain())
        assert recount.is_recount
        mesh.answer(0, is_stored=False)
        assert mesh.machine.is_behind
    mesh.settle()
    assert mesh.lag == 7


def test_ack_23_the_next_acknowledgement_is_the_recount_if_no_other_write_is_out():
    mesh = doubtful()
    mesh.accept(6)
    (write,) = mesh.out
    assert write.is_recount
    mesh.settle()
    assert mesh.lag == mesh.unfinished == 6


def test_ack_23_a_recount_beside_which_another_write_went_out_settles_nothing():
    mesh = doubtful()
    mesh.step(WriteAgain())
    mesh.accept(6)
    mesh.answer(1, is_stored=True)  # the recount comes after it, and has one less
    (again,) = mesh.answer(0, is_stored=True)
    assert again.is_recount
    mesh.settle()
    assert mesh.lag == mesh.unfinished == 6


def test_ack_23_a_higher_start_offset_that_is_stored_ends_the_doubt_beside_other_writes():
    count = StoredCount()
    count.doubt(4)
    assert not count.sent(1, 4, is_alone=False)
    assert not count.sent(2, 5, is_alone=False)
    assert not count.is_left
    assert not count.sent(3, 5, is_alone=False), "it needs no help"
    count.answered(2, is_stored=True)
    assert not count.is_doubtful


def test_ack_23_a_start_offset_that_moved_goes_with_the_recount():
    mesh = Mesh()
    mesh.accept(0)
    mesh.accept(5)
    mesh.accept(6)
    mesh.answer(2, is_stored=True)
    mesh.answer(1, is_stored=False)
    mesh.answer(0, is_stored=True)
    assert mesh.machine.start_offset == 1
    (moved,) = mesh.out
    assert (moved.start_offset, moved.is_recount) == (1, True)
    mesh.settle()
    assert mesh.lag == mesh.unfinished == 6


def test_ack_23_no_recount_is_made_where_nothing_was_rolled_back():
    mesh = Mesh()
    for offset in (3, 5, 0):
        mesh.accept(offset)
    written = list(mesh.out)
    while mesh.out:
        mesh.answer(-1, is_stored=True)
    assert [each.is_recount for each in written] == [False] * 3
    assert not mesh.machine.is_behind


def test_ack_23_a_count_that_is_too_low_is_corrected_by_the_next_leader():
    """All is stored and no answer comes; the recount then knows of nothing that is finished."""
    mesh = Mesh()
    for offset in range(RECORDS):
        mesh.accept(offset)
    while mesh.out:
        mesh.answer(0, is_stored=True, is_heard=False)
    mesh.settle()
    assert mesh.lag == mesh.unfinished == RECORDS
    mesh.lead()
    mesh.settle()
    assert mesh.lag == mesh.unfinished == 0


def test_ack_23_a_leader_that_leaves_in_doubt_tells_the_count_last():
    mesh = doubtful()
    mesh.step(HandOver(goes_on=lambda *_: None, is_awaited=False))
    (last,) = mesh.out
    assert (last.is_last, last.is_recount) == (True, True)
    mesh.answer(0, is_stored=True)
    assert mesh.lag == 7


def test_ack_23_a_share_coordinator_that_tells_no_count_is_not_doubted():
    machine = SharePartition(KEY, 1, GroupConfig())
    machine.step(Initialize(), now_ms=0)
    machine.step(StateRead(ErrorCode.NONE, 1, 0), now_ms=0)
    assert not machine.is_behind
    assert machine.write_count == 0


def test_ack_23_the_next_leader_corrects_what_it_reads():
    mesh = Mesh()
    mesh.accept(0)
    mesh.accept(5)
    mesh.answer(1, is_stored=True)
    mesh.lead()
    (recount,) = mesh.out
    assert recount.is_recount
    mesh.settle()
    assert mesh.lag == mesh.unfinished == 7
    mesh.lead()
    assert mesh.out == []


@pytest.mark.parametrize(("count", "kept"), [(3, 3), (9, 9)])
def test_sc_16_a_recount_replaces_the_stored_count_and_a_higher_start_still_wins(count, kept):
    mesh = Mesh()

    def write(start, count, *, is_recount):
        request = WriteRequest(1, 1, start, count, (), is_recount=is_recount)
        mesh.take(mesh.stored.write(KEY, request, in_metadata=True, now_ms=0))
        return mesh.stored.summary(KEY, in_metadata=True).answer.state.delivery_complete_count

    assert write(5, 6, is_recount=False) == 6
    assert write(5, 4, is_recount=False) == 6
    assert write(4, 1, is_recount=True) == 6
    assert write(5, count, is_recount=True) == kept


def test_ack_23_a_write_that_was_not_asked_for_changes_nothing():
    count = StoredCount()
    count.doubt(4)
    assert count.sent(1, 4, is_alone=True)
    count.answered(9, is_stored=True)
    assert count.is_doubtful
    count.answered(1, is_stored=True)
    assert not count.is_doubtful


actions = st.one_of(
    st.tuples(st.just("accept"), st.integers(0, RECORDS - 1)),
    st.tuples(st.just("answer"), st.integers(0, 9), st.booleans(), st.booleans()),
    st.tuples(st.just("again")),
    st.tuples(st.just("lead")),
)


@settings(max_examples=400, deadline=None)
@given(st.lists(actions, max_size=40))
def test_gc_41_at_rest_the_stored_lag_is_what_the_leader_has_left(run):
    mesh = Mesh()
    for action in run:
        match action:
            case ("accept", offset):
                mesh.accept(offset)
            case ("answer", index, is_stored, is_heard) if mesh.out:
                mesh.answer(index, is_stored=is_stored, is_heard=is_heard)
            case ("again",):
                mesh.step(WriteAgain())
            case ("lead",):
                mesh.lead()
    mesh.settle()
    mesh.machine.validate()
    assert mesh.lag == mesh.unfinished
