"""Compares a ShareTopic with the existing topic: changes to make, conditions, status."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from sharemesh.domain.topics import RETENTION_BYTES, RETENTION_MS
from sharemesh_operator.resources.conditions import Condition
from sharemesh_operator.resources.names import KubeObject

NO_LIMIT = "-1"
_WEEK_S = 604_800


@dataclass(frozen=True, slots=True)
class TopicFound:
    """A topic as the mesh describes it."""

    topic_id: str
    partitions: int
    led: int
    configs: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class TopicChange:
    """What has to be done to a topic; all empty: nothing."""

    create: bool = False
    partitions: int = 0
    """The number to grow to; 0: it stays."""
    configs: Mapping[str, str | None] = field(default_factory=dict)


def topic_name(body: KubeObject) -> str:
    """Return the topic's name in the mesh."""
    name: str = body["spec"].get("topicName") or body["metadata"]["name"]
    return name


def topic_configs(body: KubeObject, *, adopts: bool = False) -> dict[str, str | None]:
    """Return the configs that the object speaks of; None: the default.

    Args:
        body: The ShareTopic.
        adopts: Whether the topic is somebody else's, as with Kafka storage: then only what the
            object names.
    """
    spec = body["spec"]
    age, size = spec.get("retentionSeconds"), spec.get("retentionBytes")
    found = {
        RETENTION_MS: str((_WEEK_S if age is None else age) * 1_000),
        RETENTION_BYTES: None if size is None else str(size),
    }
    named = {RETENTION_MS: age is not None, RETENTION_BYTES: size is not None}
    return {name: value for name, value in found.items() if named[name] or not adopts}


def change_of(body: KubeObject, found: TopicFound | None, *, adopts: bool = False) -> TopicChange:
    """Return how to bring the topic to what the object says; partitions never become fewer."""
    wanted = topic_configs(body, adopts=adopts)
    count = body["spec"]["partitions"]
    if found is None:
        given = {name: value for name, value in wanted.items() if value is not None}
        return TopicChange(create=True, partitions=count, configs=given)
    drifted: dict[str, str | None] = {
        name: value
        for name, value in wanted.items()
        if found.configs.get(name) != value
        and not (value is None and found.configs.get(name) in (None, NO_LIMIT))
    }
    return TopicChange(partitions=count if count > found.partitions else 0, configs=drifted)


def topic_condition(body: KubeObject, found: TopicFound | None) -> Condition:
    """Return Ready of a ShareTopic."""
    name, wanted = topic_name(body), body["spec"]["partitions"]
    if found is None:
        return Condition.false("Ready", "NotCreated", f"topic {name!r} is not there yet")
    if found.partitions > wanted:
        return Condition.false(
            "Ready",
            "MorePartitions",
            f"topic {name!r} has {found.partitions} partitions, more than {wanted}; partitions "
            f"cannot be taken away: set partitions to {found.partitions}",
        )
    if found.led < found.partitions:
        return Condition.false(
            "Ready",
            "PartitionsNotLed",
            f"{found.partitions - found.led} of {found.partitions} partitions have no leader",
        )
    return Condition.true("Ready", "InSync", f"{found.partitions} partitions are led")


def not_in_kafka(body: KubeObject) -> Condition:
    """Return Ready of a ShareTopic whose topic the Kafka cluster does not have."""
    return Condition.false(
        "Ready",
        "NotInKafka",
        f"the Kafka cluster has no topic {topic_name(body)!r}, or shows it not to this cluster's "
        "principal (right Describe): make it there, or set kafka.manageTopics of a ShareCluster "
        "when it is made",
    )


def name_taken(body: KubeObject, rival: str) -> Condition:
    """Return Ready of a ShareTopic for whose topic an older one stands."""
    return Condition.false(
        "Ready",
        "NameTaken",
        f"ShareTopic {rival!r} stands for topic {topic_name(body)!r} already; delete one of them",
    )


def topic_status(body: KubeObject, found: TopicFound | None) -> KubeObject:
    """Return the status but for its conditions; of a topic that is not found only its name."""
    named = {"topicName": topic_name(body)}
    if found is None:
        return named
    return {**named, "topicId": found.topic_id, "partitions": found.partitions}
