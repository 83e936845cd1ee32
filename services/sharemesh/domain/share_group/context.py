"""What a decision on a share group is given, the limits of groups, and what a decision returns."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import Generic, TypeVar

from sharemesh.domain.errors import ErrorCode
from sharemesh.domain.ids import GroupId, TopicId
from sharemesh.domain.printable import check_printable
from sharemesh.domain.share_group.assignor import AssignorMode
from sharemesh.domain.share_group.group import FIRST_EPOCH, ShareGroup
from sharemesh.domain.share_group.records import (
    GroupLogRecord,
    InitializingPartition,
    InitializingTopic,
)

MAX_SUBSCRIBED_TOPICS = 1_000
MAX_LABEL_CHARS = 1_000
"""Longest rack id, client id and client host."""

MAX_GROUPS = 100_000
"""Most groups of one shard."""

MAX_MEMBERS_BYTES = 128 * 1024 * 1024
"""Most memory, about, that the metadata of all members of one shard may take."""

FAILED_RETRY_INTERVAL_MS = 1_000
"""How long after a failed initialization the next try waits at least."""

Answer_co = TypeVar("Answer_co", covariant=True)


@dataclass(frozen=True, slots=True)
class TopicImage:
    """One topic; partitions are numbered from 0."""

    name: str
    topic_id: TopicId
    partitions: int


class TopicsImage:
    """All topics at one moment; another moment is another object, so identity shows a change."""

    def __init__(self, topics: Iterable[TopicImage] = ()) -> None:
        self.topics = tuple(topics)
        self._by_name = {topic.name: topic for topic in self.topics}
        self._by_id = {topic.topic_id: topic for topic in self.topics}

    def named(self, name: str) -> TopicImage | None:
        """Return the topic of this name."""
        return self._by_name.get(name)

    def with_id(self, topic_id: TopicId) -> TopicImage | None:
        """Return the topic with this id."""
        return self._by_id.get(topic_id)

    def metadata_hash(self, names: Iterable[str]) -> int:
        """Return a signed 64-bit hash of those of the named topics that exist (spec GC-14).

        It changes when one is created, deleted, created again or gets partitions; 0 if none exists.
        """
        found = sorted(
            (topic.name, topic.topic_id, topic.partitions)
            for name in names
            if (topic := self._by_name.get(name)) is not None
        )
        if not found:
            return 0
        digest = blake2b(digest_size=8)
        for name, topic_id, partitions in found:
            digest.update(b"%s\0%s%d\0" % (name.encode(), topic_id, partitions))
        return int.from_bytes(digest.digest(), "big", signed=True)


@dataclass(frozen=True, slots=True)
class GroupContext:
    """Topics, time (monotonic) and settings in force at one moment."""

    catalog: TopicsImage
    now_ms: int
    assignment_interval_ms: int = 1_000
    max_size: int = 200
    initialize_retry_interval_ms: int = 30_000
    mode: AssignorMode = AssignorMode.SIMPLE
    epoch_floor: int = FIRST_EPOCH


@dataclass(frozen=True, slots=True)
class GroupDecision(Generic[Answer_co]):
    """Records that must be kept before the answer is given."""

    records: tuple[GroupLogRecord, ...]
    answer: Answer_co


@dataclass(frozen=True, slots=True)
class InitializePlan:
    """Share partitions to initialize at the share coordinator, once the records are kept."""

    group_id: GroupId
    topics: Mapping[TopicId, Mapping[int, InitializingPartition]]


@dataclass(frozen=True, slots=True)
class DeletePlan:
    """Share partitions whose state is to be deleted, under the group's epoch as state epoch."""

    group_id: GroupId
    state_epoch: int
    topics: Mapping[TopicId, tuple[int, ...]]


@dataclass(slots=True)
class GroupUpdate:
    """Works on a copy: the group itself changes only when the records are applied to it."""

    group: ShareGroup
    records: list[GroupLogRecord] = field(default_factory=list)

    def initialize(
        self, tries: Mapping[TopicImage, Mapping[int, InitializingPartition]], now_ms: int
    ) -> InitializePlan:
        """Put partitions into initializing, and return what must be sent (spec GC-26)."""
        group = self.group
        initializing = dict(group.initializing)
        for topic, partitions in tries.items():
            before = initializing.get(topic.topic_id)
            merged = {**(before.partitions if before else {}), **partitions}
            initializing[topic.topic_id] = InitializingTopic(topic.name, merged, now_ms)
        planned = {topic.topic_id: partitions for topic, partitions in tries.items()}
        deleting = {key: name for key, name in group.deleting.items() if key not in planned}
        self.emit(replace(group.partitions, initializing=initializing, deleting=deleting))
        return InitializePlan(group.group_id, planned)

    def emit(self, record: GroupLogRecord) -> None:
        """Add a record and see its effect at once."""
        self.records.append(record)
        self.group.apply(record)


def draft_of(group: ShareGroup | None, group_id: GroupId, floor: int = FIRST_EPOCH) -> GroupUpdate:
    """Return a draft of a group, or of a new one whose epoch starts at ``floor``.

    Raises:
        RefusedError: INVALID_GROUP_ID; the id of a new one holds a control character (BND-24).
    """
    if group is not None:
        return GroupUpdate(group.copy())
    check_printable("group id", group_id, ErrorCode.INVALID_GROUP_ID)
    return GroupUpdate(ShareGroup(group_id, floor))
