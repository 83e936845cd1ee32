"""Which topics of a Kafka cluster may be attached, and when one of them counts as gone."""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import Enum

from sharemesh.domain.errors import ErrorCode
from sharemesh.domain.ids import TopicId

_PATTERN = re.compile(r"!?[a-zA-Z0-9._*?-]+")
NAME_CHARS_MAX = 249


def pattern_problem(pattern: str) -> str:
    """Return why this is no pattern of topic names; empty: it is one."""
    if len(pattern) > NAME_CHARS_MAX + 1:
        return f"a pattern of {len(pattern)} characters; a topic's name has at most 249"
    if _PATTERN.fullmatch(pattern) is None:
        return (
            f"{pattern!r} is no pattern; write letters, digits, dots, underscores, dashes, * and "
            "?, with ! in front to leave topics out"
        )
    return ""


class AttachableTopics:
    """Topics of one Kafka cluster that may be attached (KTP-1).

    Some pattern matches their name, no pattern with ! in front does, and they are no own topics.
    """

    def __init__(
        self, kafka_cluster_id: str, patterns: Sequence[str], *, own_topics: Collection[str] = ()
    ) -> None:
        self.kafka_cluster_id = kafka_cluster_id
        self.own_topics = own_topics
        self._taken = _together([each for each in patterns if not each.startswith("!")])
        self._left_out = _together([each[1:] for each in patterns if each.startswith("!")])

    def match(self, name: str) -> bool:
        """Return whether a topic of this name may be attached."""
        if name in self.own_topics:
            return False
        return _matches(self._taken, name) and not _matches(self._left_out, name)


def _together(patterns: Sequence[str]) -> re.Pattern[str] | None:
    if not patterns:
        return None
    return re.compile("|".join(_expression(each) for each in patterns))


def _expression(pattern: str) -> str:
    parts = {"*": ".*", "?": "."}
    return "".join(parts.get(character, re.escape(character)) for character in pattern)


def _matches(pattern: re.Pattern[str] | None, name: str) -> bool:
    return pattern is not None and pattern.fullmatch(name) is not None


ABSENT_ANSWERS = 3
ABSENT_MS = 60_000
NO_ERROR = 0
UNKNOWN_TOPIC_CODES = frozenset({3, 100})
"""Kafka's UNKNOWN_TOPIC_OR_PARTITION and UNKNOWN_TOPIC_ID."""


class TopicSighting(Enum):
    """What one answer of one broker says of a topic that is attached (KTP-7)."""

    SHOWN = "shown"
    ABSENT = "absent"
    DOUBTFUL = "doubtful"


@dataclass(frozen=True, slots=True)
class TopicAnswer:
    """What one broker said of one name.

    Attributes:
        error: Kafka's error code for the name; 0: none.
        topic_id: The id that it showed; None: it shows no ids.
        kafka_cluster_id: The cluster that the broker says it is of.
        broker: Who answered; -1: it did not say, so it counts as no broker.
        brokers: How many brokers the cluster has: the most that any answer ever named.
    """

    error: int
    topic_id: TopicId | None
    kafka_cluster_id: str
    broker: int
    brokers: int


def sighting(
    answer: TopicAnswer | None,
    *,
    recorded_id: TopicId,
    kafka_cluster_id: str,
    given_up: Collection[TopicId] = (),
) -> TopicSighting:
    """Return what an answer says; None: the name was left out, or nobody answered."""
    if answer is None or answer.kafka_cluster_id != kafka_cluster_id:
        return TopicSighting.DOUBTFUL
    if answer.error in UNKNOWN_TOPIC_CODES:
        return TopicSighting.ABSENT
    if answer.error != NO_ERROR or answer.topic_id in given_up:
        return TopicSighting.DOUBTFUL
    if answer.topic_id is None or answer.topic_id == recorded_id:
        return TopicSighting.SHOWN
    return TopicSighting.ABSENT


@dataclass(frozen=True, slots=True)
class TopicAbsence:
    """Absent answers in a row, with no shown one between them."""

    since_ms: int
    answers: int
    by: frozenset[int]
    brokers: int

    def is_gone(self, now_ms: int) -> bool:
        """Return whether the topic counts as gone (KTP-8)."""
        return self.is_long(now_ms) and len(self.by) >= max(1, min(2, self.brokers))

    def is_long(self, now_ms: int) -> bool:
        """Return whether there were enough answers, be they of one broker only."""
        return self.answers >= ABSENT_ANSWERS and now_ms - self.since_ms >= ABSENT_MS


def noted_absence(
    before: TopicAbsence | None, seen: TopicSighting, answer: TopicAnswer | None, now_ms: int
) -> TopicAbsence | None:
    """Return what is known of a topic's absence after one more answer."""
    if seen is TopicSighting.SHOWN:
        return None
    if seen is TopicSighting.DOUBTFUL or answer is None:
        return before
    by = frozenset({answer.broker}) if answer.broker >= 0 else frozenset()
    if before is None:
        return TopicAbsence(now_ms, 1, by, answer.brokers)
    return TopicAbsence(
        before.since_ms,
        before.answers + 1,
        before.by | by,
        max(before.brokers, answer.brokers),
    )


def refusal_words(name: str, error: int, *, attached: bool) -> str:
    """Return what to say of a topic whose answer is neither shown nor absent; empty: nothing."""
    if error == NO_ERROR or error in UNKNOWN_TOPIC_CODES:
        return ""
    if error == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
        advice = "give the principal of Sharemesh the rights Describe and Read on this topic"
    elif error == ErrorCode.INVALID_TOPIC_EXCEPTION:
        advice = "correct the subscriptions that name it"
    else:
        advice = "look at the Kafka cluster"
    known = {each.value: each.name for each in ErrorCode}.get(error, f"error {error}")
    state = "keeps its record and its states as they are" if attached else "is not attached"
    return f"topic {name!r} {state}: the Kafka cluster answers {known}; {advice}; it is asked again"
