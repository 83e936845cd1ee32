"""One broker: what it knows of the cluster, its replicas, and whether it runs."""

from collections.abc import Callable
from typing import Any

from sharemesh.domain.ids import TopicId
from sharemesh.ports.brokers import NO_TOPIC_ID, BrokerAddress, BrokerPartition
from sharemesh.testing.memory_brokers.broker_codes import BrokerCode, refusal
from sharemesh.testing.memory_brokers.cluster_image import BrokerTopic, ClusterImage
from sharemesh.testing.memory_brokers.fetch_sessions import FetchSessions
from sharemesh.testing.memory_brokers.replica import PartitionKey, Replica
from sharemesh.testing.memory_brokers.schedule import Schedule, Scheduled

Reply = Callable[[Any], None]
"""Takes the answer, or the BrokerRefusedError in its place."""


class MemoryBroker:
    """Answers requests by what it believes, which may be old.

    Attributes:
        image: What it last heard of the controller.
        alive: Whether its process runs; what lies in its logs survives.
        frozen: Stopped as by SIGSTOP: what arrives waits.
        deaf: Hears nothing of the controller, and does not know it.
        isolated: Reaches no other broker.
        replicas: By topic id and partition.
        sessions: The fetch sessions that it keeps for clients.
        denied: Topics that nobody may use now.
    """

    def __init__(
        self,
        address: BrokerAddress,
        schedule: Schedule,
        image: ClusterImage,
        denied: dict[str, None],
    ) -> None:
        self.address = address
        self.broker_id = address.broker_id
        self.schedule = schedule
        self.image = image
        self.denied = denied
        self.alive = True
        self.frozen = False
        self.deaf = False
        self.isolated = False
        self.replicas: dict[PartitionKey, Replica] = {}
        self.sessions = FetchSessions()
        self.new_role: Callable[[MemoryBroker, Replica], None] = lambda *_: None
        self._life = 0
        self._inbox: list[Callable[[], None]] = []

    @property
    def runs(self) -> bool:
        """Whether it does anything now."""
        return self.alive and not self.frozen

    # ---- its process ------------------------------------------------------------------------

    def kill(self) -> None:
        """As kill -9: requests under way are never answered."""
        self.alive = self.frozen = False
        self._life += 1
        self._inbox.clear()
        self.sessions.clear()
        for replica in self.replicas.values():
            replica.drop_waiters()

    def thaw(self) -> None:
        """SIGCONT: what came meanwhile is done now, by what was known before."""
        self.frozen = False
        inbox, self._inbox = self._inbox, []
        for action in inbox:
            action()

    def do(self, action: Callable[[], None]) -> None:
        """Do something, once it is not frozen; nothing if it is dead."""
        if self.frozen:
            self._inbox.append(action)
        elif self.alive:
            action()

    def later(self, delay_ms: float, action: Callable[[], None]) -> Scheduled:
        """Do something after a delay, if it is still in the same life."""
        life = self._life
        return self.schedule.later(
            delay_ms, lambda: self.do(action) if life == self._life else None
        )

    # ---- what it knows ----------------------------------------------------------------------

    def hear(self, image: ClusterImage) -> None:
        """Take over what the controller says."""
        before, self.image = self.image, image
        now_ms = self.schedule.now_ms()
        for key in [key for key in self.replicas if key[0] not in image.names]:
            self.replicas.pop(key).vanish()
        for name, topic in image.topics.items():
            if before.topics.get(name) is topic:
                continue
            for partition in topic.partitions:
                if self.broker_id in partition.replicas:
                    key = (topic.topic_id, partition.partition)
                    replica = self.replicas.get(key)
                    if replica is None:
                        replica = self.replicas[key] = Replica(self.broker_id, name, key)
                    if replica.hear(partition, now_ms):
                        self.new_role(self, replica)
        if before.living != image.living:
            for replica in list(self.replicas.values()):
                replica.notify()

    def by_id(self, partition: BrokerPartition) -> Replica:
        """Return the replica that a request by topic id means.

        Raises:
            BrokerRefusedError: It is not here, or nobody may use the topic.
        """
        if partition.topic_id == NO_TOPIC_ID:
            return self.by_name(partition)
        topic = self.image.by_id(partition.topic_id)
        if topic is None:
            raise refusal(BrokerCode.UNKNOWN_TOPIC_ID)
        return self._replica(topic, partition.partition)

    def by_name(self, partition: BrokerPartition) -> Replica:
        """Return the replica that a request without topic id means: of whatever has the name now.

        Raises:
            BrokerRefusedError: It is not here, or nobody may use the topic.
        """
        topic = self.image.topics.get(partition.topic)
        if topic is None:
            raise refusal(BrokerCode.UNKNOWN_TOPIC_OR_PARTITION)
        return self._replica(topic, partition.partition)

    def setting(self, topic_id: TopicId, name: str) -> str:
        """Return a setting of a topic that is known here."""
        topic = self.image.by_id(topic_id)
        if topic is None:
            raise refusal(BrokerCode.UNKNOWN_TOPIC_ID)
        return topic.setting(name)

    def _replica(self, topic: BrokerTopic, partition: int) -> Replica:
        if topic.name in self.denied:
            raise refusal(BrokerCode.TOPIC_AUTHORIZATION_FAILED, topic.name)
        replica = self.replicas.get((topic.topic_id, partition))
        if replica is not None:
            return replica
        if 0 <= partition < len(topic.partitions):
            raise refusal(BrokerCode.NOT_LEADER_OR_FOLLOWER, f"broker {self.broker_id}")
        raise refusal(BrokerCode.UNKNOWN_TOPIC_OR_PARTITION, f"{topic.name}-{partition}")
