"""Which read of a state gets the locks of the leader before (HND-6, HND-7)."""

import pytest

from sharemesh.domain.handed_lock import HANDED_LOCKS_MAX, HandedLock
from sharemesh.domain.ids import GroupId, MemberId, SharePartitionKey, TopicId
from sharemesh.domain.share_state import hand_overs
from sharemesh.domain.share_state.hand_overs import HandOvers

KEY = SharePartitionKey(GroupId("g"), TopicId(bytes(16)), 0)
OTHER = SharePartitionKey(GroupId("g"), TopicId(bytes(16)), 1)
LOCKS = (HandedLock(MemberId("m1"), 0, 4, 1, 1_000, 3), HandedLock(MemberId("m2"), 5, 9, 1, 50, 3))
STATE, OLD, NEW = 7, 3, 5


@pytest.fixture
def kept():
    found = HandOvers()
    assert found.keep(KEY, (STATE, OLD), LOCKS, 100)
    return found


def test_the_next_reader_gets_what_time_has_left_and_gets_it_again(kept):
    assert [each.remaining_ms for each in kept.take(KEY, NEW, STATE, OLD, 130)] == [970, 20]
    assert [each.remaining_ms for each in kept.take(KEY, NEW, STATE, NEW, 200)] == [900, 0]
    assert kept.take(OTHER, NEW, STATE, OLD, 130) == ()


def test_the_old_leader_itself_gets_nothing_and_takes_nothing_away(kept):
    assert kept.take(KEY, OLD, STATE, OLD, 130) == ()
    assert len(kept.take(KEY, NEW, STATE, OLD, 130)) == 2


@pytest.mark.parametrize(
    ("reader", "state", "known"),
    [
        (NEW, STATE, OLD + 1),  # another one has read since
        (NEW, STATE, NEW),  # it has read before the locks came, or another process has
        (NEW, STATE + 1, OLD),  # offsets were reset
        (NEW, STATE, OLD - 1),  # the read of the old leader is not known
    ],
)
def test_nobody_else_ever_gets_it(kept, reader, state, known):
    assert kept.take(KEY, reader, state, known, 130) == ()
    assert kept.take(KEY, NEW, STATE, OLD, 130) == ()
    assert len(kept) == 0


def test_a_leader_after_the_next_one_gets_nothing(kept):
    assert kept.take(KEY, NEW, STATE, OLD, 130)
    assert kept.take(KEY, NEW + 1, STATE, NEW, 140) == ()


def test_a_read_that_was_not_committed_took_nothing(kept):
    assert kept.take(KEY, NEW, STATE, OLD, 130)
    assert len(kept.take(KEY, NEW + 1, STATE, OLD, 140)) == 2


def test_a_leader_that_has_written_has_begun(kept):
    kept.written(KEY, OLD)  # a write of before that comes late: it was decided before the locks
    kept.written(OTHER, NEW)
    assert kept.take(KEY, NEW, STATE, OLD, 130)
    kept.written(KEY, NEW)
    assert kept.take(KEY, NEW, STATE, NEW, 140) == ()


def test_the_last_word_of_a_leader_counts(kept):
    assert kept.keep(KEY, (STATE, OLD), LOCKS[:1], 110)
    assert len(kept) == 1
    assert [each[1:3] for each in kept.take(KEY, NEW, STATE, OLD, 130)] == [(0, 4)]


def test_no_more_is_kept_than_there_is_room_for_hnd_8(kept, monkeypatch):
    monkeypatch.setattr(hand_overs, "KEPT_LOCKS_MAX", 3)
    assert not kept.keep(OTHER, (STATE, OLD), LOCKS, 200)
    assert len(kept.take(KEY, NEW, STATE, OLD, 200)) == 2
    assert kept.keep(OTHER, (STATE, OLD), LOCKS, 1_100), "those of before are over"
    assert kept.take(KEY, NEW, STATE, NEW, 1_100) == ()
    assert not kept.keep(KEY, (STATE, OLD), LOCKS[:1] * (HANDED_LOCKS_MAX + 1), 5_000)


def test_no_more_is_kept_than_one_answer_may_hold_hnd_8(kept, monkeypatch):
    size_bytes = sum(lock.size_bytes for lock in LOCKS)
    monkeypatch.setattr(hand_overs, "KEPT_BYTES_MAX", 2 * size_bytes - 1)
    assert not kept.keep(OTHER, (STATE, OLD), LOCKS, 200)
    monkeypatch.setattr(hand_overs, "KEPT_BYTES_MAX", 2 * size_bytes)
    assert kept.keep(OTHER, (STATE, OLD), LOCKS, 200)
    assert kept.keep(OTHER, (STATE, OLD), LOCKS, 300), "in the place of what it kept"


def test_exp_12_who_explains_is_told_what_its_read_would_bring_and_takes_nothing(kept):
    for known in (OLD, NEW):  # before its first read, and after it
        assert kept.lock_on(KEY, 4, NEW, STATE, known, 130) == (
            LOCKS[0]._replace(remaining_ms=970) if known == OLD else None
        )
    assert kept.lock_on(KEY, 4, NEW + 1, STATE, OLD, 130) is not None
    assert len(kept.take(KEY, NEW, STATE, OLD, 130)) == 2
    assert kept.lock_on(KEY, 4, NEW, STATE, NEW, 130) == LOCKS[0]._replace(remaining_ms=970)
    assert kept.lock_on(KEY, 4, NEW + 1, STATE, NEW, 130) is None, "it would lapse"
    assert len(kept) == 2


@pytest.mark.parametrize(
    ("offset", "reader", "state", "now_ms"),
    [
        (10, NEW, STATE, 130),  # nobody held it
        (4, OLD, STATE, 130),  # the old leader itself
        (4, NEW, STATE + 1, 130),  # offsets were reset
        (4, NEW, STATE, 1_100),  # its time is over
    ],
)
def test_exp_12_no_lock_is_told_of_that_a_read_would_not_bring(kept, offset, reader, state, now_ms):
    assert kept.lock_on(KEY, offset, reader, state, OLD, now_ms) is None
