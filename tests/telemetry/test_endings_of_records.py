"""What explain is told of a record is the change that came into force last (EXP-6)."""

import random

import pytest

from sharemesh.domain.delivery_state import AcknowledgeType, Cause, DeliveryState
from sharemesh.domain.errors import ErrorCode
from sharemesh.domain.ids import GroupId, MemberId, SharePartitionKey, TopicId
from sharemesh.domain.share_partition.effects import Answered, LocksExpired, WriteState
from sharemesh.domain.share_partition.events import (
    Acknowledge,
    AcknowledgementBatch,
    StateRead,
    StateWritten,
    Tick,
    WriteAgain,
)
from sharemesh.domain.state_batch import StateBatch
from sharemesh.share_leader.telemetry.partition_telemetry import PartitionTelemetry
from sharemesh.telemetry import names
from sharemesh.telemetry.instruments import Registry
from sharemesh.telemetry.spans import Spans
from sharemesh.telemetry.telemetry import Telemetry

KEY = SharePartitionKey(GroupId("g"), TopicId(b"t" * 16), 3)
MEMBER = MemberId("m1")
OFFSET = 7


class Watched:
    """The watch of one share partition."""

    def __init__(self):
        spans = Spans(enabled=False, rng=random.Random(1), now_ns=lambda: 1)
        self.registry = Registry()
        self.watch = PartitionTelemetry(Telemetry(self.registry, spans), KEY, "orders", 5)

    def expire(self, write_id):
        self.watch.saw(Tick(), (LocksExpired(1), self.write_of_expiry(write_id)))

    @staticmethod
    def write_of_expiry(write_id):
        available = StateBatch(OFFSET, OFFSET, DeliveryState.AVAILABLE, 1)
        return WriteState(write_id, 1, 5, 0, 0, (available,), Cause.LOCK_EXPIRY, MEMBER)

    def reject(self, write_id):
        archived = StateBatch(OFFSET, OFFSET, DeliveryState.ARCHIVED, 2)
        write = WriteState(write_id, 1, 5, 0, 0, (archived,), Cause.REJECT, MEMBER)
        said = AcknowledgementBatch(OFFSET, OFFSET, (AcknowledgeType.REJECT,))
        self.watch.saw(Acknowledge(100, MEMBER, (said,)), (write,))

    def written(self, write_id, *effects, error=ErrorCode.NONE):
        self.watch.saw(StateWritten(write_id, error), effects)

    @property
    def cause(self):
        found = self.watch.outcome_of(OFFSET)
        return None if found is None else found.cause


def test_an_ended_lock_is_told_before_it_is_written():
    watched = Watched()
    watched.expire(1)
    assert watched.cause is Cause.LOCK_EXPIRY


def test_an_acknowledgement_is_told_once_it_is_written():
    watched = Watched()
    watched.reject(1)
    assert watched.cause is None
    watched.written(1, Answered(100, ErrorCode.NONE))
    assert watched.cause is Cause.REJECT


def test_the_write_of_an_ended_lock_that_is_late_does_not_hide_what_came_after_it():
    watched = Watched()
    watched.expire(1)
    watched.reject(2)
    watched.written(2, Answered(100, ErrorCode.NONE))
    watched.written(1)
    assert watched.cause is Cause.REJECT


def test_nor_does_one_that_is_repeated():
    watched = Watched()
    watched.expire(1)
    watched.written(1, error=ErrorCode.COORDINATOR_NOT_AVAILABLE)
    watched.watch.saw(WriteAgain(), (watched.write_of_expiry(2),))
    watched.reject(3)
    watched.written(3, Answered(100, ErrorCode.NONE))
    watched.written(2)
    assert watched.cause is Cause.REJECT


@pytest.mark.parametrize("before", [StateWritten(1), StateRead(ErrorCode.NONE)])
def test_a_write_that_follows_an_answer_is_counted_when_it_fails(before):
    """Recounts, and start offsets that passed a hole (ACK-23, OFF-26)."""
    watched = Watched()
    recount = WriteState(2, 1, 5, 0, 0, (), Cause.UNSPECIFIED, MemberId(""), is_recount=True)
    watched.watch.saw(before, (recount,))
    watched.written(2, error=ErrorCode.COORDINATOR_NOT_AVAILABLE)
    failures = watched.registry.counter(names.STATE_WRITE_FAILURES, "coordinator_not_available")
    assert failures.value == 1
