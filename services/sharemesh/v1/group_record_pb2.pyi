from sharemesh.v1 import common_pb2 as _common_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class GroupRecord(_message.Message):
    __slots__ = ("group_id", "format_version", "timestamp_ms", "member_metadata", "group_metadata", "target_assignment_metadata", "target_assignment_member", "current_member_assignment", "state_partition_metadata", "tombstone", "epoch_floor")
    GROUP_ID_FIELD_NUMBER: _ClassVar[int]
    FORMAT_VERSION_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_MS_FIELD_NUMBER: _ClassVar[int]
    MEMBER_METADATA_FIELD_NUMBER: _ClassVar[int]
    GROUP_METADATA_FIELD_NUMBER: _ClassVar[int]
    TARGET_ASSIGNMENT_METADATA_FIELD_NUMBER: _ClassVar[int]
    TARGET_ASSIGNMENT_MEMBER_FIELD_NUMBER: _ClassVar[int]
    CURRENT_MEMBER_ASSIGNMENT_FIELD_NUMBER: _ClassVar[int]
    STATE_PARTITION_METADATA_FIELD_NUMBER: _ClassVar[int]
    TOMBSTONE_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FLOOR_FIELD_NUMBER: _ClassVar[int]
    group_id: str
    format_version: int
    timestamp_ms: int
    member_metadata: MemberMetadata
    group_metadata: GroupMetadata
    target_assignment_metadata: TargetAssignmentMetadata
    target_assignment_member: TargetAssignmentMember
    current_member_assignment: CurrentMemberAssignment
    state_partition_metadata: StatePartitionMetadata
    tombstone: Tombstone
    epoch_floor: EpochFloor
    def __init__(self, group_id: _Optional[str] = ..., format_version: _Optional[int] = ..., timestamp_ms: _Optional[int] = ..., member_metadata: _Optional[_Union[MemberMetadata, _Mapping]] = ..., group_metadata: _Optional[_Union[GroupMetadata, _Mapping]] = ..., target_assignment_metadata: _Optional[_Union[TargetAssignmentMetadata, _Mapping]] = ..., target_assignment_member: _Optional[_Union[TargetAssignmentMember, _Mapping]] = ..., current_member_assignment: _Optional[_Union[CurrentMemberAssignment, _Mapping]] = ..., state_partition_metadata: _Optional[_Union[StatePartitionMetadata, _Mapping]] = ..., tombstone: _Optional[_Union[Tombstone, _Mapping]] = ..., epoch_floor: _Optional[_Union[EpochFloor, _Mapping]] = ...) -> None: ...

class EpochFloor(_message.Message):
    __slots__ = ("epoch",)
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    def __init__(self, epoch: _Optional[int] = ...) -> None: ...

class Tombstone(_message.Message):
    __slots__ = ("type", "member_id")
    TYPE_FIELD_NUMBER: _ClassVar[int]
    MEMBER_ID_FIELD_NUMBER: _ClassVar[int]
    type: int
    member_id: str
    def __init__(self, type: _Optional[int] = ..., member_id: _Optional[str] = ...) -> None: ...

class MemberMetadata(_message.Message):
    __slots__ = ("member_id", "rack_id", "client_id", "client_host", "subscribed_topic_names", "principal")
    MEMBER_ID_FIELD_NUMBER: _ClassVar[int]
    RACK_ID_FIELD_NUMBER: _ClassVar[int]
    CLIENT_ID_FIELD_NUMBER: _ClassVar[int]
    CLIENT_HOST_FIELD_NUMBER: _ClassVar[int]
    SUBSCRIBED_TOPIC_NAMES_FIELD_NUMBER: _ClassVar[int]
    PRINCIPAL_FIELD_NUMBER: _ClassVar[int]
    member_id: str
    rack_id: str
    client_id: str
    client_host: str
    subscribed_topic_names: _containers.RepeatedScalarFieldContainer[str]
    principal: str
    def __init__(self, member_id: _Optional[str] = ..., rack_id: _Optional[str] = ..., client_id: _Optional[str] = ..., client_host: _Optional[str] = ..., subscribed_topic_names: _Optional[_Iterable[str]] = ..., principal: _Optional[str] = ...) -> None: ...

class GroupMetadata(_message.Message):
    __slots__ = ("epoch", "metadata_hash", "made_by")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    METADATA_HASH_FIELD_NUMBER: _ClassVar[int]
    MADE_BY_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    metadata_hash: int
    made_by: str
    def __init__(self, epoch: _Optional[int] = ..., metadata_hash: _Optional[int] = ..., made_by: _Optional[str] = ...) -> None: ...

class TargetAssignmentMetadata(_message.Message):
    __slots__ = ("assignment_epoch", "assignment_timestamp_ms")
    ASSIGNMENT_EPOCH_FIELD_NUMBER: _ClassVar[int]
    ASSIGNMENT_TIMESTAMP_MS_FIELD_NUMBER: _ClassVar[int]
    assignment_epoch: int
    assignment_timestamp_ms: int
    def __init__(self, assignment_epoch: _Optional[int] = ..., assignment_timestamp_ms: _Optional[int] = ...) -> None: ...

class TargetAssignmentMember(_message.Message):
    __slots__ = ("member_id", "topic_partitions")
    MEMBER_ID_FIELD_NUMBER: _ClassVar[int]
    TOPIC_PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    member_id: str
    topic_partitions: _containers.RepeatedCompositeFieldContainer[_common_pb2.TopicPartitions]
    def __init__(self, member_id: _Optional[str] = ..., topic_partitions: _Optional[_Iterable[_Union[_common_pb2.TopicPartitions, _Mapping]]] = ...) -> None: ...

class CurrentMemberAssignment(_message.Message):
    __slots__ = ("member_id", "member_epoch", "previous_member_epoch", "state", "assigned_partitions")
    MEMBER_ID_FIELD_NUMBER: _ClassVar[int]
    MEMBER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    PREVIOUS_MEMBER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    ASSIGNED_PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    member_id: str
    member_epoch: int
    previous_member_epoch: int
    state: int
    assigned_partitions: _containers.RepeatedCompositeFieldContainer[_common_pb2.TopicPartitions]
    def __init__(self, member_id: _Optional[str] = ..., member_epoch: _Optional[int] = ..., previous_member_epoch: _Optional[int] = ..., state: _Optional[int] = ..., assigned_partitions: _Optional[_Iterable[_Union[_common_pb2.TopicPartitions, _Mapping]]] = ...) -> None: ...

class InitializingPartition(_message.Message):
    __slots__ = ("partition", "start_offset", "state_epoch", "state_batches")
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    START_OFFSET_FIELD_NUMBER: _ClassVar[int]
    STATE_EPOCH_FIELD_NUMBER: _ClassVar[int]
    STATE_BATCHES_FIELD_NUMBER: _ClassVar[int]
    partition: int
    start_offset: int
    state_epoch: int
    state_batches: _containers.RepeatedCompositeFieldContainer[_common_pb2.StateBatch]
    def __init__(self, partition: _Optional[int] = ..., start_offset: _Optional[int] = ..., state_epoch: _Optional[int] = ..., state_batches: _Optional[_Iterable[_Union[_common_pb2.StateBatch, _Mapping]]] = ...) -> None: ...

class InitializingTopic(_message.Message):
    __slots__ = ("topic_id", "topic_name", "partitions", "since_ms")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    TOPIC_NAME_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    SINCE_MS_FIELD_NUMBER: _ClassVar[int]
    topic_id: bytes
    topic_name: str
    partitions: _containers.RepeatedCompositeFieldContainer[InitializingPartition]
    since_ms: int
    def __init__(self, topic_id: _Optional[bytes] = ..., topic_name: _Optional[str] = ..., partitions: _Optional[_Iterable[_Union[InitializingPartition, _Mapping]]] = ..., since_ms: _Optional[int] = ...) -> None: ...

class InitializedPartition(_message.Message):
    __slots__ = ("partition", "state_epoch")
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    STATE_EPOCH_FIELD_NUMBER: _ClassVar[int]
    partition: int
    state_epoch: int
    def __init__(self, partition: _Optional[int] = ..., state_epoch: _Optional[int] = ...) -> None: ...

class InitializedTopic(_message.Message):
    __slots__ = ("topic_id", "topic_name", "partitions")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    TOPIC_NAME_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    topic_id: bytes
    topic_name: str
    partitions: _containers.RepeatedCompositeFieldContainer[InitializedPartition]
    def __init__(self, topic_id: _Optional[bytes] = ..., topic_name: _Optional[str] = ..., partitions: _Optional[_Iterable[_Union[InitializedPartition, _Mapping]]] = ...) -> None: ...

class DeletingTopic(_message.Message):
    __slots__ = ("topic_id", "topic_name")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    TOPIC_NAME_FIELD_NUMBER: _ClassVar[int]
    topic_id: bytes
    topic_name: str
    def __init__(self, topic_id: _Optional[bytes] = ..., topic_name: _Optional[str] = ...) -> None: ...

class StatePartitionMetadata(_message.Message):
    __slots__ = ("initializing", "initialized", "deleting")
    INITIALIZING_FIELD_NUMBER: _ClassVar[int]
    INITIALIZED_FIELD_NUMBER: _ClassVar[int]
    DELETING_FIELD_NUMBER: _ClassVar[int]
    initializing: _containers.RepeatedCompositeFieldContainer[InitializingTopic]
    initialized: _containers.RepeatedCompositeFieldContainer[InitializedTopic]
    deleting: _containers.RepeatedCompositeFieldContainer[DeletingTopic]
    def __init__(self, initializing: _Optional[_Iterable[_Union[InitializingTopic, _Mapping]]] = ..., initialized: _Optional[_Iterable[_Union[InitializedTopic, _Mapping]]] = ..., deleting: _Optional[_Iterable[_Union[DeletingTopic, _Mapping]]] = ...) -> None: ...
