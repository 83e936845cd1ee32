"""Decisions on members: heartbeat, join, rejoin, leave, and what happens without any of them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from sharemesh.domain.errors import ErrorCode, RefusedError
from sharemesh.domain.ids import MAX_GROUP_ID_CHARS, GroupId, MemberId
from sharemesh.domain.share_group.assignment import Assignment
from sharemesh.domain.share_group.context import (
    MAX_LABEL_CHARS,
    MAX_NAME_CHARS,
    MAX_SUBSCRIBED_TOPICS,
    GroupContext,
    GroupDecision,
    InitializePlan,
)
from sharemesh.domain.share_group.epochs import (
    bring_up_to_date,
    reconcile,
    stable_if_empty,
    unassigned,
)
from sharemesh.domain.share_group.group import GroupMember, ShareGroup
from sharemesh.domain.share_group.group_update import GroupUpdate, draft_of
from sharemesh.domain.share_group.initialization import plan_initialization
from sharemesh.domain.share_group.records import (
    GroupMetadata,
    GroupTombstone,
    MemberMetadata,
    RecordKind,
)
from sharemesh.domain.share_group.topics_image import TopicsImage

LEAVE_EPOCH = -1
JOIN_EPOCH = 0


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """What a member says; None means unchanged (spec GC-1)."""

    group_id: GroupId
    member_id: MemberId
    member_epoch: int
    rack_id: str | None = None
    subscribed_topic_names: tuple[str, ...] | None = None
    client_id: str = ""
    client_host: str = ""


@dataclass(frozen=True, slots=True)
class HeartbeatAnswer:
    """What the member hears; ``assignment`` None means unchanged (spec GC-19)."""

    member_epoch: int
    assignment: Assignment | None = None
    initialize: InitializePlan | None = None


def check_fields(request: Heartbeat) -> None:
    """Check what can be checked without the group, in the order of spec GC-5.

    Raises:
        RefusedError: INVALID_REQUEST.
    """
    if not request.member_id:
        raise _invalid("member id is empty; send a UUID of your own")
    if not request.group_id:
        raise _invalid("group id is empty")
    if request.rack_id == "":
        raise _invalid("rack id is empty; leave it out instead")
    if request.member_epoch == JOIN_EPOCH and not request.subscribed_topic_names:
        raise _invalid("member epoch 0 without subscribed topic names; name at least one topic")
    if request.member_epoch < LEAVE_EPOCH:
        raise _invalid(f"member epoch {request.member_epoch} is below -1")
    _check_sizes(request)


def heartbeat(
    group: ShareGroup | None, request: Heartbeat, situation: GroupContext
) -> GroupDecision[HeartbeatAnswer]:
    """Decide a heartbeat with member epoch 0 or higher (spec GC-7 to GC-20).

    Raises:
        RefusedError: GROUP_ID_NOT_FOUND, GROUP_MAX_SIZE_REACHED, UNKNOWN_MEMBER_ID,
            FENCED_MEMBER_EPOCH; nothing changes.
    """
    known = _known_member(group, request, situation)
    if (
        group is not None
        and known is not None
        and _is_settled(group, known, request, situation.catalog)
    ):
        return GroupDecision((), HeartbeatAnswer(known.member_epoch))
    draft = draft_of(group, request.group_id, situation.epoch_floor)
    resubscribed = _store_member(draft, known, request)
    bring_up_to_date(draft, situation, bump=resubscribed)
    changed = reconcile(draft, request.member_id)
    initialize = plan_initialization(draft, situation)
    member = draft.group.members[request.member_id]
    included = (
        request.member_epoch == JOIN_EPOCH
        or request.subscribed_topic_names is not None
        or changed
        or (known is not None and request.member_epoch != known.member_epoch)
    )
    if group is not None and not draft.records:
        _note_settled(group, situation)
    return GroupDecision(
        tuple(draft.records),
        HeartbeatAnswer(member.member_epoch, member.assigned if included else None, initialize),
    )


def settled_answer(
    group: ShareGroup | None, request: Heartbeat, catalog: TopicsImage
) -> HeartbeatAnswer | None:
    """Return the answer to a heartbeat that changes nothing, or None if it must be decided."""
    member = None if group is None else group.members.get(request.member_id)
    if group is None or member is None or not _is_settled(group, member, request, catalog):
        return None
    return HeartbeatAnswer(member.member_epoch)


def leave(
    group: ShareGroup | None, group_id: GroupId, member_id: MemberId, catalog: TopicsImage
) -> GroupDecision[None]:
    """Decide a leave; the member's epoch does not matter (spec GC-23).

    Raises:
        RefusedError: GROUP_ID_NOT_FOUND, UNKNOWN_MEMBER_ID.
    """
    if group is None:
        raise _unknown_group(group_id)
    if member_id not in group.members:
        raise _unknown_member(group_id, member_id)
    return remove_members(group, [member_id], catalog)


def remove_members(
    group: ShareGroup, member_ids: Iterable[MemberId], catalog: TopicsImage
) -> GroupDecision[None]:
    """Remove members that left or whose session timed out: one epoch for all of them."""
    draft = GroupUpdate(group.copy())
    for member_id in member_ids:
        if member_id not in draft.group.members:
            continue
        for kind in (
            RecordKind.CURRENT_MEMBER_ASSIGNMENT,
            RecordKind.TARGET_ASSIGNMENT_MEMBER,
            RecordKind.MEMBER_METADATA,
        ):
            draft.emit(GroupTombstone(group.group_id, kind, member_id))
    if not draft.records:
        return GroupDecision((), None)
    metadata_hash = catalog.metadata_hash(draft.group.subscribed_names)
    draft.emit(GroupMetadata(group.group_id, group.epoch + 1, metadata_hash))
    stable_if_empty(draft)
    return GroupDecision(tuple(draft.records), None)


def review(group: ShareGroup, situation: GroupContext) -> GroupDecision[InitializePlan | None]:
    """Do what is due for a group without a heartbeat: new topics, assignment, initialization."""
    if not group.members and not group.initializing:
        return GroupDecision((), None)
    draft = GroupUpdate(group.copy())
    bring_up_to_date(draft, situation, bump=False)
    initialize = plan_initialization(draft, situation)
    stable_if_empty(draft)
    if not draft.records:
        _note_settled(group, situation)
    return GroupDecision(tuple(draft.records), initialize)


def deliver(
    group: ShareGroup, member_ids: Iterable[MemberId]
) -> GroupDecision[Mapping[MemberId, HeartbeatAnswer]]:
    """Bring members whose partitions changed to their target, to push it to them.

    Members that are gone, or whose partitions did not change, are left out of the answer.
    """
    draft = GroupUpdate(group.copy())
    answers: dict[MemberId, HeartbeatAnswer] = {}
    for member_id in member_ids:
        member = draft.group.members.get(member_id)
        if member is None or member.assigned == draft.group.target(member_id):
            continue
        reconcile(draft, member_id)
        told = draft.group.members[member_id]
        answers[member_id] = HeartbeatAnswer(told.member_epoch, told.assigned)
    return GroupDecision(tuple(draft.records), answers)


def waits_for_assignment(
    group: ShareGroup | None, member_id: MemberId, situation: GroupContext
) -> bool:
    """Return whether an assignment for this member is still on its way."""
    if group is None or member_id not in group.members:
        return False
    catalog = situation.catalog
    topics = [
        topic
        for name in group.members[member_id].metadata.subscribed_topic_names
        if (topic := catalog.named(name)) is not None
    ]
    if not topics:
        return False
    return (
        group.assignment_pending
        or any(topic.topic_id in group.initializing for topic in topics)
        or unassigned(group, catalog)
    )


def _known_member(
    group: ShareGroup | None, request: Heartbeat, situation: GroupContext
) -> GroupMember | None:
    """Check group, size, member and epoch in the order of spec GC-7, GC-10 to GC-12."""
    joins = request.member_epoch == JOIN_EPOCH
    if group is None:
        if not joins:
            raise _unknown_group(request.group_id)
        return None
    member = group.members.get(request.member_id)
    if member is None:
        if len(group.members) >= situation.max_size:
            raise RefusedError(
                ErrorCode.GROUP_MAX_SIZE_REACHED,
                f"group {request.group_id!r} has {len(group.members)} members, the most is "
                f"{situation.max_size} (group.share.max.size)",
            )
        if not joins:
            raise _unknown_member(request.group_id, request.member_id)
        return None
    if not joins and request.member_epoch not in {
        member.member_epoch,
        member.previous_member_epoch,
    }:
        raise RefusedError(
            ErrorCode.FENCED_MEMBER_EPOCH,
            f"member {request.member_id!r} of group {request.group_id!r} sent epoch "
            f"{request.member_epoch} but is at {member.member_epoch}; rejoin with epoch 0",
        )
    return member


def _is_settled(
    group: ShareGroup, member: GroupMember, request: Heartbeat, catalog: TopicsImage
) -> bool:
    """Whether a heartbeat has nothing new to say and nothing new to hear."""
    return (
        request.member_epoch == member.member_epoch
        and request.subscribed_topic_names is None
        and request.rack_id is None
        and not group.needs_look(catalog)
        and member.member_epoch == group.assignment_epoch
        and member.assigned == group.target(member.member_id)
    )


def _note_settled(group: ShareGroup, situation: GroupContext) -> None:
    """Nothing was to be done: until something changes heartbeats need not look again."""
    if not group.assignment_pending and not group.initializing:
        group.settled(situation.catalog)


def _store_member(draft: GroupUpdate, known: GroupMember | None, request: Heartbeat) -> bool:
    """Keep what the member told of itself; return whether its subscription changed (GC-13)."""
    old = (
        known.metadata if known is not None else MemberMetadata(request.group_id, request.member_id)
    )
    joins = request.member_epoch == JOIN_EPOCH
    names = old.subscribed_topic_names
    if request.subscribed_topic_names is not None:
        names = tuple(sorted(set(request.subscribed_topic_names)))
    new = MemberMetadata(
        request.group_id,
        request.member_id,
        rack_id=old.rack_id if request.rack_id is None else request.rack_id,
        client_id=request.client_id if joins else old.client_id,
        client_host=request.client_host if joins else old.client_host,
        subscribed_topic_names=names,
    )
    if known is None or new != old:
        draft.emit(new)
    return known is None or names != old.subscribed_topic_names


def _check_sizes(request: Heartbeat) -> None:
    if len(request.group_id) > MAX_GROUP_ID_CHARS:
        raise _invalid(f"group id is longer than {MAX_GROUP_ID_CHARS} characters")
    for label in (request.rack_id or "", request.client_id, request.client_host):
        if len(label) > MAX_LABEL_CHARS:
            raise _invalid(
                f"rack id, client id or host is longer than {MAX_LABEL_CHARS} characters"
            )
    names = request.subscribed_topic_names or ()
    if len(names) > MAX_SUBSCRIBED_TOPICS:
        raise _invalid(f"more than {MAX_SUBSCRIBED_TOPICS} subscribed topics; subscribe to fewer")
    for name in names:
        if not 0 < len(name) <= MAX_NAME_CHARS:
            raise _invalid(
                f"topic name of {len(name)} characters; names have 1 to {MAX_NAME_CHARS}"
            )


def _invalid(message: str) -> RefusedError:
    return RefusedError(ErrorCode.INVALID_REQUEST, message)


def _unknown_group(group_id: GroupId) -> RefusedError:
    return RefusedError(ErrorCode.GROUP_ID_NOT_FOUND, f"group {group_id!r} not found")


def _unknown_member(group_id: GroupId, member_id: MemberId) -> RefusedError:
    return RefusedError(
        ErrorCode.UNKNOWN_MEMBER_ID,
        f"member {member_id!r} is not in group {group_id!r}; join with epoch 0",
    )
