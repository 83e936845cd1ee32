"""What became of one record, from the records of its share partition (docs/spec/explain.md)."""

from sharemesh.domain.delivery_state import Cause, DeliveryState
from sharemesh.domain.ids import GroupId, MemberId, SharePartitionKey, TopicId
from sharemesh.domain.share_state.record_history import RecordHistory
from sharemesh.domain.share_state.records import Origin, StateSnapshot, StateUpdate, Tombstone
from sharemesh.domain.state_batch import StateBatch

KEY = SharePartitionKey(GroupId("g"), TopicId(b"t" * 16), 0)
AVAILABLE, ACKNOWLEDGED, ARCHIVED = (
    DeliveryState.AVAILABLE,
    DeliveryState.ACKNOWLEDGED,
    DeliveryState.ARCHIVED,
)


def update(batches, *, start=0, cause=Cause.UNSPECIFIED, member="", at=1):
    made = tuple(StateBatch(*each) for each in batches)
    return StateUpdate(KEY, 0, 1, 1, start, 0, at, made, Origin(cause, MemberId(member)))


def snapshot(cause, *, start=0, batches=(), changed=(), at=1):
    made, new = (tuple(StateBatch(*each) for each in part) for part in (batches, changed))
    return StateSnapshot(KEY, 1, 1, 1, 1, start, 0, at, at, made, Origin(cause), new)


def told(offset, *records, events_max=100):
    history = RecordHistory(offset, events_max)
    for number, record in enumerate(records):
        history.take(record, number)
    return history


def shown(history):
    return [(each.cause, each.state, each.delivery_count) for each in history.events]


def test_exp_2_each_change_is_told_with_its_cause_its_member_and_its_time():
    history = told(
        5,
        snapshot(Cause.INITIALIZE),
        update([(4, 6, AVAILABLE, 1)], cause=Cause.RELEASE, member="m1", at=10),
        update([(7, 7, ACKNOWLEDGED, 1)], cause=Cause.ACCEPT, member="m1"),
        update([(5, 5, ARCHIVED, 2)], cause=Cause.REJECT, member="m2", at=20),
    )
    begun, released, rejected = history.events
    assert (begun.cause, begun.state, begun.start_offset) == (Cause.INITIALIZE, None, 0)
    assert (released.cause, released.member_id, released.timestamp_ms) == (
        Cause.RELEASE,
        "m1",
        10,
    )
    assert (rejected.state, rejected.delivery_count, rejected.log_offset) == (ARCHIVED, 2, 3)
    assert history.is_whole


def test_exp_2_a_batch_says_its_own_cause_where_the_write_has_several():
    batches = [(5, 5, ARCHIVED, 5, Cause.DELIVERY_LIMIT), (6, 6, AVAILABLE, 1, Cause.RELEASE)]
    assert shown(told(5, update(batches, cause=Cause.RELEASE))) == [
        (Cause.DELIVERY_LIMIT, ARCHIVED, 5)
    ]


def test_exp_3_a_repeated_or_late_write_is_no_change():
    first = update([(0, 9, ACKNOWLEDGED, 2)], cause=Cause.ACCEPT)
    again = update([(0, 9, ACKNOWLEDGED, 2)], cause=Cause.ACCEPT)
    late = update([(0, 9, AVAILABLE, 1)], cause=Cause.RELEASE)
    assert shown(told(5, first, again, late)) == [(Cause.ACCEPT, ACKNOWLEDGED, 2)]


def test_exp_3_a_snapshot_tells_what_it_changed_and_not_what_it_holds():
    whole = [(0, 9, ARCHIVED, 5)]
    cold = snapshot(Cause.SNAPSHOT, batches=whole)
    written = snapshot(Cause.REJECT, batches=whole, changed=[(5, 5, ARCHIVED, 5)])
    assert shown(told(5, cold)) == []
    assert shown(told(5, written)) == [(Cause.REJECT, ARCHIVED, 5)]
    assert shown(told(5, cold, written)) == [], "what stood there was written again"


def test_exp_4_a_start_offset_that_passes_an_unfinished_record_is_told():
    moved = update([], start=9, cause=Cause.LOG_START)
    held = snapshot(Cause.SNAPSHOT, start=2)
    assert shown(told(5, held, moved)) == [(Cause.LOG_START, None, 0)]
    released = update([(5, 5, AVAILABLE, 1)], start=2, cause=Cause.RELEASE)
    assert shown(told(5, released, moved))[1:] == [(Cause.LOG_START, None, 0)]
    done = update([(5, 5, ACKNOWLEDGED, 1)], start=2, cause=Cause.ACCEPT)
    assert shown(told(5, done, moved)) == [(Cause.ACCEPT, ACKNOWLEDGED, 1)]


def test_exp_4_a_new_beginning_and_a_deletion_forget_how_it_ended():
    done = update([(5, 5, ACKNOWLEDGED, 1)], cause=Cause.ACCEPT)
    gone = Tombstone(KEY, 1, 1, 1, Origin(Cause.DELETE))
    again = update([(5, 5, ACKNOWLEDGED, 1)], cause=Cause.ACCEPT)
    begun = snapshot(Cause.INITIALIZE)
    causes = [cause for cause, _, _ in shown(told(5, done, gone, begun, again))]
    assert causes == [Cause.ACCEPT, Cause.DELETE, Cause.INITIALIZE, Cause.ACCEPT]


def test_exp_5_the_newest_events_are_kept_and_what_is_missing_is_known():
    released = [update([(5, 5, AVAILABLE, count)], cause=Cause.RELEASE) for count in range(1, 9)]
    history = told(5, snapshot(Cause.INITIALIZE), *released, events_max=3)
    assert [each.delivery_count for each in history.events] == [6, 7, 8]
    assert not history.is_whole
    assert not told(5, *released).is_whole, "its beginning is not there"


def test_exp_3_what_a_snapshot_holds_stood_there_before_what_comes_after_it():
    held = snapshot(Cause.SNAPSHOT, batches=[(0, 9, ACKNOWLEDGED, 1)])
    late = update([(0, 9, AVAILABLE, 1)], cause=Cause.RELEASE)
    assert shown(told(5, held, late)) == []


def test_exp_4_a_start_offset_that_passes_what_a_snapshot_says_is_finished_is_no_change():
    held = snapshot(Cause.SNAPSHOT, batches=[(0, 9, ACKNOWLEDGED, 1)])
    moved = update([(20, 20, ACKNOWLEDGED, 1)], start=10, cause=Cause.ACCEPT, member="m2")
    assert shown(told(5, held, moved)) == []


def test_exp_4_nothing_is_said_of_a_pass_where_what_stood_there_was_pruned():
    later = update([(15, 15, ACKNOWLEDGED, 1)], start=2, cause=Cause.ACCEPT)
    moved = update([(20, 20, ACKNOWLEDGED, 1)], start=10, cause=Cause.ACCEPT, member="m2")
    assert shown(told(5, later, moved)) == []


def test_exp_9_a_change_says_when_its_delivery_was_acquired():
    """EXP-9: an update and what a snapshot changed; what a snapshot holds does not."""
    acked = (0, 9, DeliveryState.ACKNOWLEDGED, 1, Cause.ACCEPT, 0, 700)
    [event] = told(4, update([acked], at=900)).events
    assert (event.timestamp_ms, event.acquired_at_ms) == (900, 700)
    [event] = told(4, snapshot(Cause.ACCEPT, changed=[acked])).events
    assert event.acquired_at_ms == 700
