"""All share groups of one coordinator shard, rebuilt by replay."""

from sharemesh.domain.ids import GroupId
from sharemesh.domain.share_group.group import FIRST_EPOCH, ShareGroup
from sharemesh.domain.share_group.records import (
    CurrentMemberAssignment,
    EpochFloor,
    GroupLogRecord,
    GroupMetadata,
    MemberMetadata,
    RecordKind,
    StatePartitionMetadata,
    TargetAssignmentMember,
    TargetAssignmentMetadata,
    Tombstone,
)


class GroupShard:
    """The machine behind one shard of the group coordinator."""

    def __init__(self) -> None:
        self.groups: dict[GroupId, ShareGroup] = {}
        self.epoch_floor = FIRST_EPOCH

    def apply(self, record: GroupLogRecord, offset: int) -> None:  # noqa: ARG002
        """Change the state as a record says; where it lies in the log does not matter."""
        if isinstance(record, EpochFloor):
            self.epoch_floor = max(self.epoch_floor, record.epoch)
            return
        if isinstance(record, Tombstone) and record.kind is RecordKind.GROUP_METADATA:
            self.groups.pop(record.group_id, None)
            return
        group = self.groups.get(record.group_id)
        if group is None:
            if isinstance(record, Tombstone):
                return
            group = self.groups[record.group_id] = ShareGroup(record.group_id, self.epoch_floor)
        group.apply(record)

    def live_records(self) -> list[list[GroupLogRecord]]:
        """Return the records that rebuild this shard, those of one group together."""
        chunks = [self.own_records(), *map(_records_of, self.groups.values())]
        return [chunk for chunk in chunks if chunk]

    def own_records(self) -> list[GroupLogRecord]:
        """Return the records that rebuild what is of no group."""
        return [EpochFloor(self.epoch_floor)] if self.epoch_floor > FIRST_EPOCH else []

    def records_of(self, group_id: GroupId) -> list[GroupLogRecord]:
        """Return the records that rebuild a group; none if it is gone."""
        group = self.groups.get(group_id)
        return [] if group is None else _records_of(group)

    def validate(self) -> None:
        """Raise AssertionError if a group contradicts itself."""
        for group in self.groups.values():
            group.validate()


def _records_of(group: ShareGroup) -> list[GroupLogRecord]:
    group_id = group.group_id
    records: list[GroupLogRecord] = [GroupMetadata(group_id, group.epoch, group.metadata_hash)]
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
