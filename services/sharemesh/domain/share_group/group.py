"""State of one share group; only records change it, so that replay rebuilds it (spec GC-33)."""

from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from sharemesh.domain.ids import GroupId, MemberId, TopicId
from sharemesh.domain.share_group.assignor import NOTHING, Assignment, nothing
from sharemesh.domain.share_group.records import (
    NEVER_MS,
    CurrentMemberAssignment,
    GroupLogRecord,
    GroupMetadata,
    GroupTombstone,
    InitializedTopic,
    InitializingTopic,
    MemberMetadata,
    RecordKind,
    StatePartitionMetadata,
    TargetAssignmentMember,
    TargetAssignmentMetadata,
)

FIRST_EPOCH = 1
"""Epoch of a new group before its first change (spec GC-15)."""


class GroupState(StrEnum):
    """Kafka's names (spec GC-25)."""

    EMPTY = "Empty"
    STABLE = "Stable"
    DEAD = "Dead"


@dataclass(frozen=True, slots=True)
class GroupMember:
    """One member; ``member_epoch`` -1 until it got its first assignment."""

    metadata: MemberMetadata
    member_epoch: int = -1
    previous_member_epoch: int = -1
    assigned: Assignment = field(default_factory=nothing)

    @property
    def member_id(self) -> MemberId:
        """The id that the member chose for itself (spec GC-2)."""
        return self.metadata.member_id

    def belongs_to(self, principal: str) -> bool:
        """Return whether this principal joined it, or its principal is not known (BND-26)."""
        return self.metadata.principal in ("", principal)


@dataclass(slots=True, eq=False)
class ShareGroup:
    """Members, epochs, target assignment and initialized partitions of one group.

    ``stale`` is raised by every change that may call for a new epoch or assignment, and lowered
    once it was checked (``settled``): a heartbeat that finds it lowered has nothing to do.
    """

    group_id: GroupId
    epoch: int = FIRST_EPOCH
    metadata_hash: int = 0
    made_by: str = ""
    assignment_epoch: int = 0
    assigned_at_ms: int = NEVER_MS
    members: dict[MemberId, GroupMember] = field(default_factory=dict)
    targets: dict[MemberId, Assignment] = field(default_factory=dict)
    partitions: StatePartitionMetadata = field(init=False)  # never changed in place
    stale: bool = True
    _catalog_seen: object = None
    _subscribers: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.partitions = StatePartitionMetadata(self.group_id)

    def copy(self) -> "ShareGroup":
        """Return a group that can be changed without changing this one."""
        twin = copy(self)
        twin.members = dict(self.members)
        twin.targets = dict(self.targets)
        twin._subscribers = dict(self._subscribers)
        return twin

    # ---- what others read -----------------------------------------------------------------------

    @property
    def state(self) -> GroupState:
        """Empty without members, else Stable (spec GC-25)."""
        return GroupState.STABLE if self.members else GroupState.EMPTY

    @property
    def subscribed_names(self) -> list[str]:
        """Topics that some member subscribes to, existing or not, by name."""
        return sorted(self._subscribers)

    @property
    def initializing(self) -> Mapping[TopicId, InitializingTopic]:
        """Partitions whose initialization is not answered yet."""
        return self.partitions.initializing

    @property
    def initialized(self) -> Mapping[TopicId, InitializedTopic]:
        """Partitions that have state at the share coordinator."""
        return self.partitions.initialized

    @property
    def deleting(self) -> Mapping[TopicId, str]:
        """Topics whose state is being deleted."""
        return self.partitions.deleting

    @property
    def assignment_pending(self) -> bool:
        """Whether the target assignment is older than the group epoch."""
        return self.epoch > self.assignment_epoch

    def target(self, member_id: MemberId) -> Assignment:
        """Return the target assignment of a member."""
        return self.targets.get(member_id, NOTHING)

    def assignable(self) -> dict[TopicId, list[int]]:
        """Return partitions that are initialized and not being initialized again (spec GC-17)."""
        result: dict[TopicId, list[int]] = {}
        for topic_id, topic in self.initialized.items():
            pending = self.initializing.get(topic_id)
            again = pending.partitions if pending is not None else {}
            result[topic_id] = sorted(number for number in topic.partitions if number not in again)
        return result

    def needs_look(self, catalog: object) -> bool:
        """Whether something changed since ``settled`` was called with this catalog."""
        return self.stale or self._catalog_seen is not catalog

    def settled(self, catalog: object) -> None:
        """Note that with these topics nothing is to be done but wait for time to pass."""
        self.stale = False
        self._catalog_seen = catalog

    def validate(self) -> None:
        """Raise AssertionError if the parts contradict each other; for tests and simulation."""
        assert self.assignment_epoch <= self.epoch, f"{self.group_id}: assignment from the future"
        counted: dict[str, int] = {}
        for member_id, member in self.members.items():
            assert member.member_id == member_id
            assert member.member_epoch <= self.epoch, f"{member_id}: epoch from the future"
            assert member.previous_member_epoch <= member.member_epoch
            for name in member.metadata.subscribed_topic_names:
                counted[name] = counted.get(name, 0) + 1
        assert counted == self._subscribers, f"{self.group_id}: subscribers miscounted"
        assert self.targets.keys() <= self.members.keys(), f"{self.group_id}: target of nobody"

    # ---- records --------------------------------------------------------------------------------

    def apply(self, record: GroupLogRecord) -> None:
        """Change the state as a record says."""
        change = _CHANGES.get(type(record))
        if change is not None:
            change(self, record)

    def _member_metadata(self, record: MemberMetadata) -> None:
        old = self.members.get(record.member_id)
        if old is None:
            self.members[record.member_id] = GroupMember(record)
            self._count((), record.subscribed_topic_names)
            return
        self.members[record.member_id] = replace(old, metadata=record)
        self._count(old.metadata.subscribed_topic_names, record.subscribed_topic_names)

    def _group_metadata(self, record: GroupMetadata) -> None:
        self.epoch = record.epoch
        self.metadata_hash = record.metadata_hash
        self.made_by = self.made_by or record.made_by
        self.stale = True

    def _target_metadata(self, record: TargetAssignmentMetadata) -> None:
        self.assignment_epoch = record.assignment_epoch
        self.assigned_at_ms = record.assigned_at_ms
        self.stale = True

    def _target_member(self, record: TargetAssignmentMember) -> None:
        self.targets[record.member_id] = record.assignment
        self.stale = True

    def _current(self, record: CurrentMemberAssignment) -> None:
        old = self.members.get(record.member_id)
        if old is None:
            old = GroupMember(MemberMetadata(record.group_id, record.member_id))
        self.members[record.member_id] = replace(
            old,
            member_epoch=record.member_epoch,
            previous_member_epoch=record.previous_member_epoch,
            assigned=record.assignment,
        )

    def _partitions(self, record: StatePartitionMetadata) -> None:
        self.partitions = record
        self.stale = True

    def _tombstone(self, record: GroupTombstone) -> None:
        if record.kind is RecordKind.MEMBER_METADATA:
            gone = self.members.pop(record.member_id, None)
            if gone is not None:
                self._count(gone.metadata.subscribed_topic_names, ())
        elif record.kind is RecordKind.TARGET_ASSIGNMENT_MEMBER:
            self.targets.pop(record.member_id, None)
        elif record.kind is RecordKind.TARGET_ASSIGNMENT_METADATA:
            self.assignment_epoch = 0
            self.assigned_at_ms = NEVER_MS
        elif record.kind is RecordKind.STATE_PARTITION_METADATA:
            self.partitions = StatePartitionMetadata(self.group_id)
        self.stale = True

    def _count(self, before: tuple[str, ...], after: tuple[str, ...]) -> None:
        if before == after:
            return
        for name in before:
            left = self._subscribers[name] - 1
            if left:
                self._subscribers[name] = left
            else:
                del self._subscribers[name]
        for name in after:
            self._subscribers[name] = self._subscribers.get(name, 0) + 1
        self.stale = True


_CHANGES: Mapping[type, Callable[[ShareGroup, Any], None]] = {
    MemberMetadata: ShareGroup._member_metadata,
    GroupMetadata: ShareGroup._group_metadata,
    TargetAssignmentMetadata: ShareGroup._target_metadata,
    TargetAssignmentMember: ShareGroup._target_member,
    CurrentMemberAssignment: ShareGroup._current,
    StatePartitionMetadata: ShareGroup._partitions,
    GroupTombstone: ShareGroup._tombstone,
}
