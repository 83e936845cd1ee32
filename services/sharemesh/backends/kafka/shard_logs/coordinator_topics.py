"""The two topics of a cluster's own: which, with what settings, made when (STL-22, STL-23)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from sharemesh.backends.kafka.shard_logs.owner_record import (
    TopicOwner,
    read_owner,
    write_owner,
)
from sharemesh.domain.errors import ErrorCode
from sharemesh.domain.ids import TopicId
from sharemesh.ports.brokers import (
    LATEST_TIMESTAMP,
    BrokerPartition,
    BrokerRefusedError,
    Brokers,
    BrokerUnreachableError,
    NewBrokerTopic,
    TopicMetadata,
    UnsupportedRequestError,
)
from sharemesh.ports.clock import Clock

MESSAGE_BYTES_MIN = 1_048_588
CREATE_TIMEOUT_MS = 30_000
SEEN_ATTEMPTS = 60
SEEN_RETRY_MS = 250
FEWER_ATTEMPTS = 4
"""So often an older topic is seen with too few partitions until that is believed."""

NOT_HEARD_OF = frozenset({3, 5, 6, 100})
"""UNKNOWN_TOPIC_OR_PARTITION, LEADER_NOT_AVAILABLE, NOT_LEADER_OR_FOLLOWER, UNKNOWN_TOPIC_ID."""

_FIXED = {
    "cleanup.policy": "delete",
    "retention.ms": "-1",
    "retention.bytes": "-1",
    "unclean.leader.election.enable": "false",
    "message.timestamp.type": "LogAppendTime",
}
_WHERE_KNOWN = {"remote.storage.enable": "false"}
_UNCOMPRESSED = ("producer", "uncompressed")
_FORMAT_MIN = (0, 11)


class CoordinatorTopicError(Exception):
    """The topics of a new cluster cannot be made; the message says why and what to do."""


class TopicsTakenError(CoordinatorTopicError):
    """They are another Sharemesh cluster's, or were made for other numbers of shards."""


@dataclass(frozen=True, slots=True)
class CoordinatorTopic:
    """A topic of the cluster's own, as it was recorded when the cluster was created."""

    topic: str
    topic_id: TopicId


@dataclass(frozen=True, slots=True)
class CoordinatorTopics:
    """Which logs these are: of which mesh, in which Kafka cluster, which topics."""

    cluster_id: str
    kafka_cluster_id: str
    topics: Mapping[str, CoordinatorTopic]
    """By the names of ``ShardLogs``: ``state`` and ``group``."""
    incarnation: int = 0
    """Raised when a loss of records was accepted: what was stamped before is void then."""


def coordinator_topic_configs(min_insync_replicas: int) -> dict[str, str]:
    """Return the settings with which both topics are created."""
    return {
        **_FIXED,
        "min.insync.replicas": str(min_insync_replicas),
        "compression.type": _UNCOMPRESSED[0],
        "max.message.bytes": str(MESSAGE_BYTES_MIN),
    }


def coordinator_topic_problems(
    topic: str, configs: Mapping[str, str], replicas: int, *, servers: str, single_replica: bool
) -> tuple[str, ...]:
    """Return what is wrong with the settings of a topic, one sentence each (STL-22).

    Args:
        topic: Its name.
        configs: Its settings in force; one that is absent is not known to the cluster.
        replicas: Of its partitions, the fewest.
        servers: Of the cluster, as Kafka's tools take them.
        single_replica: Whether one replica is accepted.
    """
    wanted: dict[str, str] = {}
    for name, value in _FIXED.items():
        if configs.get(name, value).lower() != value.lower():
            wanted[name] = value
    for name, value in _WHERE_KNOWN.items():
        if configs.get(name, value).lower() != value:
            wanted[name] = value
    if configs.get("compression.type", _UNCOMPRESSED[0]) not in _UNCOMPRESSED:
        wanted["compression.type"] = _UNCOMPRESSED[0]
    if _number(configs, "max.message.bytes", MESSAGE_BYTES_MIN) < MESSAGE_BYTES_MIN:
        wanted["max.message.bytes"] = str(MESSAGE_BYTES_MIN)
    if _number(configs, "min.insync.replicas", 1) < 2 and not single_replica:
        wanted["min.insync.replicas"] = "2"
    problems = [
        _differs(topic, name, configs.get(name), value, servers) for name, value in wanted.items()
    ]
    problems += _old_format(topic, configs, servers)
    in_sync = _number(configs, "min.insync.replicas", 1)
    if in_sync > replicas:
        problems.append(
            f"topic {topic} has min.insync.replicas={in_sync} and partitions with {replicas} "
            f"{'replica' if replicas == 1 else 'replicas'}: nothing can be written; add replicas "
            f"(kafka-reassign-partitions), or lower the setting: {_command(topic, servers)} "
            f"min.insync.replicas={max(1, min(2, replicas))}"
        )
    if replicas < 2 and not single_replica:
        problems.append(
            f"topic {topic} has partitions with {replicas} replica: what is confirmed would be "
            "lost with one broker; add replicas (kafka-reassign-partitions), or accept that with "
            "kafka_single_replica"
        )
    return tuple(problems)


def _differs(topic: str, name: str, found: str | None, wanted: str, servers: str) -> str:
    return (
        f"topic {topic} has {name}={'(unknown)' if found is None else found}, it must be {wanted}: "
        f"{_command(topic, servers)} {name}={wanted}"
    )


def _command(topic: str, servers: str) -> str:
    """Return the command that sets what is written behind it."""
    return (
        f"kafka-configs --bootstrap-server {servers} --alter --entity-type topics "
        f"--entity-name {topic} --add-config"
    )


def _old_format(topic: str, configs: Mapping[str, str], servers: str) -> list[str]:
    found = configs.get("message.format.version")
    if found is None:
        return []
    numbers = tuple(int(part) for part in found.split("-")[0].split(".")[:2] if part.isdecimal())
    if not numbers or numbers >= _FORMAT_MIN:
        return []
    return [_differs(topic, "message.format.version", found, "0.11.0", servers)]


def _number(configs: Mapping[str, str], name: str, otherwise: int) -> int:
    value = configs.get(name, "")
    return int(value) if value.lstrip("-").isdecimal() else otherwise


async def create_coordinator_topics(
    brokers: Brokers,
    clock: Clock,
    topics: Mapping[str, tuple[str, int]],
    *,
    replication_factor: int,
    min_insync_replicas: int,
    servers: str,
) -> dict[str, CoordinatorTopic]:
    """Create the topics of a new cluster; never call it for one that exists (STL-23).

    A topic that is there already is taken if nothing was ever written to it: a start before this
    one may have ended in between. Whose they are is another question: the first partition of the
    first topic, which is not looked at here, says it (``take_ownership``).

    Args:
        brokers: The cluster.
        clock: Time.
        topics: The topic's name and number of partitions, by the names of ``ShardLogs``.
        replication_factor: Of both.
        min_insync_replicas: Of both.
        servers: Of the cluster, as Kafka's tools take them.

    Raises:
        TopicsTakenError: One is there that is another cluster's, or has other partitions.
        CoordinatorTopicError: One was made, and no broker names it.
        BrokerRefusedError, BrokerUnreachableError, UnsupportedRequestError: As the brokers say.
    """
    configs = coordinator_topic_configs(min_insync_replicas)
    names = tuple(topic for topic, _ in topics.values())
    partitions_of = dict(topics.values())

    async def check(topic: str) -> None:
        found = await _seen(brokers, clock, topic, partitions_of[topic], was_there=True)
        _check_count(found, partitions_of[topic])
        of_owner = BrokerPartition(found.topic_id, topic, 0) if topic == names[0] else None
        for each in found.partitions:
            place = BrokerPartition(found.topic_id, topic, each.partition)
            if place != of_owner and await _end_of(brokers, clock, place) > 0:
                raise _taken(place, await _owner_of(brokers, names[0]), names, servers)

    for there in (await brokers.metadata(names)).topics:  # before one is made
        if there.topic in partitions_of and not there.error and there.partitions:
            await check(there.topic)
    made: dict[str, CoordinatorTopic] = {}
    for name, (topic, partitions) in topics.items():
        new = NewBrokerTopic(topic, partitions, replication_factor, configs)
        was_there = False
        try:
            await brokers.create_topic(new, timeout_ms=CREATE_TIMEOUT_MS)
        except BrokerRefusedError as error:
            if error.code != ErrorCode.TOPIC_ALREADY_EXISTS:
                raise
            was_there = True
            await check(topic)
        found = await _seen(brokers, clock, topic, partitions, was_there=was_there)
        made[name] = CoordinatorTopic(topic, found.topic_id)
    return made


async def take_ownership(
    brokers: Brokers,
    clock: Clock,
    topics: Sequence[CoordinatorTopic],
    owner: TopicOwner,
    *,
    servers: str,
) -> None:
    """Return if the topics are ours: what lies at offset 0 decides, for everybody (KTP-20).

    A record of ours is confirmed in each call that returns: what a call before this one had
    written, and heard no confirmation of, may lie on one broker alone.

    Args:
        brokers: The cluster.
        clock: Time.
        topics: Both; the owner record lies in the first partition of the first one.
        owner: Who we are; ``made_ms`` is set here.
        servers: Of the cluster, as Kafka's tools take them.

    Raises:
        TopicsTakenError: They are another cluster's.
        BrokerRefusedError, BrokerUnreachableError, UnsupportedRequestError: As the brokers say.
    """
    place = BrokerPartition(topics[0].topic_id, topics[0].topic, 0)
    names = tuple(each.topic for each in topics)
    if await _end_of(brokers, clock, place) > 0:
        await _check_owner(brokers, place, owner, names, servers)
    await write_owner(brokers, place, replace(owner, made_ms=clock.wall_ms()))
    await _check_owner(brokers, place, owner, names, servers)


async def _owner_of(brokers: Brokers, topic: str) -> TopicOwner | None:
    """Return whose the topics are, for a refusal's sentence; None: nobody says it now."""
    try:
        for found in (await brokers.metadata([topic])).topics:
            if found.topic == topic and not found.error:
                return await read_owner(brokers, BrokerPartition(found.topic_id, topic, 0))
    except (BrokerRefusedError, BrokerUnreachableError, UnsupportedRequestError):
        return None
    return None


async def _check_owner(
    brokers: Brokers,
    place: BrokerPartition,
    owner: TopicOwner,
    names: Sequence[str],
    servers: str,
) -> None:
    found = await read_owner(brokers, place)
    if found is None or found.owner_id != owner.owner_id:
        raise _taken(place, found, names, servers)


async def _seen(
    brokers: Brokers, clock: Clock, topic: str, partitions: int, *, was_there: bool
) -> TopicMetadata:
    """Wait until a broker names the topic with all of its partitions; an older one has its own."""
    fewer = 0
    for _ in range(SEEN_ATTEMPTS):
        for found in (await brokers.metadata([topic])).topics:
            if found.topic != topic or found.error:
                continue
            if len(found.partitions) >= partitions:
                return found
            fewer += 1
            if was_there and fewer >= FEWER_ATTEMPTS:
                return found
        await clock.sleep_ms(SEEN_RETRY_MS)
    raise CoordinatorTopicError(
        f"topic {topic} was created, and no broker has named it with {partitions} partitions for "
        f"{SEEN_ATTEMPTS * SEEN_RETRY_MS} ms; see to the cluster's controller"
    )


def _check_count(found: TopicMetadata, partitions: int) -> None:
    if len(found.partitions) != partitions:
        raise TopicsTakenError(
            f"topic {found.topic} exists with {len(found.partitions)} partitions, this cluster "
            f"has {partitions} shards of that kind; choose another kafka_topic_prefix"
        )


def _taken(
    place: BrokerPartition, owner: TopicOwner | None, names: Sequence[str], servers: str
) -> TopicsTakenError:
    whose = "another Sharemesh cluster"
    if owner is not None:
        whose += f" (cluster id {owner.cluster_id!r}, begun on host {owner.host!r}"
        whose += f" at {_time(owner.made_ms)})"
    delete = " && ".join(
        f"kafka-topics --bootstrap-server {servers} --delete --topic {name}" for name in names
    )
    return TopicsTakenError(
        f"topic {place.topic} partition {place.partition} holds records of {whose}: set another "
        "kafka_topic_prefix; if it was this cluster, and its etcd is lost, restore etcd from a "
        f"backup; only if nobody needs the states of those groups any more, delete them: {delete}"
    )


def _time(wall_ms: int) -> str:
    try:
        return datetime.fromtimestamp(wall_ms / 1_000, UTC).isoformat(timespec="seconds")
    except (OverflowError, OSError, ValueError):
        return f"{wall_ms} ms since 1970"


async def _end_of(brokers: Brokers, clock: Clock, place: BrokerPartition) -> int:
    """Return where a partition ends; brokers hear of a new topic one by one."""
    for _ in range(SEEN_ATTEMPTS):
        try:
            return (await brokers.list_offset(place, LATEST_TIMESTAMP)).offset
        except BrokerRefusedError as error:
            if error.code not in NOT_HEARD_OF:
                raise
        await clock.sleep_ms(SEEN_RETRY_MS)
    return (await brokers.list_offset(place, LATEST_TIMESTAMP)).offset
