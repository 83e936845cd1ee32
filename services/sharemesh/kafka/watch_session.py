"""What one broker remembers of a watch: an incremental fetch session (KIP-227), without I/O."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from sharemesh.domain.ids import TopicId
from sharemesh.kafka.messages import Content, KafkaMessage, from_uuid, to_uuid
from sharemesh.kafka.versions import LAST_WITH_NAMES
from sharemesh.ports.brokers import BrokerPartition, BrokerRefusedError, WatchedPartition

_NEW_SESSION = 0
_END_SESSION = -1
_EPOCH_MAX = 2**31 - 1
_SESSION_ERRORS = frozenset({70, 71, 103, 106})
"""FETCH_SESSION_ID_NOT_FOUND, INVALID_FETCH_SESSION_EPOCH, INCONSISTENT_TOPIC_ID,
FETCH_SESSION_TOPIC_ID_ERROR."""


class WatchedAtLeader(NamedTuple):
    """What is asked of a partition, and the leader epoch that is named."""

    watched: WatchedPartition
    leader_epoch: int


Wanted = Mapping[BrokerPartition, WatchedAtLeader]


class WatchSession:
    """Says what to send, and what of an answer is about which partition."""

    def __init__(self) -> None:
        self._id = 0
        self._epoch = _NEW_SESSION
        self._version = 0
        self._remembered: dict[BrokerPartition, WatchedAtLeader] = {}
        self._sent: dict[BrokerPartition, WatchedAtLeader] = {}

    @property
    def is_open(self) -> bool:
        """Whether the broker keeps a session."""
        return self._id != 0

    def request(self, wanted: Wanted, version: int) -> Content:
        """Return the part of a Fetch that says what to watch: only what changed, if it can be.

        One session does not mix names and ids: with another version than before it begins anew.
        """
        if (version > LAST_WITH_NAMES) != (self._version > LAST_WITH_NAMES):
            self.reset()
        self._version = version
        self._sent = dict(wanted)
        if self._epoch == _NEW_SESSION:
            changed: Iterable[WatchedAtLeader] = wanted.values()
            forgotten: Iterable[BrokerPartition] = ()
        else:
            known = self._remembered
            changed = [each for place, each in wanted.items() if known.get(place) != each]
            forgotten = [place for place in known if place not in wanted]
        return {
            "session_id": self._id,
            "session_epoch": self._epoch,
            "topics": _by_topic(changed),
            "forgotten_topics_data": _forgotten(forgotten),
        }

    def end(self) -> Content:
        """Return what lets the broker forget the session."""
        return {
            "session_id": self._id,
            "session_epoch": _END_SESSION,
            "topics": (),
            "forgotten_topics_data": (),
        }

    def accept(
        self, answer: KafkaMessage
    ) -> Iterable[tuple[BrokerPartition, WatchedAtLeader, KafkaMessage]] | None:
        """Return what is new by partition; None if the broker does not know the session any more.

        A broker that gives no session is sent everything each time.

        Raises:
            BrokerRefusedError: The answer is an error, and not because a session was lost.
        """
        code = int(answer.error_code)
        if code:
            began = self._epoch == _NEW_SESSION
            self.reset()
            if began or code not in _SESSION_ERRORS:
                raise BrokerRefusedError(code, answer.error_code.name.upper())
            return None
        if answer.session_id == 0:
            self.reset()
        else:
            self._id = answer.session_id
            self._epoch = 1 if self._epoch == _EPOCH_MAX else self._epoch + 1
            self._remembered = self._sent
        return self._found(answer)

    def reset(self) -> None:
        """Begin anew: what the broker remembers is not known, or an answer was lost."""
        self._id, self._epoch = 0, _NEW_SESSION
        self._remembered = {}

    def _found(
        self, answer: KafkaMessage
    ) -> Iterable[tuple[BrokerPartition, WatchedAtLeader, KafkaMessage]]:
        by_id = self._version > LAST_WITH_NAMES
        places: dict[tuple[TopicId | str, int], BrokerPartition] = {
            (each.topic_id if by_id else each.topic, each.partition): each for each in self._sent
        }
        for topic in answer.responses:
            name = from_uuid(topic.topic_id) if by_id else topic.topic
            for partition in topic.partitions:
                place = places.get((name, partition.partition_index))
                if place is not None:
                    yield place, self._sent[place], partition


def _by_topic(asked: Iterable[WatchedAtLeader]) -> list[Content]:
    topics: dict[tuple[TopicId, str], list[Content]] = {}
    for watched, leader_epoch in asked:
        place = watched.partition
        topics.setdefault((place.topic_id, place.topic), []).append(
            {
                "partition": place.partition,
                "current_leader_epoch": leader_epoch,
                "fetch_offset": watched.offset,
                "last_fetched_epoch": watched.last_fetched_epoch,
                "partition_max_bytes": watched.max_bytes,
            }
        )
    return [
        {"topic": topic, "topic_id": to_uuid(topic_id), "partitions": partitions}
        for (topic_id, topic), partitions in topics.items()
    ]


def _forgotten(places: Iterable[BrokerPartition]) -> list[Content]:
    topics: dict[tuple[TopicId, str], list[int]] = {}
    for place in places:
        topics.setdefault((place.topic_id, place.topic), []).append(place.partition)
    return [
        {"topic": topic, "topic_id": to_uuid(topic_id), "partitions": tuple(numbers)}
        for (topic_id, topic), numbers in topics.items()
    ]
