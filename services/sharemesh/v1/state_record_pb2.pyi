from sharemesh.v1 import common_pb2 as _common_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ShareStateRecord(_message.Message):
    __slots__ = ("kind", "group_id", "topic_id", "partition", "snapshot_epoch", "state_epoch", "leader_epoch", "start_offset", "delivery_complete_count", "create_timestamp_ms", "write_timestamp_ms", "state_batches", "cause", "member_id", "trace_id", "span_id", "format_version", "generation", "state_epoch_floor", "leader_epoch_floor", "leader_epoch_max", "changed_batches", "initial_start_offset", "archived")
    class Kind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        KIND_UNSPECIFIED: _ClassVar[ShareStateRecord.Kind]
        KIND_SNAPSHOT: _ClassVar[ShareStateRecord.Kind]
        KIND_UPDATE: _ClassVar[ShareStateRecord.Kind]
        KIND_TOMBSTONE: _ClassVar[ShareStateRecord.Kind]
        KIND_GENERATION: _ClassVar[ShareStateRecord.Kind]
        KIND_EPOCH_FLOOR: _ClassVar[ShareStateRecord.Kind]
    KIND_UNSPECIFIED: ShareStateRecord.Kind
    KIND_SNAPSHOT: ShareStateRecord.Kind
    KIND_UPDATE: ShareStateRecord.Kind
    KIND_TOMBSTONE: ShareStateRecord.Kind
    KIND_GENERATION: ShareStateRecord.Kind
    KIND_EPOCH_FLOOR: ShareStateRecord.Kind
    KIND_FIELD_NUMBER: _ClassVar[int]
    GROUP_ID_FIELD_NUMBER: _ClassVar[int]
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_EPOCH_FIELD_NUMBER: _ClassVar[int]
    STATE_EPOCH_FIELD_NUMBER: _ClassVar[int]
    LEADER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    START_OFFSET_FIELD_NUMBER: _ClassVar[int]
    DELIVERY_COMPLETE_COUNT_FIELD_NUMBER: _ClassVar[int]
    CREATE_TIMESTAMP_MS_FIELD_NUMBER: _ClassVar[int]
    WRITE_TIMESTAMP_MS_FIELD_NUMBER: _ClassVar[int]
    STATE_BATCHES_FIELD_NUMBER: _ClassVar[int]
    CAUSE_FIELD_NUMBER: _ClassVar[int]
    MEMBER_ID_FIELD_NUMBER: _ClassVar[int]
    TRACE_ID_FIELD_NUMBER: _ClassVar[int]
    SPAN_ID_FIELD_NUMBER: _ClassVar[int]
    FORMAT_VERSION_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    STATE_EPOCH_FLOOR_FIELD_NUMBER: _ClassVar[int]
    LEADER_EPOCH_FLOOR_FIELD_NUMBER: _ClassVar[int]
    LEADER_EPOCH_MAX_FIELD_NUMBER: _ClassVar[int]
    CHANGED_BATCHES_FIELD_NUMBER: _ClassVar[int]
    INITIAL_START_OFFSET_FIELD_NUMBER: _ClassVar[int]
    ARCHIVED_FIELD_NUMBER: _ClassVar[int]
    kind: ShareStateRecord.Kind
    group_id: str
    topic_id: bytes
    partition: int
    snapshot_epoch: int
    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int
    create_timestamp_ms: int
    write_timestamp_ms: int
    state_batches: _containers.RepeatedCompositeFieldContainer[_common_pb2.StateBatch]
    cause: int
    member_id: str
    trace_id: bytes
    span_id: bytes
    format_version: int
    generation: GenerationPointer
    state_epoch_floor: int
    leader_epoch_floor: int
    leader_epoch_max: int
    changed_batches: _containers.RepeatedCompositeFieldContainer[_common_pb2.StateBatch]
    initial_start_offset: int
    archived: _common_pb2.ArchivedCounts
    def __init__(self, kind: _Optional[_Union[ShareStateRecord.Kind, str]] = ..., group_id: _Optional[str] = ..., topic_id: _Optional[bytes] = ..., partition: _Optional[int] = ..., snapshot_epoch: _Optional[int] = ..., state_epoch: _Optional[int] = ..., leader_epoch: _Optional[int] = ..., start_offset: _Optional[int] = ..., delivery_complete_count: _Optional[int] = ..., create_timestamp_ms: _Optional[int] = ..., write_timestamp_ms: _Optional[int] = ..., state_batches: _Optional[_Iterable[_Union[_common_pb2.StateBatch, _Mapping]]] = ..., cause: _Optional[int] = ..., member_id: _Optional[str] = ..., trace_id: _Optional[bytes] = ..., span_id: _Optional[bytes] = ..., format_version: _Optional[int] = ..., generation: _Optional[_Union[GenerationPointer, _Mapping]] = ..., state_epoch_floor: _Optional[int] = ..., leader_epoch_floor: _Optional[int] = ..., leader_epoch_max: _Optional[int] = ..., changed_batches: _Optional[_Iterable[_Union[_common_pb2.StateBatch, _Mapping]]] = ..., initial_start_offset: _Optional[int] = ..., archived: _Optional[_Union[_common_pb2.ArchivedCounts, _Mapping]] = ...) -> None: ...

class ShareStatePart(_message.Message):
    __slots__ = ("snapshot", "made_ms", "part", "parts", "batches")
    SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    MADE_MS_FIELD_NUMBER: _ClassVar[int]
    PART_FIELD_NUMBER: _ClassVar[int]
    PARTS_FIELD_NUMBER: _ClassVar[int]
    BATCHES_FIELD_NUMBER: _ClassVar[int]
    snapshot: ShareStateRecord
    made_ms: int
    part: int
    parts: int
    batches: _common_pb2.PackedStateBatches
    def __init__(self, snapshot: _Optional[_Union[ShareStateRecord, _Mapping]] = ..., made_ms: _Optional[int] = ..., part: _Optional[int] = ..., parts: _Optional[int] = ..., batches: _Optional[_Union[_common_pb2.PackedStateBatches, _Mapping]] = ...) -> None: ...

class GenerationPointer(_message.Message):
    __slots__ = ("generation_id", "previous_generation_id", "end_offset", "path", "content_hash", "format_version", "history_end_offset")
    GENERATION_ID_FIELD_NUMBER: _ClassVar[int]
    PREVIOUS_GENERATION_ID_FIELD_NUMBER: _ClassVar[int]
    END_OFFSET_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    CONTENT_HASH_FIELD_NUMBER: _ClassVar[int]
    FORMAT_VERSION_FIELD_NUMBER: _ClassVar[int]
    HISTORY_END_OFFSET_FIELD_NUMBER: _ClassVar[int]
    generation_id: str
    previous_generation_id: str
    end_offset: int
    path: str
    content_hash: bytes
    format_version: int
    history_end_offset: int
    def __init__(self, generation_id: _Optional[str] = ..., previous_generation_id: _Optional[str] = ..., end_offset: _Optional[int] = ..., path: _Optional[str] = ..., content_hash: _Optional[bytes] = ..., format_version: _Optional[int] = ..., history_end_offset: _Optional[int] = ...) -> None: ...
