"""Records whose locks a leader handed over are acknowledged at the next one (HND-9 to HND-11)."""

import asyncio
from random import Random
from types import SimpleNamespace

import pytest

from sharemesh.backoff import Backoff
from sharemesh.client.consumer.acknowledgement_sender import AcknowledgementSender
from sharemesh.client.consumer.application_state import ConsumerState
from sharemesh.client.consumer.consume_stream import LeaderSession, SessionEvents
from sharemesh.client.consumer.deliveries import (
    AcknowledgementResult,
    Delivery,
    PartitionAcknowledgements,
    Payload,
)
from sharemesh.client.consumer.handed_over import FOLLOW_MS
from sharemesh.client.consumer.share_sessions import ShareSessionPool
from sharemesh.client.consumer.unseen_records import UnseenRecords
from sharemesh.client.errors import NetworkError, optional_error
from sharemesh.client.metadata.metadata_cache import Leader
from sharemesh.client.records import AcquiredRange, TopicIdPartition
from sharemesh.domain.delivery_state import AcknowledgeType
from sharemesh.domain.errors import ErrorCode
from sharemesh.v1.common_pb2 import TopicPartitions
from sharemesh.v1.share_leader_pb2 import (
    AcquiredRecords,
    ConsumeAcknowledged,
    ConsumeResponse,
    ConsumeStart,
    HandedOverPartition,
    ShareAcknowledgePartition,
    ShareAcknowledgeTopic,
    ShareFetchPartition,
    ShareFetchTopic,
)
from tests.clocks import ManualClock

SOURCE = TopicIdPartition("orders", 0, b"o" * 16)
OTHER = TopicIdPartition("orders", 1, b"o" * 16)
ACCEPT = AcknowledgeType.ACCEPT


class Heard:
    """What sessions tell."""

    def __init__(self):
        self.finished, self.handed_over, self.failed = [], [], []

    def events(self):
        def ignore(*_):
            pass

        return SessionEvents(
            delivered=ignore,
            finished=self.finished.extend,
            partition_failed=ignore,
            leader_known=ignore,
            nodes_known=ignore,
            draining=ignore,
            handed_over=lambda stream, sources: self.handed_over.extend(sources),
            throttled=ignore,
            ended=ignore,
        )


@pytest.fixture
def clock():
    return ManualClock()


@pytest.fixture
def heard():
    return Heard()


@pytest.fixture
def session(clock, heard):
    def make(node):
        made = LeaderSession(node, f"{node}:1", ConsumeStart(), None, clock, heard.events())
        made.add([SOURCE, OTHER])
        return made

    return make


def said(route, *offsets, source=SOURCE, epoch=3):
    return PartitionAcknowledgements(source, route, epoch, dict.fromkeys(offsets, ACCEPT))


def hands_over(stream, epoch=3, partition=0):
    ended = HandedOverPartition(topic_id=SOURCE.topic_id, partition=partition, leader_epoch=epoch)
    stream._take(ConsumeResponse(handed_over=[ended], echo_id=4))


def shows(stream, epoch=5):
    """Let a leader deliver a record of the partition: it had read its state."""
    acquired = [AcquiredRecords(first_offset=7, last_offset=7, delivery_count=1)]
    part = ShareFetchPartition(partition=0, leader_epoch=epoch, acquired_records=acquired)
    topic = ShareFetchTopic(topic_id=SOURCE.topic_id, partitions=[part])
    stream._take(ConsumeResponse(responses=[topic]))


def unsent(stream):
    return [sorted(each.types) for each in stream._unsent]


def span(delivery):
    (run,) = delivery.acquired
    return run.first_offset, run.last_offset


def held(route, epoch, first, last):
    acquired = (AcquiredRange(first, last, 1),)
    return Delivery(SOURCE, route, Payload(b""), acquired, epoch, 30_000, 10**12)


def test_what_is_said_waits_for_the_next_leader_and_goes_there_hnd_11(session, heard):
    old, following = session("a"), session("b")
    old.acknowledge([said(old, 0), said(old, 9, source=OTHER)])
    hands_over(old)
    assert (old._next.echo_id, heard.handed_over) == (4, [SOURCE])
    assert unsent(old) == [[9]], "what it has not sent yet waits too"
    old.acknowledge([said(old, 1)])
    assert old.is_handed_over(SOURCE, 3)
    assert not old.is_handed_over(OTHER, 3)
    old.follow(SOURCE, following, 4)
    old.acknowledge([said(old, 2)], may_wait=False)
    assert unsent(following) == [[0], [1], [2]]
    assert following._names == {SOURCE.topic_id: "orders"}
    following._has_next.clear()
    old.speak()
    assert following._has_next.is_set()


def test_records_go_on_over_the_end_of_their_session_and_further_leaders_hnd_10(session):
    old, following, third = session("a"), session("b"), session("c")
    hands_over(old)
    old._open = False
    assert old.is_open_for(SOURCE, 3)
    assert not old.is_open_for(OTHER, 3)
    old.follow(SOURCE, following, 4)
    hands_over(following, 4)
    following.follow(SOURCE, third, 5)
    old.acknowledge([said(old, 0)])
    assert unsent(third) == [[0]]
    shows(third)
    third._open = False
    assert not old.is_open_for(SOURCE, 3), "with the session at the leader of now, locks end"
    assert old.follows_until_ms(SOURCE, 3) == 0


def test_a_session_that_never_came_about_is_no_end_hnd_11(session):
    old, following = session("a"), session("b")
    hands_over(old)
    old.follow(SOURCE, following, 4)
    following._open = False
    assert old.is_open_for(SOURCE, 3)
    old.acknowledge([said(old, 0)])
    again = session("b")
    old.follow(SOURCE, again, 4)
    assert unsent(again) == [[0]]


def test_nor_is_one_that_a_quota_refused_hnd_11(session):
    old, following = session("a"), session("b")
    hands_over(old)
    old.follow(SOURCE, following, 4)
    following._take(ConsumeResponse())
    following._open, following.error_code = False, ErrorCode.SHARE_SESSION_LIMIT_REACHED
    assert old.is_open_for(SOURCE, 3)


@pytest.mark.parametrize(
    ("answer", "is_end"),
    [
        (ErrorCode.NONE, True),
        (ErrorCode.INVALID_RECORD_STATE, True),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, False),
        (ErrorCode.LEADER_NOT_AVAILABLE, False),
    ],
)
async def test_the_end_of_a_session_is_that_of_locks_its_leader_had_read_hnd_11(
    session, clock, answer, is_end
):
    """Seed 3251 of handed_over: it drained before it had them, and they went to the one after."""
    old, following, third = session("a"), session("b"), session("c")
    hands_over(old)
    old.follow(SOURCE, following, 4)
    old.acknowledge([said(old, 0)])
    following._put_acknowledgements(following._next)
    part = ShareAcknowledgePartition(partition=0, error_code=answer)
    topic = ShareAcknowledgeTopic(topic_id=SOURCE.topic_id, partitions=[part])
    answered = ConsumeAcknowledged(acknowledge_id=1, topics=[topic])
    following._take(ConsumeResponse(acknowledged=[answered]))
    following._open = False
    assert old.is_open_for(SOURCE, 3) is not is_end
    assert old.looks_for_next(SOURCE) is not is_end
    if not is_end:
        old.acknowledge([said(old, 1)])
        old.follow(SOURCE, third, 5)
        assert unsent(third) == [[1]]


def test_without_a_next_leader_what_waits_fails_hnd_11(session, heard, clock):
    old = session("a")
    hands_over(old)
    assert old.follows_until_ms(SOURCE, 3) == clock.now_ms() + FOLLOW_MS
    old.acknowledge([said(old, 0)])
    old.lose(SOURCE)
    assert [sorted(each.acknowledgements.types) for each in heard.finished] == [[0]]
    assert not old.is_handed_over(SOURCE, 3)


def test_what_a_session_had_not_sent_when_it_ended_goes_on(session, heard):
    old = session("a")
    hands_over(old)
    old._unsent = [said(old, 0), said(old, 9, source=OTHER)]
    old._give_up_waiting()
    assert [each.acknowledgements.source for each in heard.finished] == [OTHER]


@pytest.mark.parametrize(
    ("error", "again"),
    [
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, True),
        (ErrorCode.LEADER_NOT_AVAILABLE, True),
        (ErrorCode.INVALID_RECORD_STATE, False),
        (None, True),
    ],
)
async def test_what_the_next_leader_cannot_say_yet_is_asked_again_hnd_11(
    session, clock, error, again
):
    old, following = session("a"), session("b")
    outcomes = []
    sender = AcknowledgementSender(clock, list, outcomes.extend)
    asked = said(old, 0)
    failure = NetworkError("cut") if error is None else optional_error(error, "no", about="x")
    sender.finished([AcknowledgementResult(asked, failure, 0)])
    assert len(outcomes) == 1, "not handed over: final"
    hands_over(old)
    old.follow(SOURCE, following, 4)
    sender.finished([AcknowledgementResult(asked, failure, 0)])
    await clock.advance(200)
    assert unsent(following) == ([[0]] if again else [])
    assert len(outcomes) == 2 - again
    await clock.advance(FOLLOW_MS)
    sender.finished([AcknowledgementResult(asked, failure, 0)])
    assert len(outcomes) == 3 - again, "not for ever"
    await sender.close()


def test_records_that_no_poll_has_returned_stay_unless_they_come_anew_hnd_11(session, clock):
    def ignore(*_):
        pass

    old, following = session("a"), session("b")
    unseen = UnseenRecords(
        clock, at_once=500, kept=0, give_back=ignore, hold_back=ignore, acquire=ignore
    )
    unseen._fetching = True
    unseen.arrived(held(old, 3, 0, 4))
    unseen.arrived(held(old, 3, 5, 9))
    hands_over(old)
    unseen.arrived(held(following, 4, 8, 12))
    assert [span(each) for each in unseen.buffer] == [(0, 4), (8, 12)]
    unseen.arrived(held(old, 3, 13, 14))
    unseen.arrived(held(old, 3, 12, 12))
    assert [span(each) for each in unseen.buffer] == [(0, 4), (8, 12), (13, 14)]
    old.lose(SOURCE)
    old._open = False
    unseen._give_back_old()
    assert [span(each) for each in unseen.buffer] == [(8, 12)]


def test_until_it_is_said_what_becomes_of_them_records_stay_hnd_11(session, clock):
    def ignore(*_):
        pass

    old, following = session("a"), session("b")
    unseen = UnseenRecords(
        clock, at_once=500, kept=0, give_back=ignore, hold_back=ignore, acquire=ignore
    )
    unseen._fetching = True
    unseen.arrived(held(old, 3, 0, 4))
    old._epochs[SOURCE] = 3
    old._take(ConsumeResponse(draining=[TopicPartitions(topic_id=b"o" * 16, partitions=[0])]))
    assert not old.may_live_on(SOURCE, 4)
    unseen.arrived(held(following, 4, 8, 12))
    assert [span(each) for each in unseen.buffer] == [(0, 4), (8, 12)]
    unseen.refused(SOURCE)
    assert [span(each) for each in unseen.buffer] == [(0, 4), (8, 12)]
    failed = ConsumeResponse()
    topic = failed.responses.add(topic_id=b"o" * 16)
    topic.partitions.add(partition=0, error_code=int(ErrorCode.NOT_LEADER_OR_FOLLOWER))
    old._take(failed)
    unseen.refused(SOURCE)
    assert [span(each) for each in unseen.buffer] == [(8, 12)]


def test_a_partition_that_comes_back_to_a_session_is_acknowledged_in_it_hnd_11(session):
    old, following = session("a"), session("b")
    hands_over(old)
    old.follow(SOURCE, following, 4)
    old.acknowledge([said(old, 7, epoch=5)])
    assert (unsent(old), unsent(following)) == ([[7]], [])
    assert not old.is_handed_over(SOURCE, 5)
    shows(following, 4)
    following._open = False
    assert old.is_open_for(SOURCE, 5)
    assert not old.is_open_for(SOURCE, 3)


def test_locks_that_come_back_to_a_session_end_their_way_there_hnd_10(session):
    old, following = session("a"), session("b")
    hands_over(old)
    old.follow(SOURCE, following, 4)
    hands_over(following, 4)
    following.acknowledge([said(following, 8, epoch=4)])
    following.follow(SOURCE, old, 5)
    old.acknowledge([said(old, 1)])
    assert (unsent(old), unsent(following)) == ([[8], [1]], [])
    old.speak()
    assert following._has_next.is_set()
    hands_over(old, 5)
    old.follow(SOURCE, following, 6)
    old.acknowledge([said(old, 2)])
    following.acknowledge([said(following, 9, epoch=4)])
    assert unsent(following) == [[8], [1], [2], [9]]
    assert old.is_open_for(SOURCE, 3)


def test_a_leader_that_leads_again_at_once_is_the_next_one_hnd_10(session):
    old = session("a")
    hands_over(old)
    old.acknowledge([said(old, 1)])
    old.follow(SOURCE, old, 4)
    assert unsent(old) == [[1]]
    assert old.is_open_for(SOURCE, 3)


def test_what_came_back_to_a_session_stays_there_as_other_partitions_leave_hnd_11(session):
    old, following = session("a"), session("b")
    hands_over(old)
    old.follow(SOURCE, following, 4)
    hands_over(following, 4)
    following.follow(SOURCE, old, 5)
    old.acknowledge([said(old, 1), said(old, 2, epoch=5), said(old, 9, source=OTHER)])
    hands_over(old, partition=1)
    assert (sorted(unsent(old)), unsent(following)) == ([[1], [2]], [])
    hands_over(old)
    assert sorted(unsent(old)) == [[1], [2]], "what is said again changes nothing"


def test_what_waits_is_not_lost_by_what_is_said_again_hnd_11(session, clock):
    old, following, third = session("a"), session("b"), session("c")
    hands_over(old)
    old.acknowledge([said(old, 1)])
    hands_over(old)
    hands_over(old, 5)
    assert old.handed_over_in(SOURCE) == 5
    old.follow(SOURCE, following, 6)
    assert unsent(following) == [[1]]
    clock._now_ms += 1_000
    hands_over(following, 6)
    following.follow(SOURCE, third, 7)
    assert old.follows_until_ms(SOURCE, 3) == clock.now_ms() + FOLLOW_MS, "of the last one"


def test_a_next_leader_that_had_no_locks_leads_to_the_one_after_it_hnd_11(session, clock):
    old, following, third = session("a"), session("b"), session("c")
    hands_over(old)
    old.follow(SOURCE, following, 4)
    following._take(ConsumeResponse())
    assert not old.look_further(SOURCE, 4), "it leads"
    assert not old.look_further(OTHER, 5)
    clock._now_ms += 1_000
    assert old.look_further(SOURCE, 5)
    assert not old.look_further(SOURCE, 5), "it is looked for"
    old.acknowledge([said(old, 0)])
    assert unsent(following) == []
    assert old.follows_until_ms(SOURCE, 3) == clock.now_ms() + FOLLOW_MS
    following._open = False
    assert old.is_open_for(SOURCE, 3), "a session with a leader of before is no session of theirs"
    old.follow(SOURCE, third, 5)
    assert unsent(third) == [[0]]


def test_one_that_handed_locks_over_leads_on_itself_hnd_11(session):
    old, following = session("a"), session("b")
    hands_over(old)
    old.follow(SOURCE, following, 4)
    hands_over(following, 4)
    assert not old.look_further(SOURCE, 5)


class Leaders:
    """Metadata that names one leader."""

    def __init__(self):
        self.known = self.asked = None

    def leader(self, *_):
        return self.known

    def epoch(self, _):
        return 3

    async def refresh(self, names, *, awaited, **_):
        self.asked = (names, list(awaited))

    def backoff(self):
        return Backoff(1, 1, Random(1))


async def test_sessions_lead_to_the_next_leader_once_it_is_known_hnd_11(session, heard, clock):
    leaders = Leaders()
    pool = ShareSessionPool(leaders, None, clock, ConsumeStart(), 1, heard.events())
    pool._note_away = lambda *_, **__: None
    old = session("a")
    hands_over(old)
    pool._streams["a"] = old
    pool.handed_over(SOURCE, old)
    wanted = {}
    leaders.known = Leader("a", 3)
    assert pool._follow(wanted, clock.now_ms()) == FOLLOW_MS, "metadata is of before"
    leaders.known = Leader("b", 4)
    assert pool._follow(wanted, clock.now_ms()) == FOLLOW_MS
    assert wanted == {"b": []}, "a session is opened for it"
    following = pool._streams["b"] = session("b")
    assert pool._follow({}, clock.now_ms()) is None
    old.acknowledge([said(old, 0)])
    assert unsent(following) == [[0]]
    following._open = False
    pool._refresh_soon = lambda: None
    del pool._streams["b"]
    pool.ended(following)
    assert list(pool._following) == [(old, SOURCE)], "it never came about"
    await clock.advance(FOLLOW_MS)
    assert pool._follow({}, clock.now_ms()) is None
    assert not old.is_handed_over(SOURCE, 3)


async def test_sessions_lead_on_where_a_next_leader_is_followed_by_another_hnd_11(
    session, heard, clock
):
    leaders = Leaders()
    pool = ShareSessionPool(leaders, None, clock, ConsumeStart(), 1, heard.events())
    pool._note_away = lambda *_, **__: None
    old, following, third = session("a"), session("b"), session("c")
    hands_over(old)
    pool.handed_over(SOURCE, old)
    pool._streams |= {"b": following, "c": third}
    leaders.known = Leader("b", 4)
    pool._follow({}, clock.now_ms())
    pool.leader_known()
    assert pool._work.is_set(), "a refusal may have told of another"
    leaders.known = Leader("c", 5)
    pool._follow({}, clock.now_ms())
    old.acknowledge([said(old, 0)])
    assert (unsent(following), unsent(third)) == ([], [[0]])
    following._open = False
    pool._refresh_soon = lambda: None
    pool.ended(following)
    assert old.is_open_for(SOURCE, 3)
    assert not pool._following


async def test_what_is_said_after_a_slow_session_never_came_about_fails_hnd_11(
    session, heard, clock
):
    leaders = Leaders()
    pool = ShareSessionPool(leaders, None, clock, ConsumeStart(), 1, heard.events())
    pool._note_away = lambda *_, **__: None
    pool._refresh_soon = lambda: None
    old, following = session("a"), session("b")
    hands_over(old)
    pool.handed_over(SOURCE, old)
    leaders.known, pool._streams["b"] = Leader("b", 4), following
    pool._follow({}, clock.now_ms())
    await clock.advance(FOLLOW_MS)
    pool._follow({}, clock.now_ms())
    following._open = False
    pool.ended(following)
    old.acknowledge([said(old, 0)])
    pool._follow({}, clock.now_ms())
    assert [sorted(each.acknowledgements.types) for each in heard.finished] == [[0]]


async def test_what_is_said_once_the_end_of_a_way_was_not_found_fails_hnd_11(session, heard, clock):
    """Two hand-overs, and the leader after the second one is never heard of."""
    leaders = Leaders()
    pool = ShareSessionPool(leaders, None, clock, ConsumeStart(), 1, heard.events())
    pool._note_away = lambda *_, **__: None
    pool._refresh_soon = lambda: None
    old, following, third = session("a"), session("b"), session("c")
    hands_over(old)
    pool.handed_over(SOURCE, old)
    pool._streams |= {"b": following, "c": third}
    leaders.known = Leader("b", 4)
    pool._follow({}, clock.now_ms())
    hands_over(following, 4)
    pool.handed_over(SOURCE, following)
    leaders.known = Leader("c", 5)
    pool._follow({}, clock.now_ms())
    for each in (following, third):
        each._open = False
        pool.ended(each)
    await clock.advance(FOLLOW_MS)
    leaders.known = None
    pool._follow({}, clock.now_ms())
    assert not old.is_open_for(SOURCE, 3)
    old.acknowledge([said(old, 0)])
    pool._follow({}, clock.now_ms())
    assert [sorted(each.acknowledgements.types) for each in heard.finished] == [[0]]


async def test_next_leaders_are_looked_up_of_what_is_not_assigned_any_more_hnd_11(
    session, heard, clock
):
    leaders = Leaders()
    pool = ShareSessionPool(leaders, None, clock, ConsumeStart(), 1, heard.events())
    pool.assign({(b"p" * 16, 0): TopicIdPartition("payments", 0, b"p" * 16)})
    old = session("a")
    hands_over(old)
    pool.handed_over(SOURCE, old)
    await pool._refresh()
    assert leaders.asked == (["orders", "payments"], [(SOURCE.topic_id, 0), (b"p" * 16, 0)])


async def test_closing_fails_what_waits(session, heard, clock):
    pool = ShareSessionPool(Leaders(), None, clock, ConsumeStart(), 1, heard.events())
    pool._note_away = lambda *_, **__: None
    old = session("a")
    hands_over(old)
    pool.handed_over(SOURCE, old)
    old.acknowledge([said(old, 0)])
    await pool.close(timeout_ms=1)
    assert len(heard.finished) == 1


async def test_what_is_handed_over_while_sessions_close_fails_too(session, heard, clock):
    pool = ShareSessionPool(Leaders(), None, clock, ConsumeStart(), 1, heard.events())
    pool._note_away = lambda *_, **__: None
    old = session("a")

    async def ends():
        hands_over(old)
        pool.handed_over(SOURCE, old)
        old.acknowledge([said(old, 0)])

    pool._stream_tasks[old] = asyncio.ensure_future(ends())
    await pool.close(timeout_ms=1_000)
    assert [sorted(each.acknowledgements.types) for each in heard.finished] == [[0]]
    assert not old.is_handed_over(SOURCE, 3)


@pytest.mark.parametrize("are_gaps", [False, True])
def test_what_one_poll_brought_of_two_leader_epochs_is_said_in_each_hnd_11(session, are_gaps):
    """The partition came back to the session: locks of before know their epoch (HND-10)."""
    route = session("a")
    state = ConsumerState(
        explicit=False, key_deserializer=None, value_deserializer=None, check_crcs=False
    )
    for epoch, offsets in ((3, [0, 1]), (5, [10, 11])):
        delivery = held(route, epoch, *offsets)
        if are_gaps:
            state._add_gaps(delivery, offsets)
        else:
            state._hold(delivery, [SimpleNamespace(offset=each) for each in offsets])
    sent = {each.leader_epoch: sorted(each.types) for each in state.collect(accept_all=True)}
    assert sent == {3: [0, 1], 5: [10, 11]}
