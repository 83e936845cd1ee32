"""What is sent to a broker that remembers what is watched (spec KBR)."""

from types import SimpleNamespace
from uuid import UUID

import pytest

from sharemesh.domain.ids import TopicId
from sharemesh.kafka.watch_session import WatchedAtLeader, WatchSession
from sharemesh.ports.brokers import (
    NO_TOPIC_ID,
    BrokerPartition,
    BrokerRefusedError,
    WatchedPartition,
)

ORDERS = TopicId(b"o" * 16)
A, B = BrokerPartition(ORDERS, "orders", 0), BrokerPartition(ORDERS, "orders", 1)


def wanted(**offsets):
    places = {"a": A, "b": B}
    return {
        places[name]: WatchedAtLeader(WatchedPartition(places[name], offset, 1), 4)
        for name, offset in offsets.items()
    }


class Code(int):
    name = "some_error"


def answered(session, session_id=7, code=0, partitions=()):
    found = [SimpleNamespace(partition_index=each) for each in partitions]
    topics = [SimpleNamespace(topic_id=UUID(bytes=ORDERS), topic="orders", partitions=found)]
    return session.accept(
        SimpleNamespace(error_code=Code(code), session_id=session_id, responses=topics)
    )


def asked(content):
    return {
        part["partition"]: part["fetch_offset"]
        for topic in content["topics"]
        for part in topic["partitions"]
    }


def forgotten(content):
    return [number for each in content["forgotten_topics_data"] for number in each["partitions"]]


def epoch(content):
    return content["session_id"], content["session_epoch"]


def test_kbr_14_a_session_is_sent_what_changed_only():
    session = WatchSession()
    first = session.request(wanted(a=1, b=2), 17)
    assert epoch(first) == (0, 0)
    assert asked(first) == {0: 1, 1: 2}
    assert [each[0] for each in answered(session, partitions=[1])] == [B]
    second = session.request(wanted(a=1, b=3), 17)
    assert epoch(second) == (7, 1)
    assert asked(second) == {1: 3}
    list(answered(session))
    third = session.request(wanted(b=3), 17)
    assert epoch(third) == (7, 2)
    assert (asked(third), forgotten(third)) == ({}, [0])
    list(answered(session))
    assert asked(session.request(wanted(a=1, b=3), 17)) == {0: 1}


@pytest.mark.parametrize("code", [70, 71, 103, 106])
def test_kbr_14_a_session_that_the_broker_lost_begins_anew(code):
    session = WatchSession()
    session.request(wanted(a=1), 17)
    answered(session)
    session.request(wanted(a=1), 17)
    assert answered(session, code=code) is None
    again = session.request(wanted(a=1), 17)
    assert epoch(again) == (0, 0)
    assert asked(again) == {0: 1}


@pytest.mark.parametrize(("code", "requests"), [(70, 1), (42, 1), (42, 2)])
def test_kbr_14_another_error_is_said_and_so_is_one_of_a_new_session(code, requests):
    session = WatchSession()
    for number in range(requests):
        session.request(wanted(a=1), 17)
        if number < requests - 1:
            answered(session)
    with pytest.raises(BrokerRefusedError) as refused:
        answered(session, code=code)
    assert refused.value.code == code
    assert epoch(session.request(wanted(a=1), 17)) == (0, 0)


def test_kbr_14_without_a_session_everything_is_sent_each_time():
    session = WatchSession()
    for _ in range(2):
        content = session.request(wanted(a=1, b=2), 17)
        assert epoch(content) == (0, 0)
        assert asked(content) == {0: 1, 1: 2}
        assert len(list(answered(session, session_id=0, partitions=[0, 1]))) == 2
    assert not session.is_open


def test_kbr_14_a_session_does_not_mix_names_and_ids():
    session = WatchSession()
    session.request(wanted(a=1), 17)
    answered(session)
    assert epoch(session.request(wanted(a=1), 12)) == (0, 0)
    assert [each[0] for each in answered(session, partitions=[0])] == [A]


def test_a_lost_answer_begins_a_new_session():
    session = WatchSession()
    session.request(wanted(a=1), 17)
    answered(session)
    session.reset()
    assert epoch(session.request(wanted(a=1), 17)) == (0, 0)


def test_after_the_last_epoch_comes_the_first():
    session = WatchSession()
    session.request(wanted(a=1), 17)
    answered(session)
    session._epoch = 2**31 - 1
    session.request(wanted(a=1), 17)
    answered(session)
    assert epoch(session.request(wanted(a=1), 17)) == (7, 1)


def test_the_end_of_a_session_names_it():
    session = WatchSession()
    session.request(wanted(a=1), 17)
    answered(session)
    assert session.is_open
    assert epoch(session.end()) == (7, -1)


def test_names_are_sent_for_topics_without_ids():
    place = BrokerPartition(NO_TOPIC_ID, "orders", 0)
    content = WatchSession().request({place: WatchedAtLeader(WatchedPartition(place, 5, 1), 0)}, 12)
    assert content["topics"][0]["topic"] == "orders"
    assert content["topics"][0]["topic_id"] is None
