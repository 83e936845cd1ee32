"""What the controller knows of topics, as values that brokers take over whole, and perhaps late."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from sharemesh.domain.ids import TopicId
from sharemesh.ports.brokers import PartitionMetadata

SETTINGS = {
    "cleanup.policy": "delete",
    "compression.type": "producer",
    "max.message.bytes": "1048588",
    "message.timestamp.type": "CreateTime",
    "min.insync.replicas": "1",
    "remote.storage.enable": "false",
    "retention.bytes": "-1",
    "retention.ms": "604800000",
    "unclean.leader.election.enable": "false",
}
"""Settings of a topic that are known here, with their defaults."""


@dataclass(frozen=True, slots=True)
class BrokerTopic:
    """One topic as of some moment; partitions are numbered from 0."""

    name: str
    topic_id: TopicId
    partitions: tuple[PartitionMetadata, ...]
    configs: Mapping[str, str] = field(default_factory=dict)

    def setting(self, name: str) -> str:
        """Return the effective value of a setting."""
        return self.configs.get(name, SETTINGS[name])

    def effective(self) -> Mapping[str, str]:
        """Return all settings with their values."""
        return {**SETTINGS, **self.configs}


@dataclass(frozen=True, slots=True)
class ClusterImage:
    """All topics, and which brokers the controller counts as alive."""

    topics: Mapping[str, BrokerTopic]
    names: Mapping[TopicId, str]
    living: tuple[int, ...]

    def by_id(self, topic_id: TopicId) -> BrokerTopic | None:
        """Return a topic by its id."""
        name = self.names.get(topic_id)
        return None if name is None else self.topics[name]

    def with_topic(self, topic: BrokerTopic) -> "ClusterImage":
        """Return the image with one topic added or changed."""
        names = self.names
        if topic.topic_id not in names:
            names = {**names, topic.topic_id: topic.name}
        return ClusterImage({**self.topics, topic.name: topic}, names, self.living)

    def without_topic(self, name: str) -> "ClusterImage":
        """Return the image without one topic."""
        topics = {key: each for key, each in self.topics.items() if key != name}
        names = {key: each for key, each in self.names.items() if each != name}
        return ClusterImage(topics, names, self.living)
