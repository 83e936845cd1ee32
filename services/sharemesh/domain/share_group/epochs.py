"""When the group epoch rises, assignments are computed, members get them (spec GC-13..18)."""

from collections.abc import Mapping

from sharemesh.domain.ids import MemberId, TopicId
from sharemesh.domain.share_group.assignor import NOTHING, Assignment, Subscriber, assign
from sharemesh.domain.share_group.context import GroupContext, GroupUpdate, TopicsImage
from sharemesh.domain.share_group.group import ShareGroup
from sharemesh.domain.share_group.initialization import next_retry_ms, retry_due
from sharemesh.domain.share_group.records import (
    NEVER_MS,
    CurrentMemberAssignment,
    GroupMetadata,
    TargetAssignmentMember,
    TargetAssignmentMetadata,
)


def bring_up_to_date(draft: GroupUpdate, group_context: GroupContext, *, bump: bool) -> None:
    """Raise the group epoch if there is a reason, once, and compute assignments if due.

    Reasons: ``bump`` (a member joined, left or changed its subscription), other topics
    (metadata hash), initialized partitions that nobody was assigned, a repeated initialization
    (spec GC-13 to GC-16).
    """
    group = draft.group
    metadata_hash = group_context.catalog.metadata_hash(group.subscribed_names)
    if (
        bump
        or metadata_hash != group.metadata_hash
        or retry_due(group, group_context)
        or (not group.assignment_pending and unassigned(group, group_context.catalog))
    ):
        draft.emit(GroupMetadata(group.group_id, group.epoch + 1, metadata_hash))
    if group.assignment_pending and group_context.now_ms >= assignment_due_ms(
        group, group_context.assignment_interval_ms
    ):
        _compute_assignment(draft, group_context)


def assignment_due_ms(group: ShareGroup, interval_ms: int) -> int:
    """Return the monotonic moment from which the next assignment may be computed (spec GC-16).

    An assignment of nothing does not count as one: the first of a new group need not wait.
    """
    return group.assigned_at_ms + interval_ms


def next_review_ms(group: ShareGroup, group_context: GroupContext) -> int | None:
    """Return the monotonic moment at which something is due without a heartbeat, or None."""
    moments: list[int] = []
    if group.members and group.assignment_pending:
        moments.append(assignment_due_ms(group, group_context.assignment_interval_ms))
    retry_ms = next_retry_ms(group, group_context.initialize_retry_interval_ms)
    if retry_ms is not None:
        moments.append(retry_ms)
    return min(moments, default=None)


def reconcile(draft: GroupUpdate, member_id: MemberId) -> bool:
    """Bring a member to its target; return whether its partitions changed (spec GC-18)."""
    group = draft.group
    member = group.members[member_id]
    target = group.target(member_id)
    if member.member_epoch == group.assignment_epoch and member.assigned == target:
        return False
    draft.emit(
        CurrentMemberAssignment(
            group.group_id,
            member_id,
            member_epoch=group.assignment_epoch,
            previous_member_epoch=member.member_epoch,
            assignment=target,
        )
    )
    return member.assigned != target


def stable_if_empty(draft: GroupUpdate) -> None:
    """Without members the assignment is up to date, so that the next is not delayed (GC-24)."""
    group = draft.group
    if not group.members and group.assignment_pending:
        draft.emit(TargetAssignmentMetadata(group.group_id, group.epoch))


def _compute_assignment(draft: GroupUpdate, group_context: GroupContext) -> None:
    group = draft.group
    catalog = group_context.catalog
    topics_of: dict[tuple[str, ...], frozenset[TopicId]] = {}
    subscribers: dict[MemberId, Subscriber] = {}
    for member_id, member in group.members.items():
        names = member.metadata.subscribed_topic_names
        topics = topics_of.get(names)
        if topics is None:
            topics = topics_of[names] = frozenset(
                topic.topic_id for name in names if (topic := catalog.named(name)) is not None
            )
        subscribers[member_id] = Subscriber(topics, group.target(member_id))
    targets = assign(
        subscribers,
        {topic.topic_id: topic.partitions for topic in catalog.topics},
        _assignable(group, catalog),
        group_context.mode,
    )
    anything = False
    for member_id, assignment in targets.items():
        anything = anything or bool(assignment)
        if group.targets.get(member_id) != assignment:
            draft.emit(TargetAssignmentMember(group.group_id, member_id, assignment or NOTHING))
    draft.emit(
        TargetAssignmentMetadata(
            group.group_id, group.epoch, group_context.now_ms if anything else NEVER_MS
        )
    )


def _assignable(group: ShareGroup, catalog: TopicsImage) -> dict[TopicId, list[int]]:
    result: dict[TopicId, list[int]] = {}
    for topic_id, numbers in group.assignable().items():
        topic = catalog.with_id(topic_id)
        if topic is not None:
            result[topic_id] = [number for number in numbers if number < topic.partitions]
    return result


def unassigned(group: ShareGroup, catalog: TopicsImage) -> bool:
    """Return whether what is initialized of subscribed topics is not just what is assigned."""
    if not group.members:
        return False
    subscribed = {
        topic.topic_id
        for name in group.subscribed_names
        if (topic := catalog.named(name)) is not None
    }
    wanted: Mapping[TopicId, set[int]] = {
        topic_id: set(numbers)
        for topic_id, numbers in _assignable(group, catalog).items()
        if topic_id in subscribed and numbers
    }
    return wanted != _assigned(group.targets)


def _assigned(targets: Mapping[MemberId, Assignment]) -> dict[TopicId, set[int]]:
    union: dict[TopicId, set[int]] = {}
    for assignment in targets.values():
        for topic_id, numbers in assignment.items():
            union.setdefault(topic_id, set()).update(numbers)
    return union
