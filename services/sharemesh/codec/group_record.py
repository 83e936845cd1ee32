"""Records of the group log as bytes (spec GC-33): key by kind, group and member; protobuf value.

Moments on the writer's monotonic clock mean nothing to another process: wall time is stored in
their place. A loader takes the beginning of an initialization as long past (so what was under way
resumes), and puts the last assignment on its own clock (ASI-1): never into the future, so that a
wall clock which differs costs one assignment interval at the most.
"""

import struct
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from sharemesh.codec.state_record import decode_batches, put_batches
from sharemesh.domain.ids import GroupId, MemberId, TopicId
from sharemesh.domain.share_group.assignor import Assignment
from sharemesh.domain.share_group.records import (
    NEVER_MS,
    CurrentMemberAssignment,
    GroupEpochFloor,
    GroupLogRecord,
    GroupMetadata,
    GroupTombstone,
    InitializedTopic,
    InitializingPartition,
    InitializingTopic,
    MemberMetadata,
    RecordKind,
    StatePartitionMetadata,
    TargetAssignmentMember,
    TargetAssignmentMetadata,
)
from sharemesh.v1 import common_pb2, group_record_pb2

FORMAT_VERSION = 1
_KEY_HEAD = struct.Struct(">BH")
_KIND_OF_TYPE: Mapping[type, RecordKind] = {
    MemberMetadata: RecordKind.MEMBER_METADATA,
    GroupMetadata: RecordKind.GROUP_METADATA,
    TargetAssignmentMetadata: RecordKind.TARGET_ASSIGNMENT_METADATA,
    TargetAssignmentMember: RecordKind.TARGET_ASSIGNMENT_MEMBER,
    CurrentMemberAssignment: RecordKind.CURRENT_MEMBER_ASSIGNMENT,
    StatePartitionMetadata: RecordKind.STATE_PARTITION_METADATA,
    GroupEpochFloor: RecordKind.EPOCH_FLOOR,
}


class Moment(NamedTuple):
    """One moment on both clocks of a process."""

    now_ms: int
    wall_ms: int

    def on_the_wall(self, monotonic_ms: int) -> int:
        """Return the wall time of a monotonic moment."""
        return self.wall_ms - (self.now_ms - monotonic_ms)

    def since_start(self, wall_ms: int) -> int:
        """Return the monotonic moment of a stored wall time; what is in the future was just now."""
        return self.now_ms - max(0, self.wall_ms - wall_ms)


class BadGroupRecordError(Exception):
    """Bytes of the group log that no version of this code wrote; the message says which."""


def record_key(record: GroupLogRecord) -> bytes:
    """Return the key: kind (1 byte), length of the group id (2 bytes), group id, member id."""
    if isinstance(record, GroupTombstone):
        return _key(record.kind, record.group_id, record.member_id)
    kind = _KIND_OF_TYPE[type(record)]
    if isinstance(record, GroupEpochFloor):
        return _key(kind, GroupId(""), MemberId(""))
    member_id = (
        record.member_id
        if isinstance(record, MemberMetadata | TargetAssignmentMember | CurrentMemberAssignment)
        else MemberId("")
    )
    return _key(kind, record.group_id, member_id)


def record_value(record: GroupLogRecord, moment: Moment) -> bytes | None:
    """Return the value, None for a tombstone; ``moment`` is when it is written."""
    if isinstance(record, GroupTombstone):
        return None
    wall_ms = moment.wall_ms
    message = group_record_pb2.GroupRecord(format_version=FORMAT_VERSION, timestamp_ms=wall_ms)
    if isinstance(record, GroupEpochFloor):
        message.epoch_floor.epoch = record.epoch
        return message.SerializeToString()
    message.group_id = record.group_id
    if isinstance(record, MemberMetadata):
        _write_member(message.member_metadata, record)
    elif isinstance(record, GroupMetadata):
        message.group_metadata.epoch = record.epoch
        message.group_metadata.metadata_hash = record.metadata_hash
        message.group_metadata.made_by = record.made_by
    elif isinstance(record, TargetAssignmentMetadata):
        message.target_assignment_metadata.assignment_epoch = record.assignment_epoch
        if record.assigned_at_ms != NEVER_MS:
            assigned_ms = moment.on_the_wall(record.assigned_at_ms)
            message.target_assignment_metadata.assignment_timestamp_ms = assigned_ms
    elif isinstance(record, TargetAssignmentMember):
        message.target_assignment_member.member_id = record.member_id
        message.target_assignment_member.topic_partitions.extend(_written(record.assignment))
    elif isinstance(record, CurrentMemberAssignment):
        _write_current(message.current_member_assignment, record)
    else:
        _write_partitions(message.state_partition_metadata, record, wall_ms)
    return message.SerializeToString()


def read_record(key: bytes, value: bytes | None, moment: Moment) -> GroupLogRecord | None:
    """Return the record, or None if a later version wrote it (spec SC-22).

    ``moment`` is when it is read: moments in the record come on the reader's clock.

    Raises:
        BadGroupRecordError: The bytes are not a record.
    """
    kind, group_id, member_id = _read_key(key)
    if kind is None:
        return None
    if value is None:
        return GroupTombstone(group_id, kind, member_id)
    try:
        message = group_record_pb2.GroupRecord.FromString(value)
    except Exception as error:
        raise BadGroupRecordError(f"value of {len(value)} bytes of a {kind.name} record") from error
    if message.format_version != FORMAT_VERSION:
        return None
    which = message.WhichOneof("value")
    if which is None:
        return None
    return _read_value(group_id, which, message, moment)


def _read_value(
    group_id: GroupId, which: str, message: group_record_pb2.GroupRecord, moment: Moment
) -> GroupLogRecord | None:
    if which == "member_metadata":
        return _read_member(group_id, message.member_metadata)
    if which == "group_metadata":
        group = message.group_metadata
        return GroupMetadata(group_id, group.epoch, group.metadata_hash, group.made_by)
    if which == "target_assignment_metadata":
        return _read_target(group_id, message.target_assignment_metadata, moment)
    if which == "target_assignment_member":
        target = message.target_assignment_member
        return TargetAssignmentMember(
            group_id, MemberId(target.member_id), _read_assignment(target.topic_partitions)
        )
    if which == "current_member_assignment":
        return _read_current(group_id, message.current_member_assignment)
    if which == "state_partition_metadata":
        return _read_partitions(group_id, message.state_partition_metadata)
    if which == "epoch_floor":
        return GroupEpochFloor(message.epoch_floor.epoch)
    return None


def _key(kind: RecordKind, group_id: GroupId, member_id: MemberId) -> bytes:
    group = group_id.encode()
    return _KEY_HEAD.pack(kind, len(group)) + group + member_id.encode()


def _read_key(key: bytes) -> tuple[RecordKind | None, GroupId, MemberId]:
    if len(key) < _KEY_HEAD.size:
        raise BadGroupRecordError(f"key of {len(key)} bytes")
    number, length = _KEY_HEAD.unpack_from(key)
    rest = key[_KEY_HEAD.size :]
    if length > len(rest):
        raise BadGroupRecordError(f"key names {length} bytes of group id, {len(rest)} are there")
    try:
        kind = RecordKind(number)
    except ValueError:
        return None, GroupId(""), MemberId("")
    try:
        return kind, GroupId(rest[:length].decode()), MemberId(rest[length:].decode())
    except UnicodeDecodeError as error:
        raise BadGroupRecordError("group or member id is not UTF-8") from error


def _write_member(message: group_record_pb2.MemberMetadata, record: MemberMetadata) -> None:
    message.member_id = record.member_id
    message.rack_id = record.rack_id
    message.client_id = record.client_id
    message.client_host = record.client_host
    message.principal = record.principal
    message.subscribed_topic_names.extend(record.subscribed_topic_names)


def _read_member(group_id: GroupId, message: group_record_pb2.MemberMetadata) -> MemberMetadata:
    return MemberMetadata(
        group_id,
        MemberId(message.member_id),
        rack_id=message.rack_id,
        client_id=message.client_id,
        client_host=message.client_host,
        principal=message.principal,
        subscribed_topic_names=tuple(message.subscribed_topic_names),
    )


def _write_current(
    message: group_record_pb2.CurrentMemberAssignment, record: CurrentMemberAssignment
) -> None:
    message.member_id = record.member_id
    message.member_epoch = record.member_epoch
    message.previous_member_epoch = record.previous_member_epoch
    message.assigned_partitions.extend(_written(record.assignment))


def _read_current(
    group_id: GroupId, message: group_record_pb2.CurrentMemberAssignment
) -> CurrentMemberAssignment:
    return CurrentMemberAssignment(
        group_id,
        MemberId(message.member_id),
        message.member_epoch,
        message.previous_member_epoch,
        _read_assignment(message.assigned_partitions),
    )


def _read_target(
    group_id: GroupId, message: group_record_pb2.TargetAssignmentMetadata, moment: Moment
) -> TargetAssignmentMetadata:
    assigned_ms = message.assignment_timestamp_ms
    return TargetAssignmentMetadata(
        group_id,
        message.assignment_epoch,
        moment.since_start(assigned_ms) if assigned_ms else NEVER_MS,
    )


def _written(assignment: Assignment) -> list[common_pb2.TopicPartitions]:
    return [
        common_pb2.TopicPartitions(topic_id=topic_id, partitions=numbers)
        for topic_id, numbers in assignment.items()
    ]


def _read_assignment(stored: Iterable[common_pb2.TopicPartitions]) -> Assignment:
    return {TopicId(each.topic_id): tuple(each.partitions) for each in stored}


def _write_partitions(
    message: group_record_pb2.StatePartitionMetadata,
    record: StatePartitionMetadata,
    wall_ms: int,
) -> None:
    for topic_id, pending in record.initializing.items():
        topic = message.initializing.add(
            topic_id=topic_id, topic_name=pending.topic_name, since_ms=wall_ms
        )
        for number, each in pending.partitions.items():
            begun = topic.partitions.add(
                partition=number, start_offset=each.start_offset, state_epoch=each.state_epoch
            )
            put_batches(begun.state_batches, each.batches)
    for topic_id, done in record.initialized.items():
        ready = message.initialized.add(topic_id=topic_id, topic_name=done.topic_name)
        for number, state_epoch in done.partitions.items():
            ready.partitions.add(partition=number, state_epoch=state_epoch)
    for topic_id, name in record.deleting.items():
        message.deleting.add(topic_id=topic_id, topic_name=name)


def _read_partitions(
    group_id: GroupId, message: group_record_pb2.StatePartitionMetadata
) -> StatePartitionMetadata:
    return StatePartitionMetadata(
        group_id,
        {
            TopicId(topic.topic_id): InitializingTopic(
                topic.topic_name,
                {
                    each.partition: InitializingPartition(
                        each.start_offset, each.state_epoch, decode_batches(each.state_batches)
                    )
                    for each in topic.partitions
                },
            )
            for topic in message.initializing
        },
        {
            TopicId(topic.topic_id): InitializedTopic(
                topic.topic_name, {each.partition: each.state_epoch for each in topic.partitions}
            )
            for topic in message.initialized
        },
        {TopicId(topic.topic_id): topic.topic_name for topic in message.deleting},
    )
