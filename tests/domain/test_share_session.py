"""Share sessions: spec SES and the rotation of section 13, without any service."""

import pytest

from sharemesh.domain import share_session
from sharemesh.domain.errors import ErrorCode, RefusedError
from sharemesh.domain.ids import TopicId, TopicPartition
from sharemesh.domain.share_session import (
    MAX_EPOCH,
    SessionKey,
    ShareSessions,
    next_epoch,
    rotated,
)

M1, M2, M3 = (SessionKey("g", f"m{n}") for n in (1, 2, 3))
ALICE, BOB = "User:alice", "User:bob"
FOO0, FOO1, BAR0, BAR1 = (
    TopicPartition(TopicId(topic * 16), partition)
    for topic, partition in ((b"f", 0), (b"f", 1), (b"b", 0), (b"b", 1))
)


def fetch(sessions, key, epoch, listed=(), forgotten=(), *, acks=False):
    return sessions.for_fetch(
        key, ALICE, epoch, listed=list(listed), forgotten=list(forgotten), has_acknowledgements=acks
    )


def refused(call, *args, **kwargs):
    with pytest.raises(RefusedError) as raised:
        call(*args, **kwargs)
    return raised.value.error


def test_epochs_wrap_to_1_and_the_final_one_stays():
    assert [next_epoch(e) for e in (0, 1, MAX_EPOCH, -1)] == [1, 2, 1, -1]


@pytest.mark.parametrize(
    ("count", "epoch", "shift"),
    [
        *[(7, 0, 0), (7, 1, 1), (7, 3, 3), (7, 12, 5), (7, MAX_EPOCH, 1)],
        *[(3, 1, 1), (3, 3, 0), (3, 5, 2), (3, MAX_EPOCH, 1), (3, -1, 0), (0, 5, 0), (1, 5, 0)],
    ],
)
def test_rotation_is_by_epoch_modulo_count(count, epoch, shift):
    items = list(range(count))
    assert rotated(items, epoch) == items[shift:] + items[:shift]


def test_epoch_0_with_acknowledgements_is_an_invalid_request_and_opens_nothing():
    sessions = ShareSessions(2)
    assert refused(fetch, sessions, M1, 0, [FOO0], acks=True) is ErrorCode.INVALID_REQUEST
    assert len(sessions) == 0


def test_quo_12_a_quota_of_sessions_refuses_one_more_in_its_own_words():
    asked = []

    def quota(principal, held):
        asked.append((principal, held))
        return "quota sessions of alice is 1" if held else ""

    sessions = ShareSessions(5, quota=quota)
    fetch(sessions, M1, 0, [FOO0])
    with pytest.raises(RefusedError, match="quota sessions of alice is 1") as raised:
        fetch(sessions, M2, 0, [FOO0])
    assert raised.value.error is ErrorCode.SHARE_SESSION_LIMIT_REACHED
    assert asked == [(ALICE, 0), (ALICE, 1)]
    assert len(sessions) == 1


def test_a_full_cache_refuses_new_members_and_keeps_the_others():
    sessions = ShareSessions(1)
    fetch(sessions, M1, 0, [FOO0])
    assert refused(fetch, sessions, M2, 0) is ErrorCode.SHARE_SESSION_LIMIT_REACHED
    assert len(sessions) == 1
    assert fetch(sessions, M1, 1).epoch == 1


def test_a_principal_has_at_most_its_share_of_the_sessions_in_one_group():
    """BND-16."""
    sessions = ShareSessions(9, max_in_group=2)
    keys = [SessionKey("g", f"m{n}") for n in range(3)]
    for key in keys[:2]:
        sessions.open(key, ALICE)
    with pytest.raises(
        RefusedError, match="'User:alice' in group 'g' holds 2 of at most 2"
    ) as refusal:
        sessions.open(keys[2], ALICE)
    assert refusal.value.error is ErrorCode.SHARE_SESSION_LIMIT_REACHED
    sessions.open(SessionKey("h", "m0"), ALICE)
    sessions.open(SessionKey("g", "bob's"), BOB)  # the room of others is not alice's to fill
    _, replaced = sessions.open(keys[0], ALICE)
    assert replaced is not None  # a member goes on in its own place
    assert sessions.group_size("g") == 3
    sessions.remove(sessions.get(keys[0]))
    sessions.open(keys[2], ALICE)


def test_a_principal_has_at_most_its_share_of_the_sessions_in_all_groups_together():
    """BND-16."""
    sessions = ShareSessions(4, max_of_principal=2)
    keys = [SessionKey(f"g{n}", "m") for n in range(4)]
    for key in keys[:2]:
        sessions.open(key, ALICE)
    with pytest.raises(RefusedError, match="'User:alice' holds 2 of at most 2"):
        sessions.open(keys[2], ALICE)
    sessions.open(keys[2], BOB)
    sessions.remove(sessions.get(keys[0]))
    sessions.open(keys[3], ALICE)


def test_epoch_0_replaces_the_member_s_session_even_when_full():
    sessions = ShareSessions(1)
    old = fetch(sessions, M1, 0, [FOO0]).session
    context = fetch(sessions, M1, 0, [FOO1])
    assert context.replaced is old
    assert list(context.session.partitions) == [FOO1]
    assert not sessions.remove(old)
    assert sessions.group_size("g") == 1


def test_unknown_members_and_wrong_epochs_are_refused_and_change_nothing():
    sessions = ShareSessions(9)
    for epoch in (1, -1):
        assert refused(fetch, sessions, M1, epoch) is ErrorCode.SHARE_SESSION_NOT_FOUND
    fetch(sessions, M1, 0)
    assert refused(fetch, sessions, M1, 2) is ErrorCode.INVALID_SHARE_SESSION_EPOCH
    assert fetch(sessions, M1, 1).epoch == 1
    acknowledge = sessions.for_acknowledge
    assert refused(acknowledge, M1, ALICE, 0) is ErrorCode.INVALID_SHARE_SESSION_EPOCH
    assert refused(acknowledge, M2, ALICE, 1) is ErrorCode.SHARE_SESSION_NOT_FOUND
    assert refused(acknowledge, M1, ALICE, 1) is ErrorCode.INVALID_SHARE_SESSION_EPOCH
    assert acknowledge(M1, ALICE, 2).expected_epoch == 3
    assert acknowledge(M1, ALICE, -1).expected_epoch == 3


def test_fetches_and_acknowledgements_share_one_sequence():
    sessions = ShareSessions(9)
    fetch(sessions, M1, 0)
    sessions.for_acknowledge(M1, ALICE, 1)
    assert refused(fetch, sessions, M1, 1) is ErrorCode.INVALID_SHARE_SESSION_EPOCH
    fetch(sessions, M1, 2)


def test_after_the_largest_epoch_1_is_expected():
    sessions = ShareSessions(9)
    fetch(sessions, M1, 0).session.expected_epoch = MAX_EPOCH
    fetch(sessions, M1, MAX_EPOCH)
    fetch(sessions, M1, 1)


def test_a_later_response_holds_only_what_is_new_or_failed_before():
    sessions = ShareSessions(9)
    context = fetch(sessions, M1, 0, [FOO0, FOO1])
    assert context.must_appear() == [FOO0, FOO1]
    context.session.answered(with_records=[], with_error=[])
    context = fetch(sessions, M1, 1, [BAR0], [FOO0])
    assert list(context.session.partitions) == [FOO1, BAR0]
    assert context.must_appear() == [BAR0]
    context.session.answered(with_records=[], with_error=[FOO1])
    assert fetch(sessions, M1, 2).must_appear() == [FOO1]


def test_an_emptied_session_stays_alive():
    sessions = ShareSessions(9)
    fetch(sessions, M1, 0, [FOO0, FOO1])
    context = fetch(sessions, M1, 1, [], [FOO0, FOO1])
    assert (context.to_fetch(), len(sessions)) == ([], 1)
    assert fetch(sessions, M1, 2, [FOO1]).to_fetch() == [FOO1]


def test_partitions_with_records_move_to_the_end():
    sessions = ShareSessions(9)
    session = fetch(sessions, M1, 0, [FOO0, FOO1, BAR0]).session
    session.answered(with_records=[FOO0], with_error=[])
    assert list(session.partitions) == [FOO1, BAR0, FOO0]


def test_records_of_a_partition_that_was_forgotten_meanwhile_bring_nothing_back():
    sessions = ShareSessions(9)
    session = fetch(sessions, M1, 0, [FOO0, FOO1]).session
    fetch(sessions, M1, 1, [], [FOO0])
    session.answered(with_records=[FOO0, FOO1], with_error=[FOO0])
    assert list(session.partitions) == [FOO1]


def test_the_whole_set_is_fetched_rotated_without_reordering_the_session():
    """ROT-3."""
    sessions = ShareSessions(9)
    assert fetch(sessions, M1, 0, [FOO0, FOO1, BAR0]).to_fetch() == [FOO0, FOO1, BAR0]
    context = fetch(sessions, M1, 1)
    assert context.to_fetch() == [FOO1, BAR0, FOO0]
    assert list(context.session.partitions) == [FOO0, FOO1, BAR0]


def test_sets_of_several_members_are_apart():
    """SES-1."""
    sessions = ShareSessions(9)

    def parts(key):
        session = sessions.get(key)
        return None if session is None else set(session.partitions)

    fetch(sessions, M1, 0, [FOO0, FOO1])
    fetch(sessions, M2, 0, [BAR0])
    assert (parts(M1), parts(M2)) == ({FOO0, FOO1}, {BAR0})
    fetch(sessions, M1, 1, [BAR0])
    fetch(sessions, M2, 1, [BAR1], [BAR0])
    assert (parts(M1), parts(M2)) == ({FOO0, FOO1, BAR0}, {BAR1})
    assert fetch(sessions, M1, -1, [FOO0]).to_fetch() == []
    sessions.remove(sessions.get(M1))
    fetch(sessions, M2, 2, [], [BAR1])
    assert (parts(M1), parts(M2)) == (None, set())
    assert sessions.group_size("g") == 1


def test_what_is_heard_in_the_millisecond_of_a_grant_is_heard_since():
    """HBK-10: it has given its credit back by then, and may have nothing more to say."""
    session, _ = ShareSessions(1).open(M1, ALICE)
    session.heard(100)
    session.granted(100)
    assert session.lapsed(100), "it spoke before the grant, and not since"
    session.heard(200)
    session.granted(200)
    session.heard(200)
    assert not session.lapsed(200)
    assert session.lapsed(201)


def test_a_member_is_stalled_whose_lock_ended_and_that_was_not_heard_since_it_got_it():
    session, _ = ShareSessions(1).open(M1, ALICE)
    session.heard(100)
    assert not session.lapsed(99), "it spoke since: it is slow, and not gone"
    assert not session.is_stalled
    assert session.lapsed(100)
    assert session.is_stalled
    assert not session.lapsed(200), "a spell begins once"


def test_the_first_word_ends_a_spell():
    session, _ = ShareSessions(1).open(M1, ALICE)
    session.lapsed(5)
    assert session.heard(50)
    assert not session.is_stalled
    assert not session.heard(60)


def test_a_session_is_of_the_principal_that_opened_it_bnd_26():
    sessions = ShareSessions(9)
    fetch(sessions, M1, 0, [FOO0])
    assert refused(sessions.open, M1, BOB) is ErrorCode.UNKNOWN_MEMBER_ID
    foreign = {"listed": [FOO1], "forgotten": [], "has_acknowledgements": False}
    for epoch in (1, -1):
        assert refused(sessions.for_fetch, M1, BOB, epoch, **foreign) is (
            ErrorCode.SHARE_SESSION_NOT_FOUND
        )
        assert refused(sessions.for_acknowledge, M1, BOB, epoch) is (
            ErrorCode.SHARE_SESSION_NOT_FOUND
        )
    assert refused(sessions.for_fetch, M1, BOB, 0, **foreign) is ErrorCode.UNKNOWN_MEMBER_ID
    session = fetch(sessions, M1, 1).session
    assert list(session.partitions) == [FOO0]
    sessions.remove(session)
    assert sessions.open(M1, BOB)[0].principal == BOB


def test_what_a_session_left_is_its_principals_while_it_is_held_bnd_26(monkeypatch):
    monkeypatch.setattr(share_session, "LEFT_MAX", 2)
    held = {M1, M2, M3}
    sessions = ShareSessions(9, holds=held.__contains__)

    def left(key):
        session, _ = sessions.open(key, ALICE)
        sessions.leaves_records(session)  # as long as it lives, it says whose they are
        sessions.remove(session)
        sessions.leaves_records(session)

    left(M1)
    assert refused(sessions.open, M1, BOB) is ErrorCode.UNKNOWN_MEMBER_ID
    sessions.open(M1, ALICE)
    left(M1)
    held.remove(M1)
    assert sessions.open(M1, BOB)[0].principal == BOB, "nothing is held any more"
    left(M2)
    left(M3)
    left(SessionKey("g", "m4"))
    assert refused(sessions.open, M3, BOB) is ErrorCode.UNKNOWN_MEMBER_ID
    assert sessions.open(M2, BOB)[0].principal == BOB, "the latest are kept"
