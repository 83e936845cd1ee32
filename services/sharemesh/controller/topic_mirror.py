"""Attached topics of a Kafka cluster, mirrored into the coordination store (spec KTP)."""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random

from sharemesh.cluster.store import records
from sharemesh.cluster.store.records import Deletion
from sharemesh.cluster.store.topics import TOPICS_MAX, new_topic_id
from sharemesh.cluster.view.cluster_state import StateChanges, Stored
from sharemesh.cluster.view.watched_view import WatchedView
from sharemesh.domain.attached_topics import (
    AttachableTopics,
    TopicAbsence,
    TopicAnswer,
    TopicSighting,
    noted_absence,
    refusal_words,
    sighting,
)
from sharemesh.domain.ids import TopicId
from sharemesh.domain.topics import PARTITIONS_MAX
from sharemesh.ports.brokers import (
    NO_TOPIC_ID,
    BrokerRefusedError,
    Brokers,
    BrokerUnreachableError,
    ClusterMetadata,
    TopicMetadata,
    UnsupportedRequestError,
)
from sharemesh.ports.clock import Clock
from sharemesh.ports.cluster import TopicInfo
from sharemesh.ports.coordination import (
    Coordination,
    CoordinationError,
    Delete,
    ElectedLeadership,
    Guard,
    Put,
)
from sharemesh.tasks import first_done

NAMES_PER_REQUEST = 500
GIVEN_UP_MAX = 10_000
ASKED_AGAIN_MAX = 5  # times at once about a new name: brokers hear of a new topic one by one
RETRY_MS = 1_000
BROKER_ERRORS = (BrokerRefusedError, BrokerUnreachableError, UnsupportedRequestError)

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class MirrorSettings:
    """How often the Kafka cluster is asked; milliseconds."""

    round_ms: int = 30_000
    wish_pause_ms: int = 1_000  # between two questions about new names
    wanted_ms: int = 600_000  # until a wanted name that is not shown is forgotten


class TopicMirror:
    """Asks by name, writes guarded by the election.

    What it knows of absent answers ends with its term: the next controller begins to count anew.
    """

    def __init__(
        self,
        coordination: Coordination,
        view: WatchedView,
        clock: Clock,
        rng: Random,
        brokers: Brokers,
        attachable: AttachableTopics,
        *,
        settings: MirrorSettings | None = None,
    ) -> None:
        self._coordination = coordination
        self._view = view
        self._clock = clock
        self._rng = rng
        self._brokers = brokers
        self._attachable = attachable
        self._kafka_cluster_id = attachable.kafka_cluster_id
        self._settings = settings or MirrorSettings()
        self._wake = asyncio.Event()
        self._absences: dict[str, TopicAbsence] = {}
        self._given_up: dict[TopicId, None] = {}
        self._wanted_since_ms: dict[str, int] = {}
        self._asked: dict[str, int] = {}  # wishes by their revision
        self._not_shown: dict[str, int] = {}  # wishes, and how often in a row no broker showed them
        self._said: dict[str, str] = {}
        self._said_of: dict[str, str] = {}  # topics whose answer is an error, or of one broker
        self._brokers_most = 0  # that the Kafka cluster ever named to this process
        self._whole_rounds = 0
        self.last_error = ""

    async def run(self, leadership: ElectedLeadership) -> None:
        """Mirror for as long as this controller is elected; it ends by being cancelled."""
        self._absences.clear()
        self._wanted_since_ms.clear()
        self._asked.clear()
        self._not_shown.clear()
        unsubscribe = self._view.subscribe(self._changed)
        try:
            whole_due_ms = self._clock.now_ms()
            while True:
                self._wake.clear()
                whole = self._clock.now_ms() >= whole_due_ms
                if whole:
                    whole_due_ms = self._clock.now_ms() + self._settings.round_ms
                    self._whole_rounds += 1
                    names = self._all_names()
                    self._said_of = {
                        name: words for name in names if (words := self._said_of.get(name))
                    }
                else:
                    names = self._new_names()
                pause_ms = await self._round(leadership, names)
                await self._clock.sleep_ms(pause_ms)
                left_ms = whole_due_ms - self._clock.now_ms()
                if left_ms > 0 and not self._new_names():
                    await first_done(self._wake.wait(), self._clock.sleep_ms(left_ms))
        finally:
            unsubscribe()

    def _changed(self, changes: StateChanges) -> None:
        if changes.everything or changes.wishes or changes.topics:
            self._wake.set()

    def _all_names(self) -> list[str]:
        tables = self._view.tables
        names = {**dict.fromkeys(tables.topics), **tables.attached, **tables.wanted}
        return sorted(
            name for name in names if self._attachable.match(name) or name in tables.topics
        )

    def _new_names(self) -> list[str]:
        """Return names that were wished for since they were last asked about."""
        tables = self._view.tables
        wishes = {**tables.wanted, **tables.attached}
        return sorted(
            name
            for name, revision in wishes.items()
            if self._asked.get(name) != revision and self._attachable.match(name)
        )

    def _note_asked(self, names: Sequence[str]) -> None:
        tables = self._view.tables
        wishes = {**tables.wanted, **tables.attached}
        self._asked = {name: at for name, at in self._asked.items() if name in wishes}
        self._not_shown = {name: n for name, n in self._not_shown.items() if name in wishes}
        for name in names:
            if name in wishes:
                self._asked[name] = wishes[name]

    async def _round(self, leadership: ElectedLeadership, names: Sequence[str]) -> int:
        """Ask about names and write what follows; return how long to pause."""
        self._note_asked(names)
        try:
            for part in self._in_parts(names):
                metadata = await self._brokers.metadata(part)
                self._check_cluster(metadata)
                found = {topic.topic: topic for topic in metadata.topics}
                for name in part:
                    await self._take(leadership, name, found.get(name), metadata)
        except (*BROKER_ERRORS, CoordinationError) as error:
            self.last_error = str(error)
            self._say("", f"topics are not mirrored now, again soon: {error}")
            self._asked.clear()
            return RETRY_MS
        except Exception as error:  # whatever ended this round, another one begins
            self.last_error = f"{type(error).__name__}: {error}"
            _log.exception("a round of the topic mirror failed, again soon")
            return RETRY_MS
        self.last_error = ""
        self._said.pop("", None)
        return self._settings.wish_pause_ms if names else 0

    def _in_parts(self, names: Sequence[str]) -> list[Sequence[str]]:
        """Return the names of each request, in an order that shifts every second round.

        Brokers answer in turn: where they divide the number of requests, the order of always would
        ask the same one about a name each time, and in other rounds it asks another one (KTP-8).
        """
        firsts = range(0, len(names), NAMES_PER_REQUEST)
        parts = [names[first : first + NAMES_PER_REQUEST] for first in firsts]
        shift = self._whole_rounds // 2 % max(1, len(parts))
        return [*parts[shift:], *parts[:shift]]

    async def _take(
        self,
        leadership: ElectedLeadership,
        name: str,
        found: TopicMetadata | None,
        metadata: ClusterMetadata,
    ) -> None:
        """Take one answer about one name into account."""
        stored = self._view.tables.topics.get(name)
        answer = _answer(found, metadata, self._brokers_most)
        if answer is not None and answer.kafka_cluster_id == self._kafka_cluster_id:
            self._say_refusal(name, answer.error, attached=stored is not None)
        if stored is None:
            self._absences.pop(name, None)
            if found is not None and found.partitions and self._is_new(answer):
                await self._attach(leadership, found)
                self._not_shown.pop(name, None)
            else:
                self._ask_soon_again(name)
                await self._forget_wish(leadership, name)
            return
        seen = sighting(
            answer,
            recorded_id=stored.value.topic_id,
            kafka_cluster_id=self._kafka_cluster_id,
            given_up=self._given_up,
        )
        now_ms = self._clock.now_ms()
        noted = noted_absence(self._absences.get(name), seen, answer, now_ms)
        self._absences.pop(name, None)
        if noted is not None:
            self._absences[name] = noted
        if seen is TopicSighting.SHOWN and found is not None:
            await self._grow(leadership, stored, found)
        elif noted is not None and noted.is_gone(now_ms):
            await self._give_up(leadership, stored)
        elif noted is not None and noted.is_long(now_ms):
            self._say_of(
                name,
                f"topic {name!r} keeps its record and its states: no more than one broker of "
                f"{noted.brokers} says that it is gone; if the Kafka cluster has only one now, "
                "and the topic is gone indeed, restart the controllers",
            )

    def _ask_soon_again(self, name: str) -> None:
        """Ask about a new name that was not shown again, a few times: another broker may know."""
        times = self._not_shown[name] = self._not_shown.get(name, 0) + 1
        if times <= ASKED_AGAIN_MAX:
            self._asked.pop(name, None)

    def _is_new(self, answer: TopicAnswer | None) -> bool:
        """Return whether a name that is not attached is shown by the right cluster (KTP-4)."""
        return (
            answer is not None
            and not answer.error
            and answer.kafka_cluster_id == self._kafka_cluster_id
            and answer.topic_id not in self._given_up
        )

    async def _attach(self, leadership: ElectedLeadership, found: TopicMetadata) -> None:
        tables, keys, name = self._view.tables, self._view.keys, found.topic
        if len(tables.topics) >= TOPICS_MAX:
            self._say(name, f"topic {name!r} is not attached: {TOPICS_MAX} are, detach some")
            return
        has_id = found.topic_id != NO_TOPIC_ID
        topic_id = found.topic_id if has_id else new_topic_id(self._rng)
        topic = TopicInfo(name, topic_id, min(len(found.partitions), PARTITIONS_MAX), {})
        operations: list[Put | Delete] = [
            Put(keys.topic(name), records.encode_topic(topic)),
            Delete(keys.deletion(topic_id)),
        ]
        if name in tables.wanted:
            operations.append(Delete(keys.wanted_topic(name)))
        guards = [leadership.guard, Guard(keys.topic(name), create_revision=0)]
        if await self._coordination.commit(guards, operations) is not None:
            self._wanted_since_ms.pop(name, None)
            _log.info("topic %r is attached with %d partitions", name, topic.partitions)

    async def _forget_wish(self, leadership: ElectedLeadership, name: str) -> None:
        """Forget a name that groups want and Kafka does not show for long; attached ones stay."""
        if name not in self._view.tables.wanted:
            return
        now_ms = self._clock.now_ms()
        since_ms = self._wanted_since_ms.setdefault(name, now_ms)
        if now_ms - since_ms >= self._settings.wanted_ms:
            key = self._view.keys.wanted_topic(name)
            if await self._coordination.commit([leadership.guard], [Delete(key)]) is None:
                return
            self._wanted_since_ms.pop(name, None)
            _log.warning(
                "topic %r is wanted no longer: the Kafka cluster did not show it for %d s; create "
                "it there, or correct the subscriptions that name it",
                name,
                self._settings.wanted_ms // 1_000,
            )

    async def _grow(
        self, leadership: ElectedLeadership, stored: Stored[TopicInfo], found: TopicMetadata
    ) -> None:
        """Take more partitions over; fewer are said once (KTP-5)."""
        known, name = stored.value.partitions, found.topic
        shown = min(len(found.partitions), PARTITIONS_MAX)
        if shown < known:
            self._say(
                name,
                f"topic {name!r} is shown with {shown} partitions, and has {known}: a topic never "
                "shrinks, so it is left as it is; look at the Kafka cluster",
            )
        if shown <= known:
            return
        key = self._view.keys.topic(name)
        grown = replace(stored.value, partitions=shown)
        guards = [leadership.guard, Guard(key, mod_revision=stored.mod_revision)]
        put = Put(key, records.encode_topic(grown))
        if await self._coordination.commit(guards, [put]) is not None:
            _log.info("topic %r has %d partitions, up from %d", name, shown, known)

    async def _give_up(self, leadership: ElectedLeadership, stored: Stored[TopicInfo]) -> None:
        """Delete the record of a topic that is gone (KTP-9)."""
        keys, topic = self._view.keys, stored.value
        deletion = Deletion(topic.name, topic.topic_id, topic.partitions)
        guards = [
            leadership.guard,
            Guard(keys.topic(topic.name), mod_revision=stored.mod_revision),
        ]
        operations: list[Put | Delete] = [
            Delete(keys.topic(topic.name)),
            Delete(keys.seen_topic(topic.topic_id), prefix=True),
            Put(keys.deletion(topic.topic_id), records.encode_deletion(deletion)),
        ]
        if await self._coordination.commit(guards, operations) is None:
            return
        self._absences.pop(topic.name, None)
        self._given_up[topic.topic_id] = None
        while len(self._given_up) > GIVEN_UP_MAX:
            del self._given_up[next(iter(self._given_up))]
        _log.warning(
            "topic %r is gone from the Kafka cluster: its record is deleted, its delivery states "
            "follow",
            topic.name,
        )

    def _check_cluster(self, metadata: ClusterMetadata) -> None:
        if metadata.cluster_id == self._kafka_cluster_id:
            self._said.pop("cluster", None)
            self._brokers_most = max(self._brokers_most, len(metadata.brokers))
            return
        self._say(
            "cluster",
            f"broker {metadata.answered_by} is of Kafka cluster {metadata.cluster_id!r}, and the "
            f"logs are in {self._kafka_cluster_id!r}: what it says of topics is not believed; "
            "correct kafka_bootstrap_servers",
        )

    def _say_refusal(self, name: str, error: int, *, attached: bool) -> None:
        """Say once that a topic answers with an error; forget it when it is shown (KTP-4)."""
        if not error:
            self._said_of.pop(name, None)
        elif words := refusal_words(name, error, attached=attached):
            self._say_of(name, words)

    def _say_of(self, name: str, words: str) -> None:
        if self._said_of.get(name) != words:
            self._said_of[name] = words
            _log.warning(words)

    def _say(self, about: str, words: str) -> None:
        """Log words once, until they change."""
        if self._said.get(about) != words:
            self._said[about] = words
            _log.warning(words)


def _answer(
    found: TopicMetadata | None, metadata: ClusterMetadata, brokers: int
) -> TopicAnswer | None:
    if found is None:
        return None
    return TopicAnswer(
        error=found.error,
        topic_id=None if found.topic_id == NO_TOPIC_ID else found.topic_id,
        kafka_cluster_id=metadata.cluster_id,
        broker=metadata.answered_by,
        brokers=brokers,
    )
