"""Decisions on offsets and whole groups: alter, delete, topics deleted (spec GC-30, GC-40..44)."""

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

from sharemesh.domain.errors import ErrorCode, RefusedError, invalid_request
from sharemesh.domain.ids import OFFSET_MAX, GroupId, TopicId, check_group_is_named
from sharemesh.domain.share_group.context import (
    DeletePlan,
    GroupContext,
    GroupDecision,
    InitializePlan,
    TopicImage,
    TopicsImage,
    draft_of,
)
from sharemesh.domain.share_group.group import FIRST_EPOCH, ShareGroup
from sharemesh.domain.share_group.records import (
    GroupEpochFloor,
    GroupLogRecord,
    GroupMetadata,
    GroupTombstone,
    InitializingPartition,
    InitializingTopic,
    RecordKind,
    StatePartitionMetadata,
)
from sharemesh.domain.state_batch import StateBatch

Value = TypeVar("Value")

NOTHING_TO_DELETE = "There is no offset information to delete."
"""Kafka's words for a topic that the group has no state of (spec GC-43)."""


@dataclass(frozen=True, slots=True)
class AlteredOffset:
    """Where a group shall start in a partition; an import brings delivery states along."""

    start_offset: int
    batches: tuple[StateBatch, ...] = ()


@dataclass(frozen=True, slots=True)
class AlterAnswer:
    """Refused partitions by topic name, and what must be initialized for the others."""

    refused: Mapping[str, Mapping[int, RefusedError]]
    initialize: InitializePlan | None


@dataclass(frozen=True, slots=True)
class DeleteOffsetsAnswer:
    """Refused topics by name, and whose state is to be deleted."""

    refused: Mapping[str, RefusedError]
    delete: DeletePlan
    names: Mapping[TopicId, str] = field(default_factory=dict)


def alter_offsets(
    group: ShareGroup | None,
    group_id: GroupId,
    offsets: Mapping[str, Mapping[int, AlteredOffset]],
    group_context: GroupContext,
) -> GroupDecision[AlterAnswer]:
    """Record new start offsets of an empty or missing group under a new epoch (spec GC-42).

    Raises:
        RefusedError: INVALID_GROUP_ID, NON_EMPTY_GROUP.
    """
    check_group_is_named(group_id)
    if group is not None:
        _check_empty(group)
    draft = draft_of(group, group_id, group_context.epoch_floor)
    refused: dict[str, dict[int, RefusedError]] = {}
    planned: dict[TopicImage, dict[int, AlteredOffset]] = {}
    for name, partitions in offsets.items():
        topic = group_context.catalog.named(name)
        for number, altered in partitions.items():
            error = _unalterable(topic, name, number, altered)
            if error is not None or topic is None:
                refused.setdefault(name, {})[number] = error or _unknown_topic(name)
            else:
                planned.setdefault(topic, {})[number] = altered
    if not planned:
        return GroupDecision((), AlterAnswer(refused, None))
    metadata_hash = draft.group.metadata_hash
    draft.emit(GroupMetadata(group_id, draft.group.epoch + 1, metadata_hash))
    epoch = draft.group.epoch
    tries = {
        topic: {
            number: InitializingPartition(altered.start_offset, epoch, altered.batches)
            for number, altered in partitions.items()
        }
        for topic, partitions in planned.items()
    }
    plan = draft.initialize(tries, group_context.now_ms)
    return GroupDecision(tuple(draft.records), AlterAnswer(refused, plan))


def alter_failed(group: ShareGroup, plan: InitializePlan) -> GroupDecision[None]:
    """Forget an alteration that the share coordinator refused: the caller got the error."""
    initializing: dict[TopicId, InitializingTopic] = {}
    for topic_id, pending in group.initializing.items():
        tries = plan.topics.get(topic_id, {})
        left = {n: each for n, each in pending.partitions.items() if tries.get(n) != each}
        if left:
            initializing[topic_id] = replace(pending, partitions=left)
    if initializing == group.initializing:
        return GroupDecision((), None)
    return GroupDecision((replace(group.partitions, initializing=initializing),), None)


def delete_offsets(
    group: ShareGroup | None, group_id: GroupId, names: Iterable[str], catalog: TopicsImage
) -> GroupDecision[DeleteOffsetsAnswer]:
    """Move topics of an empty group to deleting (spec GC-43).

    Raises:
        RefusedError: INVALID_GROUP_ID, GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP.
    """
    check_group_is_named(group_id)
    if group is None:
        raise _unknown_group(group_id)
    _check_empty(group)
    refused: dict[str, RefusedError] = {}
    chosen: dict[TopicId, str] = {}
    for name in names:
        topic = catalog.named(name)
        if topic is None:
            refused[name] = _unknown_topic(name)
        elif topic.topic_id in group.initialized or topic.topic_id in group.deleting:
            chosen[topic.topic_id] = name
        else:
            refused[name] = RefusedError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, NOTHING_TO_DELETE)
    delete = _delete_plan(group, chosen, catalog)
    answer = DeleteOffsetsAnswer(refused, delete, chosen)
    records = (_moved_to_deleting(group, chosen),) if chosen else ()
    return GroupDecision(records, answer)


def delete_group(
    group: ShareGroup | None, group_id: GroupId, catalog: TopicsImage
) -> GroupDecision[DeletePlan]:
    """Move all topics of an empty group to deleting, first step of its deletion (spec GC-44).

    Raises:
        RefusedError: GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP.
    """
    if group is None:
        raise _unknown_group(group_id)
    _check_empty(group)
    chosen = {topic_id: topic.topic_name for topic_id, topic in group.initializing.items()}
    chosen.update({topic_id: topic.topic_name for topic_id, topic in group.initialized.items()})
    chosen.update(group.deleting)
    records = (_moved_to_deleting(group, chosen),) if chosen != group.deleting else ()
    return GroupDecision(records, _delete_plan(group, chosen, catalog))


def group_deleted(
    group: ShareGroup | None, group_id: GroupId, state_epoch: int, floor: int
) -> GroupDecision[None]:
    """Write the tombstones of a group whose state is deleted (spec GC-34, GC-44).

    Raises:
        RefusedError: GROUP_ID_NOT_FOUND; NON_EMPTY_GROUP if it came to life in between.
    """
    if group is None:
        raise _unknown_group(group_id)
    if group.members or group.epoch != state_epoch:
        raise RefusedError(
            ErrorCode.NON_EMPTY_GROUP, f"group {group_id!r} was used while it was being deleted"
        )
    records: list[GroupLogRecord] = [
        GroupTombstone(group_id, kind)
        for kind in (
            RecordKind.TARGET_ASSIGNMENT_METADATA,
            RecordKind.STATE_PARTITION_METADATA,
            RecordKind.GROUP_METADATA,
        )
    ]
    if group.epoch > max(floor, FIRST_EPOCH):
        records.append(GroupEpochFloor(group.epoch))
    return GroupDecision(tuple(records), None)


def state_deleted(group: ShareGroup | None, topic_ids: Iterable[TopicId]) -> GroupDecision[None]:
    """Take topics out of deleting, now that their state is gone."""
    gone = set(topic_ids)
    if group is None or not gone & group.deleting.keys():
        return GroupDecision((), None)
    record = replace(group.partitions, deleting=_without(group.deleting, gone))
    return GroupDecision((record,), None)


def topics_deleted(
    group: ShareGroup, topics: Mapping[TopicId, int]
) -> GroupDecision[DeletePlan | None]:
    """Take deleted topics (id: number of partitions) out of all sets (spec GC-30)."""
    known: dict[TopicId, tuple[int, ...]] = {}
    for topic_id, count in topics.items():
        numbers = _with_state(group, topic_id, count)
        if numbers or topic_id in group.deleting:
            known[topic_id] = numbers
    if not known:
        return GroupDecision((), None)
    record = StatePartitionMetadata(
        group.group_id,
        _without(group.initializing, known),
        _without(group.initialized, known),
        _without(group.deleting, known),
    )
    return GroupDecision((record,), DeletePlan(group.group_id, group.epoch, known))


def _moved_to_deleting(group: ShareGroup, chosen: Mapping[TopicId, str]) -> StatePartitionMetadata:
    return StatePartitionMetadata(
        group.group_id,
        _without(group.initializing, chosen),
        _without(group.initialized, chosen),
        {**group.deleting, **chosen},
    )


def _without(topics: Mapping[TopicId, Value], gone: Container[TopicId]) -> dict[TopicId, Value]:
    return {topic_id: value for topic_id, value in topics.items() if topic_id not in gone}


def _with_state(group: ShareGroup, topic_id: TopicId, count: int) -> tuple[int, ...]:
    """Return the partitions that may have state, ascending: all of a topic that is deleting."""
    initialized = group.initialized.get(topic_id)
    pending = group.initializing.get(topic_id)
    numbers = {
        *(initialized.partitions if initialized else ()),
        *(pending.partitions if pending else ()),
        *(range(count) if topic_id in group.deleting else ()),
    }
    return tuple(sorted(numbers))


def _delete_plan(
    group: ShareGroup, chosen: Mapping[TopicId, str], catalog: TopicsImage
) -> DeletePlan:
    """Return what to delete; the share coordinators forget deleted topics by themselves (SC-25)."""
    topics: dict[TopicId, tuple[int, ...]] = {}
    for topic_id in chosen:
        topic = catalog.with_id(topic_id)
        if topic is None:
            continue
        topics[topic_id] = _with_state(group, topic_id, topic.partitions)
    return DeletePlan(group.group_id, group.epoch, topics)


def _unalterable(
    topic: TopicImage | None, name: str, number: int, altered: AlteredOffset
) -> RefusedError | None:
    if topic is None or not 0 <= number < topic.partitions:
        return _unknown_topic(name, number)
    if not 0 <= altered.start_offset <= OFFSET_MAX:
        return invalid_request(
            f"start offset {altered.start_offset} of {name}-{number}: give 0 to {OFFSET_MAX}"
        )
    return None


def _check_empty(group: ShareGroup) -> None:
    members = len(group.members)
    if members:
        told = "a member; stop it first" if members == 1 else f"{members} members; stop them first"
        raise RefusedError(ErrorCode.NON_EMPTY_GROUP, f"group {group.group_id!r} has {told}")


def _unknown_group(group_id: GroupId) -> RefusedError:
    return RefusedError(ErrorCode.GROUP_ID_NOT_FOUND, f"group {group_id!r} not found")


def _unknown_topic(name: str, number: int | None = None) -> RefusedError:
    what = f"topic {name!r}" if number is None else f"partition {name}-{number}"
    return RefusedError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{what} does not exist")
