"""Topics in the coordination store: create, delete, grow, configure."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from random import Random

from sharemesh.cluster.store import records
from sharemesh.cluster.store.keys import Keys
from sharemesh.cluster.store.records import Deletion, RecordFormatError
from sharemesh.domain import topics
from sharemesh.domain.errors import ErrorCode, RefusedError
from sharemesh.domain.ids import TopicId
from sharemesh.ports.cluster import ClusterView, TopicInfo
from sharemesh.ports.coordination import Coordination, Delete, Guard, KeyValue, Put

ATTEMPTS = 5  # of a read and guarded write; each loss means that another one got through
TOPICS_MAX = 10_000
_RESERVED_IDS = (b"\0" * 16, b"\0" * 15 + b"\1")  # Kafka's "none" and its metadata topic


async def create_topic(
    coordination: Coordination,
    view: ClusterView,
    name: str,
    partitions: int,
    configs: Mapping[str, str],
    *,
    rng: Random,
    validate_only: bool = False,
) -> TopicInfo:
    """Create a topic and return it; the controller assigns its partitions afterwards.

    Raises:
        RefusedError: TOPIC_ALREADY_EXISTS, INVALID_TOPIC_EXCEPTION, INVALID_PARTITIONS,
            INVALID_CONFIG.
        CoordinationError: The store does not answer; the topic may exist nevertheless.
    """
    topics.check_topic_name(name)
    topics.check_partitions(partitions)
    checked = topics.check_topic_configs(configs)
    existing = {topic.name: topic for topic in view.topics()}
    if name in existing:
        raise _exists(name)
    twin = topics.collision(name, existing)
    if twin is not None:
        raise RefusedError(
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            f"topic {name!r} differs from {twin!r} only in dots and underscores; choose another",
        )
    if len(existing) >= TOPICS_MAX:
        raise RefusedError(
            ErrorCode.INVALID_TOPIC_EXCEPTION, f"the cluster has {TOPICS_MAX} topics; delete some"
        )
    topic = TopicInfo(name, new_topic_id(rng), partitions, checked)
    if validate_only:
        return topic
    key = Keys(view.cluster_id).topic(name)
    put = Put(key, records.encode_topic(topic))
    if await coordination.commit([Guard(key, create_revision=0)], [put]) is None:
        raise _exists(name)
    return topic


async def delete_topic(
    coordination: Coordination,
    view: ClusterView,
    name: str,
    *,
    also: Sequence[Delete] = (),
    kept: bool = False,
) -> TopicInfo:
    """Delete a topic and return what it was; its files are freed by share leaders, later.

    With ``kept`` there are none, and its leader epochs stay for a time (KTP-19).

    Raises:
        RefusedError: UNKNOWN_TOPIC_OR_PARTITION.
    """
    keys = Keys(view.cluster_id)
    for _ in range(ATTEMPTS):
        stored, topic = await _read(coordination, keys, name)
        deletion = Deletion(name, topic.topic_id, topic.partitions, kept)
        seen = () if kept else (Delete(keys.seen_topic(topic.topic_id), prefix=True),)
        revision = await coordination.commit(
            [Guard(stored.key, mod_revision=stored.mod_revision)],
            [
                Delete(stored.key),
                *seen,
                *also,
                Put(keys.deletion(topic.topic_id), records.encode_deletion(deletion)),
            ],
        )
        if revision is not None:
            return topic
    raise _busy(name)


async def attach_topic(coordination: Coordination, view: ClusterView, name: str) -> None:
    """Write down that a topic of the Kafka cluster is to be attached (KTP-3).

    Raises:
        CoordinationError: The store does not answer.
    """
    put = Put(Keys(view.cluster_id).attached_topic(name), records.encode({}))
    await coordination.commit([], [put])


async def detach_topic(
    coordination: Coordination, view: ClusterView, name: str, *, kept: bool
) -> TopicInfo:
    """Forget a topic of the Kafka cluster and return what it was (KTP-3).

    ``kept``: it is still there, and may be attached again (KTP-19).

    Raises:
        RefusedError: UNKNOWN_TOPIC_OR_PARTITION.
    """
    keys = Keys(view.cluster_id)
    notes = [Delete(keys.attached_topic(name)), Delete(keys.wanted_topic(name))]
    return await delete_topic(coordination, view, name, also=notes, kept=kept)


async def add_partitions(
    coordination: Coordination,
    view: ClusterView,
    name: str,
    total: int,
    *,
    validate_only: bool = False,
) -> TopicInfo:
    """Raise the number of partitions to ``total`` and return the topic.

    Raises:
        RefusedError: UNKNOWN_TOPIC_OR_PARTITION; INVALID_PARTITIONS if it is not more.
    """

    def grown(topic: TopicInfo) -> TopicInfo:
        return replace(topic, partitions=topics.check_partitions(total, existing=topic.partitions))

    return await _alter(coordination, view, name, grown, validate_only=validate_only)


async def alter_topic_configs(
    coordination: Coordination,
    view: ClusterView,
    name: str,
    changes: Mapping[str, str | None],
    *,
    validate_only: bool = False,
) -> TopicInfo:
    """Change settings of a topic (None: back to the default) and return it.

    Raises:
        RefusedError: UNKNOWN_TOPIC_OR_PARTITION, INVALID_CONFIG.
    """

    def altered(topic: TopicInfo) -> TopicInfo:
        return replace(topic, configs=topics.check_topic_configs(changes, topic.configs))

    return await _alter(coordination, view, name, altered, validate_only=validate_only)


def new_topic_id(rng: Random) -> TopicId:
    """Return 16 random bytes that are none of the reserved ids, as a version 4 UUID."""
    while True:
        raw = bytearray(rng.randbytes(16))
        raw[6] = (raw[6] & 0x0F) | 0x40
        raw[8] = (raw[8] & 0x3F) | 0x80
        if bytes(raw) not in _RESERVED_IDS and not _begins_with_dash(bytes(raw)):
            return TopicId(bytes(raw))


def _begins_with_dash(raw: bytes) -> bool:
    """Return whether the text form would look like an option on a command line."""
    return raw[0] >> 2 == 62


async def _alter(
    coordination: Coordination,
    view: ClusterView,
    name: str,
    change: Callable[[TopicInfo], TopicInfo],
    *,
    validate_only: bool,
) -> TopicInfo:
    keys = Keys(view.cluster_id)
    for _ in range(ATTEMPTS):
        stored, topic = await _read(coordination, keys, name)
        changed = change(topic)
        if validate_only or changed == topic:
            return changed
        guard = Guard(stored.key, mod_revision=stored.mod_revision)
        put = Put(stored.key, records.encode_topic(changed))
        if await coordination.commit([guard], [put]) is not None:
            return changed
    raise _busy(name)


async def _read(coordination: Coordination, keys: Keys, name: str) -> tuple[KeyValue, TopicInfo]:
    stored = await coordination.get(keys.topic(name))
    if stored is None:
        raise RefusedError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {name[:300]!r} does not exist"
        )
    try:
        return stored, records.decode_topic(name, stored.value)
    except RecordFormatError as error:
        raise RefusedError(
            ErrorCode.UNKNOWN_SERVER_ERROR, f"record of topic {name!r}: {error}"
        ) from None


def _exists(name: str) -> RefusedError:
    return RefusedError(ErrorCode.TOPIC_ALREADY_EXISTS, f"topic {name!r} exists already")


def _busy(name: str) -> RefusedError:
    return RefusedError(
        ErrorCode.REQUEST_TIMED_OUT,
        f"topic {name!r} was changed {ATTEMPTS} times meanwhile; try again",
    )
