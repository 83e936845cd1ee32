"""All share groups of one coordinator shard, rebuilt by replay of its records (spec GC-33)."""

from collections.abc import Sequence
from dataclasses import replace

from sharemesh.domain.errors import ErrorCode, RefusedError
from sharemesh.domain.ids import GroupId, MemberId
from sharemesh.domain.quota.counts import OpenCounts
from sharemesh.domain.share_group.context import MAX_GROUPS, MAX_MEMBERS_BYTES
from sharemesh.domain.share_group.group import FIRST_EPOCH, ShareGroup
from sharemesh.domain.share_group.records import (
    CurrentMemberAssignment,
    GroupEpochFloor,
    GroupLogRecord,
    GroupMetadata,
    GroupTombstone,
    MemberMetadata,
    RecordKind,
    StatePartitionMetadata,
    TargetAssignmentMember,
    TargetAssignmentMetadata,
)


class GroupShard:
    """The machine behind one shard of the group coordinator."""

    def __init__(self) -> None:
        self.groups: dict[GroupId, ShareGroup] = {}
        self.epoch_floor = FIRST_EPOCH
        self.members_bytes = 0
        """About the memory that the metadata of all members takes."""
        self.made = OpenCounts()
        """How many of the groups each principal has made (QUO-12)."""

    def apply(self, record: GroupLogRecord, offset: int) -> None:  # noqa: ARG002
        """Change the state as a record says; where it lies in the log does not matter."""
        if isinstance(record, GroupEpochFloor):
            self.epoch_floor = max(self.epoch_floor, record.epoch)
            return
        if isinstance(record, GroupTombstone) and record.kind is RecordKind.GROUP_METADATA:
            gone = self.groups.pop(record.group_id, None)
            if gone is not None and gone.made_by:
                self.made.add(gone.made_by, -1)
            return
        group = self.groups.get(record.group_id)
        if group is None:
            if isinstance(record, GroupTombstone):
                return
            group = self.groups[record.group_id] = ShareGroup(record.group_id, self.epoch_floor)
        if isinstance(record, MemberMetadata):
            self.members_bytes += record.size_bytes - _metadata_bytes(group, record.member_id)
        elif isinstance(record, GroupTombstone) and record.kind is RecordKind.MEMBER_METADATA:
            self.members_bytes -= _metadata_bytes(group, record.member_id)
        was_known = group.made_by
        group.apply(record)
        if group.made_by and not was_known:
            self.made.add(group.made_by)

    def check_room(self, group_id: GroupId, records: Sequence[GroupLogRecord]) -> None:
        """Check that a request does not make this shard too large.

        Raises:
            RefusedError: INVALID_REQUEST for one group too many, GROUP_MAX_SIZE_REACHED for
                members whose metadata has no room; that of a known member counts as far as it
                grows, without the principal that an older version did not store (BND-26).
        """
        if group_id not in self.groups and len(self.groups) >= MAX_GROUPS:
            raise RefusedError(
                ErrorCode.INVALID_REQUEST,
                f"shard has {len(self.groups)} groups; delete some first",
            )
        group = self.groups.get(group_id)
        more = sum(_growth(group, each) for each in records if isinstance(each, MemberMetadata))
        if more > 0 and self.members_bytes + more > MAX_MEMBERS_BYTES:
            raise RefusedError(
                ErrorCode.GROUP_MAX_SIZE_REACHED,
                f"members of this shard told {self.members_bytes} bytes of themselves, "
                f"{MAX_MEMBERS_BYTES} are the most: subscribe to fewer topics, or let some leave",
            )

    def live_records(self) -> list[list[GroupLogRecord]]:
        """Return the records that rebuild this shard, those of one group together."""
        chunks = [self.own_records(), *map(_records_of, self.groups.values())]
        return [chunk for chunk in chunks if chunk]

    def own_records(self) -> list[GroupLogRecord]:
        """Return the records that rebuild what is of no group."""
        return [GroupEpochFloor(self.epoch_floor)] if self.epoch_floor > FIRST_EPOCH else []

    def records_of(self, group_id: GroupId) -> list[GroupLogRecord]:
        """Return the records that rebuild a group; none if it is gone."""
        group = self.groups.get(group_id)
        return [] if group is None else _records_of(group)

    def validate(self) -> None:
        """Raise AssertionError if a group contradicts itself."""
        for group in self.groups.values():
            group.validate()
        counted = sum(
            member.metadata.size_bytes
            for group in self.groups.values()
            for member in group.members.values()
        )
        assert self.members_bytes == counted, "bytes of members miscounted"
        for made_by in {group.made_by: None for group in self.groups.values() if group.made_by}:
            count = sum(group.made_by == made_by for group in self.groups.values())
            assert self.made.of(made_by) == count, f"groups of {made_by} miscounted"


def _growth(group: ShareGroup | None, record: MemberMetadata) -> int:
    known = None if group is None else group.members.get(record.member_id)
    if known is None:
        return record.size_bytes
    asked = replace(record, principal=known.metadata.principal)
    return asked.size_bytes - known.metadata.size_bytes


def _metadata_bytes(group: ShareGroup, member_id: MemberId) -> int:
    known = group.members.get(member_id)
    return 0 if known is None else known.metadata.size_bytes


def _records_of(group: ShareGroup) -> list[GroupLogRecord]:
    group_id = group.group_id
    records: list[GroupLogRecord] = [
        GroupMetadata(group_id, group.epoch, group.metadata_hash, group.made_by)
    ]
    records.append(TargetAssignmentMetadata(group_id, group.assignment_epoch, group.assigned_at_ms))
    for member_id, member in group.members.items():
        metadata: MemberMetadata = member.metadata
        records.append(metadata)
        if member_id in group.targets:
            records.append(TargetAssignmentMember(group_id, member_id, group.targets[member_id]))
        records.append(
            CurrentMemberAssignment(
                group_id,
                member_id,
                member.member_epoch,
                member.previous_member_epoch,
                member.assigned,
            )
        )
    partitions: StatePartitionMetadata = group.partitions
    if partitions.initializing or partitions.initialized or partitions.deleting:
        records.append(partitions)
    return records
