"""Decisions on members: heartbeat, join, leave, session time-out (spec GC-1..23)."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from sharemesh.domain.errors import BoundReachedError, ErrorCode, RefusedError, invalid_request
from sharemesh.domain.ids import (
    GroupId,
    MemberId,
    check_group_id,
    check_member_id,
    check_topic_name_length,
)
from sharemesh.domain.printable import check_printable
from sharemesh.domain.share_group.assignor import Assignment
from sharemesh.domain.share_group.context import (
    MAX_LABEL_CHARS,
    MAX_SUBSCRIBED_TOPICS,
    GroupContext,
    GroupDecision,
    GroupUpdate,
    InitializePlan,
    TopicsImage,
    draft_of,
)
from sharemesh.domain.share_group.epochs import (
    bring_up_to_date,
    reconcile,
    stable_if_empty,
    unassigned,
)
from sharemesh.domain.share_group.group import GroupMember, ShareGroup
from sharemesh.domain.share_group.initialization import plan_initialization
from sharemesh.domain.share_group.records import (
    GroupMetadata,
    GroupTombstone,
    MemberMetadata,
    RecordKind,
)

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
    principal: str = ""


@dataclass(frozen=True, slots=True)
class HeartbeatAnswer:
    """The answer to a heartbeat; ``assignment`` None means unchanged (spec GC-19)."""

    member_epoch: int
    assignment: Assignment | None = None
    initialize: InitializePlan | None = None


def check_fields(request: Heartbeat) -> None:
    """Check what can be checked without the group, in the order of spec GC-5.

    Raises:
        RefusedError: INVALID_REQUEST.
    """
    check_member_id(request.member_id)
    if not request.group_id:
        raise invalid_request("group id is empty")
    if request.rack_id == "":
        raise invalid_request("rack id is empty; leave it out instead")
    if request.member_epoch == JOIN_EPOCH and not request.subscribed_topic_names:
        raise invalid_request(
            "member epoch 0 without subscribed topic names; name at least one topic"
        )
    if request.member_epoch < LEAVE_EPOCH:
        raise invalid_request(f"member epoch {request.member_epoch} is below -1")
    _check_sizes(request)


def heartbeat(
    group: ShareGroup | None, request: Heartbeat, group_context: GroupContext
) -> GroupDecision[HeartbeatAnswer]:
    """Decide a heartbeat with member epoch 0 or higher (spec GC-7 to GC-20).

    Raises:
        RefusedError: GROUP_ID_NOT_FOUND, GROUP_MAX_SIZE_REACHED, UNKNOWN_MEMBER_ID,
            FENCED_MEMBER_EPOCH; INVALID_GROUP_ID and INVALID_REQUEST for control characters of
            what is new (BND-24). Nothing changes.
    """
    known = _known_member(group, request, group_context)
    if (
        group is not None
        and known is not None
        and _is_settled(group, known, request, group_context.catalog)
    ):
        return GroupDecision((), HeartbeatAnswer(known.member_epoch))
    draft = draft_of(group, request.group_id, group_context.epoch_floor)
    resubscribed = _store_member(draft, known, request)
    bring_up_to_date(draft, group_context, bump=resubscribed)
    changed = reconcile(draft, request.member_id)
    initialize = plan_initialization(draft, group_context)
    member = draft.group.members[request.member_id]
    included = (
        request.member_epoch == JOIN_EPOCH
        or request.subscribed_topic_names is not None
        or changed
        or (known is not None and request.member_epoch != known.member_epoch)
    )
    if group is not None and not draft.records:
        _note_settled(group, group_context)
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
    group: ShareGroup | None,
    group_id: GroupId,
    member_id: MemberId,
    catalog: TopicsImage,
    *,
    principal: str,
) -> GroupDecision[None]:
    """Decide a leave; the member's epoch does not matter (spec GC-23).

    Raises:
        RefusedError: GROUP_ID_NOT_FOUND, UNKNOWN_MEMBER_ID.
    """
    if group is None:
        raise _unknown_group(group_id)
    member = group.members.get(member_id)
    if member is None:
        raise _unknown_member(group_id, member_id)
    if not member.belongs_to(principal):
        raise _not_theirs(group_id, member_id)
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


def review(group: ShareGroup, group_context: GroupContext) -> GroupDecision[InitializePlan | None]:
    """Do a group's work that needs no heartbeat: new topics, assignment, initialization."""
    if not group.members and not group.initializing:
        return GroupDecision((), None)
    draft = GroupUpdate(group.copy())
    bring_up_to_date(draft, group_context, bump=False)
    initialize = plan_initialization(draft, group_context)
    stable_if_empty(draft)
    if not draft.records:
        _note_settled(group, group_context)
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
    group: ShareGroup | None, member_id: MemberId, group_context: GroupContext
) -> bool:
    """Return whether an assignment for this member is still pending."""
    if group is None or member_id not in group.members:
        return False
    catalog = group_context.catalog
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
    group: ShareGroup | None, request: Heartbeat, group_context: GroupContext
) -> GroupMember | None:
    """Check group, size, member and epoch in the order of spec GC-7, GC-10 to GC-12."""
    joins = request.member_epoch == JOIN_EPOCH
    if group is None:
        if not joins:
            raise _unknown_group(request.group_id)
        return None
    member = group.members.get(request.member_id)
    if member is None:
        if len(group.members) >= group_context.max_size:
            raise RefusedError(
                ErrorCode.GROUP_MAX_SIZE_REACHED,
                f"group {request.group_id!r} has {len(group.members)} members, the most is "
                f"{group_context.max_size} (group.share.max.size)",
            )
        if not joins:
            raise _unknown_member(request.group_id, request.member_id)
        return None
    if not member.belongs_to(request.principal):
        raise _not_theirs(request.group_id, request.member_id)
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
    """Whether a heartbeat changes nothing, and its answer brings nothing new."""
    return (
        request.member_epoch == member.member_epoch
        and request.principal == member.metadata.principal
        and request.subscribed_topic_names is None
        and request.rack_id is None
        and not group.needs_look(catalog)
        and member.member_epoch == group.assignment_epoch
        and member.assigned == group.target(member.member_id)
    )


def _note_settled(group: ShareGroup, group_context: GroupContext) -> None:
    """Nothing was to be done: until something changes, heartbeats skip the check."""
    if not group.assignment_pending and not group.initializing:
        group.settled(group_context.catalog)


def _store_member(draft: GroupUpdate, known: GroupMember | None, request: Heartbeat) -> bool:
    """Store the metadata of the member; return whether its subscription changed (GC-13)."""
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
        principal=request.principal,
    )
    _check_printable(known, old, new)
    if known is None or new != old:
        draft.emit(new)
    return known is None or names != old.subscribed_topic_names


def _check_printable(known: GroupMember | None, old: MemberMetadata, new: MemberMetadata) -> None:
    """Refuse control characters in new labels of a member (BND-24); stored ones stay."""
    if known is None:
        check_printable("member id", new.member_id)
    if new.rack_id != old.rack_id:
        check_printable("rack id", new.rack_id)
    if new.client_id != old.client_id:
        check_printable("client id", new.client_id)


def _check_sizes(request: Heartbeat) -> None:
    check_group_id(request.group_id)
    for label in (request.rack_id or "", request.client_id, request.client_host):
        if len(label) > MAX_LABEL_CHARS:
            raise invalid_request(
                f"rack id, client id or host is longer than {MAX_LABEL_CHARS} characters"
            )
    names = request.subscribed_topic_names or ()
    if len(names) > MAX_SUBSCRIBED_TOPICS:
        raise invalid_request(
            f"more than {MAX_SUBSCRIBED_TOPICS} subscribed topics; subscribe to fewer"
        )
    for name in names:
        check_topic_name_length(name)


def _unknown_group(group_id: GroupId) -> RefusedError:
    return RefusedError(ErrorCode.GROUP_ID_NOT_FOUND, f"group {group_id!r} not found")


def _unknown_member(group_id: GroupId, member_id: MemberId) -> RefusedError:
    return RefusedError(
        ErrorCode.UNKNOWN_MEMBER_ID,
        f"member {member_id!r} is not in group {group_id!r}; join with epoch 0",
    )


def _not_theirs(group_id: GroupId, member_id: MemberId) -> RefusedError:
    """Return what a member of another principal is refused with: the same words (BND-26)."""
    unknown = _unknown_member(group_id, member_id)
    return BoundReachedError(unknown.error, unknown.message)
