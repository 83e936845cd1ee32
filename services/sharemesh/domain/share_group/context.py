"""What a decision on a group needs to know of the world, and what it comes to."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from sharemesh.domain.ids import GroupId, TopicId
from sharemesh.domain.share_group.assignor import AssignorMode
from sharemesh.domain.share_group.group import FIRST_EPOCH
from sharemesh.domain.share_group.records import GroupLogRecord, InitializingPartition
from sharemesh.domain.share_group.topics_image import TopicsImage

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
