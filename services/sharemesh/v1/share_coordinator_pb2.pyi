from sharemesh.v1 import common_pb2 as _common_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class PartitionStateError(_message.Message):
    __slots__ = ("partition", "error_code", "error_message", "known_state_epoch", "keeps_hand_over")
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    ERROR_CODE_FIELD_NUMBER: _ClassVar[int]
    ERROR_MESSAGE_FIELD_NUMBER: _ClassVar[int]
    KNOWN_STATE_EPOCH_FIELD_NUMBER: _ClassVar[int]
    KEEPS_HAND_OVER_FIELD_NUMBER: _ClassVar[int]
    partition: int
    error_code: int
    error_message: str
    known_state_epoch: int
    keeps_hand_over: bool
    def __init__(self, partition: _Optional[int] = ..., error_code: _Optional[int] = ..., error_message: _Optional[str] = ..., known_state_epoch: _Optional[int] = ..., keeps_hand_over: _Optional[bool] = ...) -> None: ...

class HandedOverLock(_message.Message):
    __slots__ = ("member_id", "first_offset", "last_offset", "delivery_count", "remaining_ms", "leader_epoch", "acquired_at_ms", "hand_backs_left", "principal")
    MEMBER_ID_FIELD_NUMBER: _ClassVar[int]
    FIRST_OFFSET_FIELD_NUMBER: _ClassVar[int]
    LAST_OFFSET_FIELD_NUMBER: _ClassVar[int]
    DELIVERY_COUNT_FIELD_NUMBER: _ClassVar[int]
    REMAINING_MS_FIELD_NUMBER: _ClassVar[int]
    LEADER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    ACQUIRED_AT_MS_FIELD_NUMBER: _ClassVar[int]
    HAND_BACKS_LEFT_FIELD_NUMBER: _ClassVar[int]
    PRINCIPAL_FIELD_NUMBER: _ClassVar[int]
    member_id: str
    first_offset: int
    last_offset: int
    delivery_count: int
    remaining_ms: int
    leader_epoch: int
    acquired_at_ms: int
    hand_backs_left: int
    principal: str
    def __init__(self, member_id: _Optional[str] = ..., first_offset: _Optional[int] = ..., last_offset: _Optional[int] = ..., delivery_count: _Optional[int] = ..., remaining_ms: _Optional[int] = ..., leader_epoch: _Optional[int] = ..., acquired_at_ms: _Optional[int] = ..., hand_backs_left: _Optional[int] = ..., principal: _Optional[str] = ...) -> None: ...

class HandOver(_message.Message):
    __slots__ = ("locks",)
    LOCKS_FIELD_NUMBER: _ClassVar[int]
    locks: _containers.RepeatedCompositeFieldContainer[HandedOverLock]
    def __init__(self, locks: _Optional[_Iterable[_Union[HandedOverLock, _Mapping]]] = ...) -> None: ...

class TopicStateErrors(_message.Message):
    __slots__ = ("topic_id", "partitions")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    topic_id: bytes
    partitions: _containers.RepeatedCompositeFieldContainer[PartitionStateError]
    def __init__(self, topic_id: _Optional[bytes] = ..., partitions: _Optional[_Iterable[_Union[PartitionStateError, _Mapping]]] = ...) -> None: ...

class InitializePartitionState(_message.Message):
    __slots__ = ("partition", "state_epoch", "start_offset", "state_batches")
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    STATE_EPOCH_FIELD_NUMBER: _ClassVar[int]
    START_OFFSET_FIELD_NUMBER: _ClassVar[int]
    STATE_BATCHES_FIELD_NUMBER: _ClassVar[int]
    partition: int
    state_epoch: int
    start_offset: int
    state_batches: _containers.RepeatedCompositeFieldContainer[_common_pb2.StateBatch]
    def __init__(self, partition: _Optional[int] = ..., state_epoch: _Optional[int] = ..., start_offset: _Optional[int] = ..., state_batches: _Optional[_Iterable[_Union[_common_pb2.StateBatch, _Mapping]]] = ...) -> None: ...

class InitializeTopicState(_message.Message):
    __slots__ = ("topic_id", "partitions")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    topic_id: bytes
    partitions: _containers.RepeatedCompositeFieldContainer[InitializePartitionState]
    def __init__(self, topic_id: _Optional[bytes] = ..., partitions: _Optional[_Iterable[_Union[InitializePartitionState, _Mapping]]] = ...) -> None: ...

class InitializeShareGroupStateRequest(_message.Message):
    __slots__ = ("group_id", "topics")
    GROUP_ID_FIELD_NUMBER: _ClassVar[int]
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    group_id: str
    topics: _containers.RepeatedCompositeFieldContainer[InitializeTopicState]
    def __init__(self, group_id: _Optional[str] = ..., topics: _Optional[_Iterable[_Union[InitializeTopicState, _Mapping]]] = ...) -> None: ...

class InitializeShareGroupStateResponse(_message.Message):
    __slots__ = ("results",)
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    results: _containers.RepeatedCompositeFieldContainer[TopicStateErrors]
    def __init__(self, results: _Optional[_Iterable[_Union[TopicStateErrors, _Mapping]]] = ...) -> None: ...

class ReadPartitionState(_message.Message):
    __slots__ = ("partition", "leader_epoch", "from_offset", "handing_over_epoch")
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    LEADER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    FROM_OFFSET_FIELD_NUMBER: _ClassVar[int]
    HANDING_OVER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    partition: int
    leader_epoch: int
    from_offset: int
    handing_over_epoch: int
    def __init__(self, partition: _Optional[int] = ..., leader_epoch: _Optional[int] = ..., from_offset: _Optional[int] = ..., handing_over_epoch: _Optional[int] = ...) -> None: ...

class ReadTopicState(_message.Message):
    __slots__ = ("topic_id", "partitions")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    topic_id: bytes
    partitions: _containers.RepeatedCompositeFieldContainer[ReadPartitionState]
    def __init__(self, topic_id: _Optional[bytes] = ..., partitions: _Optional[_Iterable[_Union[ReadPartitionState, _Mapping]]] = ...) -> None: ...

class ReadShareGroupStateRequest(_message.Message):
    __slots__ = ("group_id", "topics")
    GROUP_ID_FIELD_NUMBER: _ClassVar[int]
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    group_id: str
    topics: _containers.RepeatedCompositeFieldContainer[ReadTopicState]
    def __init__(self, group_id: _Optional[str] = ..., topics: _Optional[_Iterable[_Union[ReadTopicState, _Mapping]]] = ...) -> None: ...

class ReadPartitionStateResult(_message.Message):
    __slots__ = ("partition", "error_code", "error_message", "state_epoch", "start_offset", "state_batches", "known_leader_epoch", "packed_batches", "next_offset", "handed_over", "delivery_complete_count")
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    ERROR_CODE_FIELD_NUMBER: _ClassVar[int]
    ERROR_MESSAGE_FIELD_NUMBER: _ClassVar[int]
    STATE_EPOCH_FIELD_NUMBER: _ClassVar[int]
    START_OFFSET_FIELD_NUMBER: _ClassVar[int]
    STATE_BATCHES_FIELD_NUMBER: _ClassVar[int]
    KNOWN_LEADER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    PACKED_BATCHES_FIELD_NUMBER: _ClassVar[int]
    NEXT_OFFSET_FIELD_NUMBER: _ClassVar[int]
    HANDED_OVER_FIELD_NUMBER: _ClassVar[int]
    DELIVERY_COMPLETE_COUNT_FIELD_NUMBER: _ClassVar[int]
    partition: int
    error_code: int
    error_message: str
    state_epoch: int
    start_offset: int
    state_batches: _containers.RepeatedCompositeFieldContainer[_common_pb2.StateBatch]
    known_leader_epoch: int
    packed_batches: _common_pb2.PackedStateBatches
    next_offset: int
    handed_over: _containers.RepeatedCompositeFieldContainer[HandedOverLock]
    delivery_complete_count: int
    def __init__(self, partition: _Optional[int] = ..., error_code: _Optional[int] = ..., error_message: _Optional[str] = ..., state_epoch: _Optional[int] = ..., start_offset: _Optional[int] = ..., state_batches: _Optional[_Iterable[_Union[_common_pb2.StateBatch, _Mapping]]] = ..., known_leader_epoch: _Optional[int] = ..., packed_batches: _Optional[_Union[_common_pb2.PackedStateBatches, _Mapping]] = ..., next_offset: _Optional[int] = ..., handed_over: _Optional[_Iterable[_Union[HandedOverLock, _Mapping]]] = ..., delivery_complete_count: _Optional[int] = ...) -> None: ...

class ReadTopicStateResult(_message.Message):
    __slots__ = ("topic_id", "partitions")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    topic_id: bytes
    partitions: _containers.RepeatedCompositeFieldContainer[ReadPartitionStateResult]
    def __init__(self, topic_id: _Optional[bytes] = ..., partitions: _Optional[_Iterable[_Union[ReadPartitionStateResult, _Mapping]]] = ...) -> None: ...

class ReadShareGroupStateResponse(_message.Message):
    __slots__ = ("results",)
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    results: _containers.RepeatedCompositeFieldContainer[ReadTopicStateResult]
    def __init__(self, results: _Optional[_Iterable[_Union[ReadTopicStateResult, _Mapping]]] = ...) -> None: ...

class WritePartitionState(_message.Message):
    __slots__ = ("partition", "state_epoch", "leader_epoch", "start_offset", "delivery_complete_count", "state_batches", "cause", "member_id", "trace_id", "span_id", "hand_over", "is_recount")
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    STATE_EPOCH_FIELD_NUMBER: _ClassVar[int]
    LEADER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    START_OFFSET_FIELD_NUMBER: _ClassVar[int]
    DELIVERY_COMPLETE_COUNT_FIELD_NUMBER: _ClassVar[int]
    STATE_BATCHES_FIELD_NUMBER: _ClassVar[int]
    CAUSE_FIELD_NUMBER: _ClassVar[int]
    MEMBER_ID_FIELD_NUMBER: _ClassVar[int]
    TRACE_ID_FIELD_NUMBER: _ClassVar[int]
    SPAN_ID_FIELD_NUMBER: _ClassVar[int]
    HAND_OVER_FIELD_NUMBER: _ClassVar[int]
    IS_RECOUNT_FIELD_NUMBER: _ClassVar[int]
    partition: int
    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int
    state_batches: _containers.RepeatedCompositeFieldContainer[_common_pb2.StateBatch]
    cause: int
    member_id: str
    trace_id: bytes
    span_id: bytes
    hand_over: HandOver
    is_recount: bool
    def __init__(self, partition: _Optional[int] = ..., state_epoch: _Optional[int] = ..., leader_epoch: _Optional[int] = ..., start_offset: _Optional[int] = ..., delivery_complete_count: _Optional[int] = ..., state_batches: _Optional[_Iterable[_Union[_common_pb2.StateBatch, _Mapping]]] = ..., cause: _Optional[int] = ..., member_id: _Optional[str] = ..., trace_id: _Optional[bytes] = ..., span_id: _Optional[bytes] = ..., hand_over: _Optional[_Union[HandOver, _Mapping]] = ..., is_recount: _Optional[bool] = ...) -> None: ...

class WriteTopicState(_message.Message):
    __slots__ = ("topic_id", "partitions")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    topic_id: bytes
    partitions: _containers.RepeatedCompositeFieldContainer[WritePartitionState]
    def __init__(self, topic_id: _Optional[bytes] = ..., partitions: _Optional[_Iterable[_Union[WritePartitionState, _Mapping]]] = ...) -> None: ...

class WriteShareGroupStateRequest(_message.Message):
    __slots__ = ("group_id", "topics")
    GROUP_ID_FIELD_NUMBER: _ClassVar[int]
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    group_id: str
    topics: _containers.RepeatedCompositeFieldContainer[WriteTopicState]
    def __init__(self, group_id: _Optional[str] = ..., topics: _Optional[_Iterable[_Union[WriteTopicState, _Mapping]]] = ...) -> None: ...

class WriteShareGroupStateResponse(_message.Message):
    __slots__ = ("results",)
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    results: _containers.RepeatedCompositeFieldContainer[TopicStateErrors]
    def __init__(self, results: _Optional[_Iterable[_Union[TopicStateErrors, _Mapping]]] = ...) -> None: ...

class DeletePartitionState(_message.Message):
    __slots__ = ("partition", "state_epoch")
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    STATE_EPOCH_FIELD_NUMBER: _ClassVar[int]
    partition: int
    state_epoch: int
    def __init__(self, partition: _Optional[int] = ..., state_epoch: _Optional[int] = ...) -> None: ...

class DeleteTopicState(_message.Message):
    __slots__ = ("topic_id", "partitions")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    topic_id: bytes
    partitions: _containers.RepeatedCompositeFieldContainer[DeletePartitionState]
    def __init__(self, topic_id: _Optional[bytes] = ..., partitions: _Optional[_Iterable[_Union[DeletePartitionState, _Mapping]]] = ...) -> None: ...

class DeleteShareGroupStateRequest(_message.Message):
    __slots__ = ("group_id", "topics")
    GROUP_ID_FIELD_NUMBER: _ClassVar[int]
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    group_id: str
    topics: _containers.RepeatedCompositeFieldContainer[DeleteTopicState]
    def __init__(self, group_id: _Optional[str] = ..., topics: _Optional[_Iterable[_Union[DeleteTopicState, _Mapping]]] = ...) -> None: ...

class DeleteShareGroupStateResponse(_message.Message):
    __slots__ = ("results",)
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    results: _containers.RepeatedCompositeFieldContainer[TopicStateErrors]
    def __init__(self, results: _Optional[_Iterable[_Union[TopicStateErrors, _Mapping]]] = ...) -> None: ...

class ReadSummaryPartition(_message.Message):
    __slots__ = ("partition", "leader_epoch")
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    LEADER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    partition: int
    leader_epoch: int
    def __init__(self, partition: _Optional[int] = ..., leader_epoch: _Optional[int] = ...) -> None: ...

class ReadSummaryTopic(_message.Message):
    __slots__ = ("topic_id", "partitions")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    topic_id: bytes
    partitions: _containers.RepeatedCompositeFieldContainer[ReadSummaryPartition]
    def __init__(self, topic_id: _Optional[bytes] = ..., partitions: _Optional[_Iterable[_Union[ReadSummaryPartition, _Mapping]]] = ...) -> None: ...

class ReadShareGroupStateSummaryRequest(_message.Message):
    __slots__ = ("group_id", "topics")
    GROUP_ID_FIELD_NUMBER: _ClassVar[int]
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    group_id: str
    topics: _containers.RepeatedCompositeFieldContainer[ReadSummaryTopic]
    def __init__(self, group_id: _Optional[str] = ..., topics: _Optional[_Iterable[_Union[ReadSummaryTopic, _Mapping]]] = ...) -> None: ...

class ReadSummaryPartitionResult(_message.Message):
    __slots__ = ("partition", "error_code", "error_message", "state_epoch", "leader_epoch", "start_offset", "delivery_complete_count", "archived")
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    ERROR_CODE_FIELD_NUMBER: _ClassVar[int]
    ERROR_MESSAGE_FIELD_NUMBER: _ClassVar[int]
    STATE_EPOCH_FIELD_NUMBER: _ClassVar[int]
    LEADER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    START_OFFSET_FIELD_NUMBER: _ClassVar[int]
    DELIVERY_COMPLETE_COUNT_FIELD_NUMBER: _ClassVar[int]
    ARCHIVED_FIELD_NUMBER: _ClassVar[int]
    partition: int
    error_code: int
    error_message: str
    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int
    archived: _common_pb2.ArchivedCounts
    def __init__(self, partition: _Optional[int] = ..., error_code: _Optional[int] = ..., error_message: _Optional[str] = ..., state_epoch: _Optional[int] = ..., leader_epoch: _Optional[int] = ..., start_offset: _Optional[int] = ..., delivery_complete_count: _Optional[int] = ..., archived: _Optional[_Union[_common_pb2.ArchivedCounts, _Mapping]] = ...) -> None: ...

class ReadSummaryTopicResult(_message.Message):
    __slots__ = ("topic_id", "partitions")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    topic_id: bytes
    partitions: _containers.RepeatedCompositeFieldContainer[ReadSummaryPartitionResult]
    def __init__(self, topic_id: _Optional[bytes] = ..., partitions: _Optional[_Iterable[_Union[ReadSummaryPartitionResult, _Mapping]]] = ...) -> None: ...

class ReadShareGroupStateSummaryResponse(_message.Message):
    __slots__ = ("results",)
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    results: _containers.RepeatedCompositeFieldContainer[ReadSummaryTopicResult]
    def __init__(self, results: _Optional[_Iterable[_Union[ReadSummaryTopicResult, _Mapping]]] = ...) -> None: ...

class ReadHistoryPartition(_message.Message):
    __slots__ = ("partition", "offset", "principal", "leader_epoch")
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    PRINCIPAL_FIELD_NUMBER: _ClassVar[int]
    LEADER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    partition: int
    offset: int
    principal: str
    leader_epoch: int
    def __init__(self, partition: _Optional[int] = ..., offset: _Optional[int] = ..., principal: _Optional[str] = ..., leader_epoch: _Optional[int] = ...) -> None: ...

class ReadHistoryTopic(_message.Message):
    __slots__ = ("topic_id", "partitions")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    topic_id: bytes
    partitions: _containers.RepeatedCompositeFieldContainer[ReadHistoryPartition]
    def __init__(self, topic_id: _Optional[bytes] = ..., partitions: _Optional[_Iterable[_Union[ReadHistoryPartition, _Mapping]]] = ...) -> None: ...

class ReadShareRecordHistoryRequest(_message.Message):
    __slots__ = ("group_id", "topics")
    GROUP_ID_FIELD_NUMBER: _ClassVar[int]
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    group_id: str
    topics: _containers.RepeatedCompositeFieldContainer[ReadHistoryTopic]
    def __init__(self, group_id: _Optional[str] = ..., topics: _Optional[_Iterable[_Union[ReadHistoryTopic, _Mapping]]] = ...) -> None: ...

class ReadHistoryPartitionResult(_message.Message):
    __slots__ = ("partition", "error_code", "error_message", "state_epoch", "start_offset", "delivery_state", "delivery_count", "cause", "events", "events_are_whole", "events_from_ms", "events_problem", "not_before_ms", "handed_over")
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    ERROR_CODE_FIELD_NUMBER: _ClassVar[int]
    ERROR_MESSAGE_FIELD_NUMBER: _ClassVar[int]
    STATE_EPOCH_FIELD_NUMBER: _ClassVar[int]
    START_OFFSET_FIELD_NUMBER: _ClassVar[int]
    DELIVERY_STATE_FIELD_NUMBER: _ClassVar[int]
    DELIVERY_COUNT_FIELD_NUMBER: _ClassVar[int]
    CAUSE_FIELD_NUMBER: _ClassVar[int]
    EVENTS_FIELD_NUMBER: _ClassVar[int]
    EVENTS_ARE_WHOLE_FIELD_NUMBER: _ClassVar[int]
    EVENTS_FROM_MS_FIELD_NUMBER: _ClassVar[int]
    EVENTS_PROBLEM_FIELD_NUMBER: _ClassVar[int]
    NOT_BEFORE_MS_FIELD_NUMBER: _ClassVar[int]
    HANDED_OVER_FIELD_NUMBER: _ClassVar[int]
    partition: int
    error_code: int
    error_message: str
    state_epoch: int
    start_offset: int
    delivery_state: int
    delivery_count: int
    cause: int
    events: _containers.RepeatedCompositeFieldContainer[_common_pb2.RecordEvent]
    events_are_whole: bool
    events_from_ms: int
    events_problem: str
    not_before_ms: int
    handed_over: HandedOverLock
    def __init__(self, partition: _Optional[int] = ..., error_code: _Optional[int] = ..., error_message: _Optional[str] = ..., state_epoch: _Optional[int] = ..., start_offset: _Optional[int] = ..., delivery_state: _Optional[int] = ..., delivery_count: _Optional[int] = ..., cause: _Optional[int] = ..., events: _Optional[_Iterable[_Union[_common_pb2.RecordEvent, _Mapping]]] = ..., events_are_whole: _Optional[bool] = ..., events_from_ms: _Optional[int] = ..., events_problem: _Optional[str] = ..., not_before_ms: _Optional[int] = ..., handed_over: _Optional[_Union[HandedOverLock, _Mapping]] = ...) -> None: ...

class ReadHistoryTopicResult(_message.Message):
    __slots__ = ("topic_id", "partitions")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    topic_id: bytes
    partitions: _containers.RepeatedCompositeFieldContainer[ReadHistoryPartitionResult]
    def __init__(self, topic_id: _Optional[bytes] = ..., partitions: _Optional[_Iterable[_Union[ReadHistoryPartitionResult, _Mapping]]] = ...) -> None: ...

class ReadShareRecordHistoryResponse(_message.Message):
    __slots__ = ("results",)
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    results: _containers.RepeatedCompositeFieldContainer[ReadHistoryTopicResult]
    def __init__(self, results: _Optional[_Iterable[_Union[ReadHistoryTopicResult, _Mapping]]] = ...) -> None: ...

class CommitGenerationRequest(_message.Message):
    __slots__ = ("shard", "generation_id", "previous_generation_id", "end_offset", "path", "content_hash", "format_version", "history_end_offset")
    SHARD_FIELD_NUMBER: _ClassVar[int]
    GENERATION_ID_FIELD_NUMBER: _ClassVar[int]
    PREVIOUS_GENERATION_ID_FIELD_NUMBER: _ClassVar[int]
    END_OFFSET_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    CONTENT_HASH_FIELD_NUMBER: _ClassVar[int]
    FORMAT_VERSION_FIELD_NUMBER: _ClassVar[int]
    HISTORY_END_OFFSET_FIELD_NUMBER: _ClassVar[int]
    shard: int
    generation_id: str
    previous_generation_id: str
    end_offset: int
    path: str
    content_hash: bytes
    format_version: int
    history_end_offset: int
    def __init__(self, shard: _Optional[int] = ..., generation_id: _Optional[str] = ..., previous_generation_id: _Optional[str] = ..., end_offset: _Optional[int] = ..., path: _Optional[str] = ..., content_hash: _Optional[bytes] = ..., format_version: _Optional[int] = ..., history_end_offset: _Optional[int] = ...) -> None: ...

class CommitGenerationResponse(_message.Message):
    __slots__ = ("error_code", "error_message")
    ERROR_CODE_FIELD_NUMBER: _ClassVar[int]
    ERROR_MESSAGE_FIELD_NUMBER: _ClassVar[int]
    error_code: int
    error_message: str
    def __init__(self, error_code: _Optional[int] = ..., error_message: _Optional[str] = ...) -> None: ...
