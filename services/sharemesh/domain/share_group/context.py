"""What a decision on a group is given, the limits of groups, and what a decision returns."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from sharemesh.domain.ids import GroupId, TopicId
from sharemesh.domain.share_group.assignor import AssignorMode
from sharemesh.domain.share_group.group import FIRST_EPOCH
from sharemesh.domain.share_group.records import GroupLogRecord, InitializingPartition
from sharemesh.domain.share_group.topics_image import TopicsImage

MAX_MEMBER_ID_CHARS = 36
"""Longest member id (spec GC-3)."""
MAX_NAME_CHARS = 249
"""Longest topic name that can exist; longer ones are refused."""
MAX_SUBSCRIBED_TOPICS = 1_000
MAX_LABEL_CHARS = 1_000
"""Longest rack id, client id and client host."""
MAX_GROUPS = 100_000
"""Most groups of one shard."""
MAX_MEMBERS_BYTES = 128 * 1024 * 1024
"""Most that all members of one shard may tell of themselves, about, in memory."""
FAILED_RETRY_INTERVAL_MS = 1_000
"""How long after a failed initialization the next try waits at least."""

Answer_co = TypeVar("Answer_co", covariant=True)


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
