"""Records of the group log as bytes (spec GC-33)."""

import pytest

from sharemesh.codec.group_record import (
    BadGroupRecordError,
    Moment,
    read_record,
    record_key,
    record_value,
)
from sharemesh.domain.ids import GroupId, MemberId, TopicId
from sharemesh.domain.share_group.records import (
    NEVER_MS,
    CurrentMemberAssignment,
    GroupEpochFloor,
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
from sharemesh.v1.group_record_pb2 import GroupRecord

G, M, T = GroupId("gruppe-ü"), MemberId("m1"), TopicId(b"t" * 16)
NOW = Moment(now_ms=1_000, wall_ms=1_700_000)
RECORDS = [
    MemberMetadata(G, M, "r", "c", "/10.0.0.1", ("bar", "foo")),
    GroupMetadata(G, 7, -(2**63)),
    TargetAssignmentMetadata(G, 7),
    TargetAssignmentMember(G, M, {T: (0, 2)}),
    TargetAssignmentMember(G, M),
    CurrentMemberAssignment(G, M, 7, -1, {T: (1,)}),
    StatePartitionMetadata(
        G,
        {T: InitializingTopic("foo", {3: InitializingPartition(-1, 7)})},
        {T: InitializedTopic("foo", {0: 5, 1: 6})},
        {TopicId(b"u" * 16): "bar"},
    ),
    GroupEpochFloor(12),
    *(GroupTombstone(G, kind, M) for kind in (RecordKind.MEMBER_METADATA,)),
    GroupTombstone(G, RecordKind.GROUP_METADATA),
]


@pytest.mark.parametrize("record", RECORDS)
def test_records_come_back_as_they_were(record):
    assert read_record(record_key(record), record_value(record, NOW), NOW) == record


def test_keys_differ_and_a_tombstone_has_the_key_of_what_it_ends():
    keys = [record_key(record) for record in RECORDS]
    assert len(set(keys)) == 7
    assert record_key(GroupTombstone(G, RecordKind.CURRENT_MEMBER_ASSIGNMENT, M)) == keys[5]
    other = MemberMetadata(GroupId("gruppe-"), MemberId("üm1"))
    assert record_key(other) != keys[0]


def test_the_beginning_of_an_initialization_is_forgotten_and_wall_time_is_kept():
    pending = InitializingTopic("foo", {3: InitializingPartition(-1, 7)}, since_ms=55)
    record = StatePartitionMetadata(G, {T: pending})
    value = record_value(record, NOW)
    assert read_record(record_key(record), value, NOW).initializing[T].since_ms == NEVER_MS
    assert GroupRecord.FromString(value).timestamp_ms == NOW.wall_ms


@pytest.mark.parametrize(
    ("read_at", "assigned_at_ms"),
    [
        (NOW, 55),
        (Moment(9_000, NOW.wall_ms + 400), 9_000 - 400 - (NOW.now_ms - 55)),  # another process
        (Moment(9_000, NOW.wall_ms - 3_000), 9_000),  # whose wall clock is behind: just now
    ],
)
def test_asi_1_the_last_assignment_comes_on_the_readers_clock(read_at, assigned_at_ms):
    record = TargetAssignmentMetadata(G, 7, assigned_at_ms=55)
    value = record_value(record, NOW)
    assert read_record(record_key(record), value, read_at).assigned_at_ms == assigned_at_ms


def test_asi_2_an_assignment_of_nothing_is_of_no_time():
    value = record_value(TargetAssignmentMetadata(G, 7), NOW)
    assert not GroupRecord.FromString(value).target_assignment_metadata.assignment_timestamp_ms


def test_later_versions_are_passed_over():
    key = record_key(RECORDS[1])
    later = GroupRecord(group_id=G, format_version=2)
    assert read_record(key, later.SerializeToString(), NOW) is None
    assert read_record(bytes([77]) + key[1:], b"", NOW) is None


@pytest.mark.parametrize("key", [b"", b"\x0b", b"\x0b\x00\x09g", b"\x0b\x00\x01\xff"])
def test_bytes_that_are_no_key_are_told(key):
    with pytest.raises(BadGroupRecordError):
        read_record(key, None, NOW)


def test_bytes_that_are_no_value_are_told():
    with pytest.raises(BadGroupRecordError):
        read_record(record_key(RECORDS[1]), b"\xff\xff\xff", NOW)
