"""Requests that the machine of states refuses, and those about states that are not there."""

from dataclasses import replace

import pytest

from sharemesh.domain.delivery_state import Cause, DeliveryState
from sharemesh.domain.errors import ErrorCode
from sharemesh.domain.ids import MAX_GROUP_ID_CHARS, GroupId, SharePartitionKey, TopicId
from sharemesh.domain.share_state.checks import MAX_BATCHES, check_batches
from sharemesh.domain.share_state.fold import Floors, content_hash
from sharemesh.domain.share_state.machine import ShareStateMachine
from sharemesh.domain.state_batch import StateBatch

KEY = SharePartitionKey(GroupId("g"), TopicId(b"t" * 16), 0)
BAD_KEYS = [
    (replace(KEY, topic_id=TopicId(b"")), ErrorCode.INVALID_REQUEST),
    (replace(KEY, topic_id=TopicId(b"short")), ErrorCode.INVALID_REQUEST),
    (replace(KEY, partition=-1), ErrorCode.INVALID_REQUEST),
    (replace(KEY, group_id=GroupId("g" * (MAX_GROUP_ID_CHARS + 1))), ErrorCode.INVALID_GROUP_ID),
]


@pytest.fixture
def machine():
    made = ShareStateMachine()
    made.apply(made.initialize(KEY, 3, 7, in_metadata=True, now_ms=1_000).record, 0)
    return made


@pytest.mark.parametrize(("key", "error"), BAD_KEYS)
def test_a_key_that_nothing_can_have_is_refused_by_every_request(machine, key, error):
    for outcome in (
        machine.delete(key, 0, in_metadata=True, now_ms=2_000),
        machine.summary(key, in_metadata=True),
        machine.initialize(key, 1, 0, in_metadata=True, now_ms=2_000),
    ):
        assert outcome.answer.error is error
        assert outcome.record is None


def test_a_topic_that_is_not_known_is_refused(machine):
    unknown = replace(KEY, topic_id=TopicId(b"u" * 16))
    for outcome in (
        machine.delete(unknown, 0, in_metadata=False, now_ms=2_000),
        machine.summary(unknown, in_metadata=False),
    ):
        assert outcome.answer.error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_more_batches_than_one_write_may_have_are_refused():
    batches = tuple(
        StateBatch(number, number, DeliveryState.ARCHIVED, 1) for number in range(MAX_BATCHES + 1)
    )
    outcome = check_batches(batches)
    assert outcome is not None
    assert outcome.answer.error is ErrorCode.INVALID_REQUEST
    assert check_batches(batches[1:]) is None


def test_a_restored_generation_is_hashed_as_what_it_was_made_of(machine):
    floors = Floors(5, 6)
    state = machine.state(KEY)
    restored = ShareStateMachine()
    restored.restore([(KEY, state)], floors, 40)
    assert restored.state(KEY) == state
    assert restored.restored_floor(now_ms=9_000).state_epoch == 5
    hashed = content_hash({KEY: restored.state(KEY)}, floors)
    assert hashed == content_hash({KEY: state}, floors)
    assert hashed != content_hash({KEY: replace(state, start_offset=8)}, floors)
    assert hashed != content_hash({KEY: state}, Floors(5, 7))


def test_rty_7_the_hash_of_a_state_covers_the_times_before_which_records_wait(machine):
    state = machine.state(KEY)
    now, later, latest = (
        replace(state, batches=(StateBatch(8, 9, DeliveryState.AVAILABLE, 1, not_before_ms=time),))
        for time in (0, 50, 60)
    )
    hashes = {content_hash({KEY: each}, Floors()) for each in (now, later, latest)}
    assert len(hashes) == 3


def test_a_generation_without_deletions_has_no_floors_to_write(machine):
    restored = ShareStateMachine()
    restored.restore([(KEY, machine.state(KEY))], Floors(), 40)
    assert restored.restored_floor(now_ms=9_000) is None


def test_batches_are_equal_whatever_their_cause():
    one = StateBatch(0, 9, DeliveryState.ARCHIVED, 1, Cause.REJECT)
    same = one._replace(cause=Cause.DELIVERY_LIMIT)
    assert one == same
    assert (one != same) is False
    assert hash(one) == hash(same)
    assert one != one._replace(delivery_count=2)
    assert one != (0, 9, DeliveryState.ARCHIVED, 1)
