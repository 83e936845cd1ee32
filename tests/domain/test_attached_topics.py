"""Which topics may be attached, and what it takes to believe that one is gone (spec KTP)."""

import pytest

from sharemesh.domain.attached_topics import (
    AttachableTopics,
    TopicAnswer,
    TopicSighting,
    noted_absence,
    pattern_problem,
    refusal_words,
    sighting,
)
from sharemesh.domain.ids import TopicId

MINE, OTHER = TopicId(b"m" * 16), TopicId(b"o" * 16)
UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID = 3, 100
TOPIC_AUTHORIZATION_FAILED, LEADER_NOT_AVAILABLE, REQUEST_TIMED_OUT = 29, 5, 7


def answer(
    error: int = 0,
    topic_id: TopicId | None = MINE,
    *,
    cluster: str = "kafka",
    broker: int = 1,
    brokers: int = 3,
) -> TopicAnswer:
    return TopicAnswer(error, topic_id, cluster, broker, brokers)


def seen(given: TopicAnswer | None) -> TopicSighting:
    return sighting(
        given, recorded_id=MINE, kafka_cluster_id="kafka", given_up=[TopicId(b"g" * 16)]
    )


@pytest.mark.parametrize(
    ("patterns", "taken", "left_out"),
    [
        (["*", "!__*"], ["orders", "_a", "a__b"], ["__consumer_offsets", "__x", "own"]),
        (["*"], ["__x"], ["__own"]),
        (["orders.*", "a?"], ["orders.eu", "ab"], ["orders", "ordersXeu", "a", "abc"]),
        (["*", "!*.dead", "!x"], ["x1", "dead"], ["orders.dead", "x"]),
        ([], [], ["orders"]),
        (["!a"], [], ["b"]),
    ],
)
def test_ktp_1_patterns_take_names_and_leave_names_out(patterns, taken, left_out):
    matching = AttachableTopics("kafka", patterns, own_topics=("__own", "own"))
    assert [name for name in taken if not matching.match(name)] == []
    assert [name for name in left_out if matching.match(name)] == []


def test_a_pattern_that_is_none_is_named():
    assert pattern_problem("orders.*") == pattern_problem("!a?") == ""
    assert "is no pattern" in pattern_problem("a/b")
    assert "at most 249" in pattern_problem("x" * 251)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (answer(), TopicSighting.SHOWN),
        (answer(topic_id=None), TopicSighting.SHOWN),
        (answer(UNKNOWN_TOPIC_OR_PARTITION, None), TopicSighting.ABSENT),
        (answer(UNKNOWN_TOPIC_ID, None), TopicSighting.ABSENT),
        (answer(topic_id=OTHER), TopicSighting.ABSENT),
        (answer(TOPIC_AUTHORIZATION_FAILED, None), TopicSighting.DOUBTFUL),
        (answer(LEADER_NOT_AVAILABLE), TopicSighting.DOUBTFUL),
        (answer(REQUEST_TIMED_OUT), TopicSighting.DOUBTFUL),
        (answer(UNKNOWN_TOPIC_OR_PARTITION, None, cluster="another"), TopicSighting.DOUBTFUL),
        (answer(cluster=""), TopicSighting.DOUBTFUL),
        (answer(topic_id=TopicId(b"g" * 16)), TopicSighting.DOUBTFUL),
        (None, TopicSighting.DOUBTFUL),
    ],
)
def test_ktp_7_what_an_answer_says(given, expected):
    assert seen(given) is expected


def absence(*answers: tuple[int, TopicAnswer | None]):
    noted = None
    for at_ms, given in answers:
        noted = noted_absence(noted, seen(given), given, at_ms)
    return noted


ABSENT = UNKNOWN_TOPIC_OR_PARTITION


def test_ktp_8_three_absent_answers_of_two_brokers_over_a_minute():
    given = [(0, answer(ABSENT)), (30_000, answer(ABSENT, broker=2)), (60_000, answer(ABSENT))]
    assert absence(*given).is_gone(60_000)
    assert not absence(*given[:2]).is_gone(600_000)
    assert not absence(*given).is_gone(59_999)


def test_ktp_8_one_broker_is_not_enough_where_any_answer_named_two():
    alone = [(at_ms, answer(ABSENT, brokers=1)) for at_ms in (0, 30_000, 60_000)]
    assert absence(*alone).is_gone(60_000)
    named = [*alone, (61_000, answer(ABSENT, brokers=2))]
    assert not absence(*named).is_gone(10_000_000)
    assert absence(*named, (62_000, answer(ABSENT, broker=2))).is_gone(62_000)


def test_ktp_8_an_answer_of_nobody_knows_who_is_that_of_no_broker():
    unnamed = [(at_ms, answer(ABSENT, broker=-1)) for at_ms in (0, 30_000, 60_000)]
    assert not absence((0, answer(ABSENT)), *unnamed).is_gone(60_000)
    assert not absence(*[(at, answer(ABSENT, broker=-1, brokers=1)) for at, _ in unnamed]).is_gone(
        60_000
    )


def test_ktp_8_a_shown_answer_begins_the_count_anew_and_a_doubtful_one_counts_neither_way():
    gone = [(0, answer(ABSENT)), (30_000, answer(ABSENT, broker=2)), (60_000, answer(ABSENT))]
    assert absence(*gone, (61_000, answer())) is None
    doubtful = [(at_ms + 1, answer(TOPIC_AUTHORIZATION_FAILED, None)) for at_ms, _ in gone]
    assert absence(*doubtful) is None
    mixed = [each for pair in zip(gone, doubtful, strict=True) for each in pair]
    assert absence(*mixed) == absence(*gone)
    assert absence(*mixed, (90_000, None)).is_gone(90_000)


def test_ktp_8_another_id_under_the_name_needs_as_many_answers():
    given = [(at_ms, answer(topic_id=OTHER, broker=at_ms % 2)) for at_ms in (0, 30_001, 60_000)]
    assert not absence(*given[:2]).is_gone(60_000)
    assert absence(*given).is_gone(60_000)


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (0, ""),
        (UNKNOWN_TOPIC_OR_PARTITION, ""),
        (TOPIC_AUTHORIZATION_FAILED, "the rights Describe and Read on this topic"),
        (17, "INVALID_TOPIC_EXCEPTION; correct the subscriptions"),
        (9_999, "error 9999; look at the Kafka cluster"),
    ],
)
def test_ktp_4_what_is_said_of_an_error(error, words):
    assert words in refusal_words("orders", error, attached=False)
    assert bool(refusal_words("orders", error, attached=True)) is bool(words)
