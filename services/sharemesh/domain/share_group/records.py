"""Records of the group log (spec GC-33): each gives one thing's whole new value."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum

from sharemesh.domain.ids import GroupId, MemberId, TopicId
from sharemesh.domain.share_group.assignor import Assignment, nothing
from sharemesh.domain.state_batch import StateBatch

NEVER_MS = -(2**62)
"""A moment before all others: of what never was, or began on a predecessor's clock."""


NO_MEMBER = MemberId("")
_TEXT_BYTES = 60  # that Python adds to each text


class RecordKind(IntEnum):
    """Kafka's key types, and one of our own."""

    MEMBER_METADATA = 10
    GROUP_METADATA = 11
    TARGET_ASSIGNMENT_METADATA = 12
    TARGET_ASSIGNMENT_MEMBER = 13
    CURRENT_MEMBER_ASSIGNMENT = 14
    STATE_PARTITION_METADATA = 15
    EPOCH_FLOOR = 100


@dataclass(frozen=True, slots=True)
class MemberMetadata:
    """Type 10: what a member says of itself; topic names sorted, each once.

    ``principal`` is who joined (BND-26); empty in records of versions that did not store it.
    """

    group_id: GroupId
    member_id: MemberId
    rack_id: str = ""
    client_id: str = ""
    client_host: str = ""
    subscribed_topic_names: tuple[str, ...] = ()
    principal: str = ""

    @property
    def size_bytes(self) -> int:
        """About what it takes in memory: characters, and what Python adds to each text."""
        texts = (self.member_id, self.rack_id, self.client_id, self.client_host, self.principal)
        return sum(len(each) + _TEXT_BYTES for each in (*texts, *self.subscribed_topic_names))


@dataclass(frozen=True, slots=True)
class GroupMetadata:
    """Type 11: the group epoch, and the hash of the subscribed topics it was raised for.

    ``made_by`` is the principal that made the group (QUO-12); empty: an earlier record said it.
    """

    group_id: GroupId
    epoch: int
    metadata_hash: int = 0
    made_by: str = ""


@dataclass(frozen=True, slots=True)
class TargetAssignmentMetadata:
    """Type 12: the group epoch that the target assignment was computed for.

    ``assigned_at_ms`` is when it was computed, on the monotonic clock of this process whoever
    computed it; NEVER_MS for an assignment of nothing, which the next one need not wait for.
    """

    group_id: GroupId
    assignment_epoch: int
    assigned_at_ms: int = NEVER_MS


@dataclass(frozen=True, slots=True)
class TargetAssignmentMember:
    """Type 13: the target assignment of a member."""

    group_id: GroupId
    member_id: MemberId
    assignment: Assignment = field(default_factory=nothing)


@dataclass(frozen=True, slots=True)
class CurrentMemberAssignment:
    """Type 14: the assignment sent to a member, and its epoch with it."""

    group_id: GroupId
    member_id: MemberId
    member_epoch: int
    previous_member_epoch: int = -1
    assignment: Assignment = field(default_factory=nothing)


@dataclass(frozen=True, slots=True)
class InitializingPartition:
    """The start offset that was intended first of all, and the state epoch it is sent with.

    ``batches`` are delivery states that an import begins with (spec OLD).
    """

    start_offset: int
    state_epoch: int
    batches: tuple[StateBatch, ...] = ()


@dataclass(frozen=True, slots=True)
class InitializingTopic:
    """Partitions whose state is being initialized; ``since_ms`` is monotonic time."""

    topic_name: str
    partitions: Mapping[int, InitializingPartition]
    since_ms: int = NEVER_MS


@dataclass(frozen=True, slots=True)
class InitializedTopic:
    """Partitions whose state is initialized, with the state epoch they have."""

    topic_name: str
    partitions: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class StatePartitionMetadata:
    """Type 15: the three sets of spec GC-26; ``deleting`` gives the topic's name."""

    group_id: GroupId
    initializing: Mapping[TopicId, InitializingTopic] = field(default_factory=dict)
    initialized: Mapping[TopicId, InitializedTopic] = field(default_factory=dict)
    deleting: Mapping[TopicId, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class GroupTombstone:
    """The thing of this kind is no more."""

    group_id: GroupId
    kind: RecordKind
    member_id: MemberId = NO_MEMBER


@dataclass(frozen=True, slots=True)
class GroupEpochFloor:
    """The highest epoch of a deleted group of this shard: new groups start there (LOG-22)."""

    epoch: int


GroupLogRecord = (
    MemberMetadata
    | GroupMetadata
    | TargetAssignmentMetadata
    | TargetAssignmentMember
    | CurrentMemberAssignment
    | StatePartitionMetadata
    | GroupTombstone
    | GroupEpochFloor
)
"""What a group coordinator shard writes."""
