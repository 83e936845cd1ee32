"""Which engine keeps a cluster's logs, and where: written once, compared ever after (KTP-13)."""

from dataclasses import dataclass
from random import Random

from sharemesh.cluster.store import records
from sharemesh.cluster.store.keys import Keys
from sharemesh.domain.ids import TopicId, format_topic_id
from sharemesh.ports.coordination import Coordination, CoordinationError, Guard, Put

KAFKA_ENGINE = "kafka"
OWNER_ID_BITS = 128


@dataclass(frozen=True, slots=True)
class StorageRecord:
    """A Kafka cluster that keeps the logs of this one.

    Attributes:
        kafka_cluster_id: Its id, as every broker says it.
        topic_prefix: What the names of the own topics begin with.
        state_topic_id: Of the topic of the share coordinators.
        group_topic_id: Of the topic of the group coordinators.
        state_shards: Partitions of the first.
        group_shards: Partitions of the second.
        incarnation: Raised when a lost end was accepted: nothing stamped before counts above it.
    """

    kafka_cluster_id: str
    topic_prefix: str
    state_topic_id: TopicId
    group_topic_id: TopicId
    state_shards: int
    group_shards: int
    incarnation: int = 0


def encode_storage(record: StorageRecord) -> bytes:
    """Return the value of ``storage``."""
    return records.encode(
        {
            "engine": KAFKA_ENGINE,
            "kafka_cluster_id": record.kafka_cluster_id,
            "topic_prefix": record.topic_prefix,
            "state_topic_id": format_topic_id(record.state_topic_id),
            "group_topic_id": format_topic_id(record.group_topic_id),
            "state_shards": record.state_shards,
            "group_shards": record.group_shards,
            "incarnation": record.incarnation,
        }
    )


def decode_storage(value: bytes) -> StorageRecord:
    """Return what is in ``storage``.

    Raises:
        RecordFormatError: It cannot be read, or names an engine of a newer build.
    """
    fields = records.decode(value)
    engine = records.text(fields, "engine")
    if engine != KAFKA_ENGINE:
        raise records.RecordFormatError(
            f"engine {engine!r} is not known to this build; upgrade this process"
        )
    return StorageRecord(
        records.text(fields, "kafka_cluster_id"),
        records.text(fields, "topic_prefix"),
        records.topic_id(fields, "state_topic_id"),
        records.topic_id(fields, "group_topic_id"),
        records.integer(fields, "state_shards"),
        records.integer(fields, "group_shards"),
        records.integer(fields, "incarnation", 0),
    )


async def stored_storage(coordination: Coordination, cluster_id: str) -> StorageRecord | None:
    """Return the record of a cluster's storage; None: it has none, so its logs are embedded.

    Raises:
        RecordFormatError: It cannot be read.
        CoordinationError: The store does not answer.
    """
    stored = await coordination.get(Keys(cluster_id).storage)
    return None if stored is None else decode_storage(stored.value)


async def store_storage(coordination: Coordination, cluster_id: str, record: StorageRecord) -> bool:
    """Write the record if there is none; return False if there was one.

    Raises:
        CoordinationError: The store does not answer.
    """
    key = Keys(cluster_id).storage
    put = Put(key, encode_storage(record))
    return await coordination.commit([Guard(key, create_revision=0)], [put]) is not None


async def storage_owner(coordination: Coordination, cluster_id: str, rng: Random) -> str:
    """Return the id by which this store owns topics of a Kafka cluster; made once (KTP-20).

    Raises:
        CoordinationError: The store does not answer, or holds what is no owner id.
    """
    key = Keys(cluster_id).storage_owner
    made = records.encode({"owner": f"{rng.getrandbits(OWNER_ID_BITS):032x}"})
    await coordination.commit([Guard(key, create_revision=0)], [Put(key, made)])
    stored = await coordination.get(key)
    if stored is None:
        raise CoordinationError(f"{key} vanished; try again")
    try:
        return records.text(records.decode(stored.value), "owner")
    except records.RecordFormatError as error:
        raise CoordinationError(
            f"{key} cannot be read: {error}; restore it from a backup of the coordination store"
        ) from None


async def has_led_shards(coordination: Coordination, cluster_id: str) -> bool:
    """Return whether a coordinator of this cluster ever led a shard: then there are logs of it.

    Raises:
        CoordinationError: The store does not answer.
    """
    return bool((await coordination.list(Keys(cluster_id).epochs)).entries)
