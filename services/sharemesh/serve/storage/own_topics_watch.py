"""The settings of the cluster's own topics, looked at each minute while it runs (STL-28)."""

import logging

from sharemesh.backends.kafka.shard_logs.coordinator_topics import (
    CoordinatorTopic,
    CoordinatorTopics,
    coordinator_topic_problems,
)
from sharemesh.cluster.store import records
from sharemesh.cluster.view.watched_view import WatchedView
from sharemesh.domain.attached_topics import (
    TopicAbsence,
    TopicAnswer,
    TopicSighting,
    noted_absence,
    sighting,
)
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
from sharemesh.ports.coordination import Coordination, CoordinationError, Delete, Put

CHECK_INTERVAL_MS = 60_000
BROKER_ERRORS = (BrokerRefusedError, BrokerUnreachableError, UnsupportedRequestError)

_log = logging.getLogger(__name__)


class OwnTopicsWatch:
    """Says what became wrong with the own topics: in the log, and in the coordination store.

    What cannot be asked leaves what is known as it is: that brokers are away is told elsewhere.
    """

    def __init__(
        self,
        brokers: Brokers,
        coordination: Coordination,
        view: WatchedView,
        clock: Clock,
        topics: CoordinatorTopics,
        *,
        servers: str,
        single_replica: bool,
    ) -> None:
        self._brokers = brokers
        self._coordination = coordination
        self._view = view
        self._clock = clock
        self._topics = tuple(topics.topics.values())
        self._kafka_cluster_id = topics.kafka_cluster_id
        self._servers = servers
        self._single_replica = single_replica
        self._absences: dict[str, TopicAbsence] = {}
        self._brokers_most = 0
        self._said: dict[str, str] = {}

    async def run(self) -> None:
        """Check each minute; it ends by being cancelled."""
        while True:
            await self._clock.sleep_ms(CHECK_INTERVAL_MS)
            try:
                await self.check()
            except (*BROKER_ERRORS, CoordinationError) as error:
                _log.debug("the own topics are not checked now: %s", error)
            except Exception:
                _log.exception("a check of the own topics failed, another one follows")

    async def check(self) -> None:
        """Check both topics once.

        Raises:
            BrokerRefusedError, BrokerUnreachableError, UnsupportedRequestError, CoordinationError
        """
        metadata = await self._brokers.metadata([each.topic for each in self._topics])
        if metadata.cluster_id == self._kafka_cluster_id:
            self._brokers_most = max(self._brokers_most, len(metadata.brokers))
        found = {each.topic: each for each in metadata.topics}
        for topic in self._topics:
            words = await self._problem(topic, found.get(topic.topic), metadata)
            if words is not None:
                await self._tell(topic.topic, words)

    async def _problem(
        self, topic: CoordinatorTopic, found: TopicMetadata | None, metadata: ClusterMetadata
    ) -> str | None:
        """Return what is wrong with a topic, empty: nothing; None: that is not known now."""
        answer = None if found is None else self._answer(found, metadata)
        seen = sighting(answer, recorded_id=topic.topic_id, kafka_cluster_id=self._kafka_cluster_id)
        now_ms = self._clock.now_ms()
        noted = noted_absence(self._absences.pop(topic.topic, None), seen, answer, now_ms)
        if noted is not None:
            self._absences[topic.topic] = noted
            if not noted.is_gone(now_ms):
                return None
            return (
                f"topic {topic.topic} is gone from the Kafka cluster, and with it what groups of "
                "this cluster have done: restore it with its id, or begin with another cluster_id; "
                "it is never made again"
            )
        if seen is not TopicSighting.SHOWN or found is None or not found.partitions:
            return None
        return "; ".join(
            coordinator_topic_problems(
                topic.topic,
                await self._brokers.topic_configs(topic.topic),
                min(len(each.replicas) for each in found.partitions),
                servers=self._servers,
                single_replica=self._single_replica,
            )
        )

    def _answer(self, found: TopicMetadata, metadata: ClusterMetadata) -> TopicAnswer:
        topic_id = None if found.topic_id == NO_TOPIC_ID else found.topic_id
        return TopicAnswer(
            found.error, topic_id, metadata.cluster_id, metadata.answered_by, self._brokers_most
        )

    async def _tell(self, topic: str, words: str) -> None:
        """Say it once, and let the coordination store hold it for as long as it lasts."""
        if words and self._said.get(topic) != words:
            _log.error("%s", words)
        elif not words and topic in self._said:
            _log.info("topic %s is as it must be again", topic)
        self._said.pop(topic, None)
        if words:
            self._said[topic] = words
        if words == self._view.tables.storage_problems.get(topic, ""):
            return
        key = self._view.keys.storage_problem(topic)
        write = Put(key, records.encode({"why": words})) if words else Delete(key)
        await self._coordination.commit([], [write])
