from sharemesh.v1 import common_pb2 as _common_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class RecordFormat(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    RECORD_FORMAT_UNSPECIFIED: _ClassVar[RecordFormat]
    RECORD_FORMAT_DECODED: _ClassVar[RecordFormat]
RECORD_FORMAT_UNSPECIFIED: RecordFormat
RECORD_FORMAT_DECODED: RecordFormat

class AcknowledgementBatch(_message.Message):
    __slots__ = ("first_offset", "last_offset", "acknowledge_types", "uncounted", "delivery_count", "release_delay_ms")
    FIRST_OFFSET_FIELD_NUMBER: _ClassVar[int]
    LAST_OFFSET_FIELD_NUMBER: _ClassVar[int]
    ACKNOWLEDGE_TYPES_FIELD_NUMBER: _ClassVar[int]
    UNCOUNTED_FIELD_NUMBER: _ClassVar[int]
    DELIVERY_COUNT_FIELD_NUMBER: _ClassVar[int]
    RELEASE_DELAY_MS_FIELD_NUMBER: _ClassVar[int]
    first_offset: int
    last_offset: int
    acknowledge_types: _containers.RepeatedScalarFieldContainer[int]
    uncounted: bool
    delivery_count: int
    release_delay_ms: int
    def __init__(self, first_offset: _Optional[int] = ..., last_offset: _Optional[int] = ..., acknowledge_types: _Optional[_Iterable[int]] = ..., uncounted: _Optional[bool] = ..., delivery_count: _Optional[int] = ..., release_delay_ms: _Optional[int] = ...) -> None: ...

class AcknowledgePartition(_message.Message):
    __slots__ = ("partition", "acknowledgement_batches", "leader_epoch")
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    ACKNOWLEDGEMENT_BATCHES_FIELD_NUMBER: _ClassVar[int]
    LEADER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    partition: int
    acknowledgement_batches: _containers.RepeatedCompositeFieldContainer[AcknowledgementBatch]
    leader_epoch: int
    def __init__(self, partition: _Optional[int] = ..., acknowledgement_batches: _Optional[_Iterable[_Union[AcknowledgementBatch, _Mapping]]] = ..., leader_epoch: _Optional[int] = ...) -> None: ...

class AcknowledgeTopic(_message.Message):
    __slots__ = ("topic_id", "partitions")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    topic_id: bytes
    partitions: _containers.RepeatedCompositeFieldContainer[AcknowledgePartition]
    def __init__(self, topic_id: _Optional[bytes] = ..., partitions: _Optional[_Iterable[_Union[AcknowledgePartition, _Mapping]]] = ...) -> None: ...

class ShareFetchRequest(_message.Message):
    __slots__ = ("group_id", "member_id", "share_session_epoch", "max_wait_ms", "min_bytes", "max_bytes", "max_records", "batch_size", "share_acquire_mode", "is_renew_ack", "topics", "forgotten_topics_data", "version", "record_format")
    GROUP_ID_FIELD_NUMBER: _ClassVar[int]
    MEMBER_ID_FIELD_NUMBER: _ClassVar[int]
    SHARE_SESSION_EPOCH_FIELD_NUMBER: _ClassVar[int]
    MAX_WAIT_MS_FIELD_NUMBER: _ClassVar[int]
    MIN_BYTES_FIELD_NUMBER: _ClassVar[int]
    MAX_BYTES_FIELD_NUMBER: _ClassVar[int]
    MAX_RECORDS_FIELD_NUMBER: _ClassVar[int]
    BATCH_SIZE_FIELD_NUMBER: _ClassVar[int]
    SHARE_ACQUIRE_MODE_FIELD_NUMBER: _ClassVar[int]
    IS_RENEW_ACK_FIELD_NUMBER: _ClassVar[int]
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    FORGOTTEN_TOPICS_DATA_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    RECORD_FORMAT_FIELD_NUMBER: _ClassVar[int]
    group_id: str
    member_id: str
    share_session_epoch: int
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    max_records: int
    batch_size: int
    share_acquire_mode: int
    is_renew_ack: bool
    topics: _containers.RepeatedCompositeFieldContainer[AcknowledgeTopic]
    forgotten_topics_data: _containers.RepeatedCompositeFieldContainer[_common_pb2.TopicPartitions]
    version: int
    record_format: RecordFormat
    def __init__(self, group_id: _Optional[str] = ..., member_id: _Optional[str] = ..., share_session_epoch: _Optional[int] = ..., max_wait_ms: _Optional[int] = ..., min_bytes: _Optional[int] = ..., max_bytes: _Optional[int] = ..., max_records: _Optional[int] = ..., batch_size: _Optional[int] = ..., share_acquire_mode: _Optional[int] = ..., is_renew_ack: _Optional[bool] = ..., topics: _Optional[_Iterable[_Union[AcknowledgeTopic, _Mapping]]] = ..., forgotten_topics_data: _Optional[_Iterable[_Union[_common_pb2.TopicPartitions, _Mapping]]] = ..., version: _Optional[int] = ..., record_format: _Optional[_Union[RecordFormat, str]] = ...) -> None: ...

class AcquiredRecords(_message.Message):
    __slots__ = ("first_offset", "last_offset", "delivery_count")
    FIRST_OFFSET_FIELD_NUMBER: _ClassVar[int]
    LAST_OFFSET_FIELD_NUMBER: _ClassVar[int]
    DELIVERY_COUNT_FIELD_NUMBER: _ClassVar[int]
    first_offset: int
    last_offset: int
    delivery_count: int
    def __init__(self, first_offset: _Optional[int] = ..., last_offset: _Optional[int] = ..., delivery_count: _Optional[int] = ...) -> None: ...

class UndecodableOffsets(_message.Message):
    __slots__ = ("first_offset", "last_offset")
    FIRST_OFFSET_FIELD_NUMBER: _ClassVar[int]
    LAST_OFFSET_FIELD_NUMBER: _ClassVar[int]
    first_offset: int
    last_offset: int
    def __init__(self, first_offset: _Optional[int] = ..., last_offset: _Optional[int] = ...) -> None: ...

class ShareFetchPartition(_message.Message):
    __slots__ = ("partition", "error_code", "error_message", "acknowledge_error_code", "acknowledge_error_message", "current_leader", "records", "acquired_records", "leader_epoch", "decoded_records", "undecodable", "state_epoch", "acquisition_number")
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    ERROR_CODE_FIELD_NUMBER: _ClassVar[int]
    ERROR_MESSAGE_FIELD_NUMBER: _ClassVar[int]
    ACKNOWLEDGE_ERROR_CODE_FIELD_NUMBER: _ClassVar[int]
    ACKNOWLEDGE_ERROR_MESSAGE_FIELD_NUMBER: _ClassVar[int]
    CURRENT_LEADER_FIELD_NUMBER: _ClassVar[int]
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    ACQUIRED_RECORDS_FIELD_NUMBER: _ClassVar[int]
    LEADER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    DECODED_RECORDS_FIELD_NUMBER: _ClassVar[int]
    UNDECODABLE_FIELD_NUMBER: _ClassVar[int]
    STATE_EPOCH_FIELD_NUMBER: _ClassVar[int]
    ACQUISITION_NUMBER_FIELD_NUMBER: _ClassVar[int]
    partition: int
    error_code: int
    error_message: str
    acknowledge_error_code: int
    acknowledge_error_message: str
    current_leader: _common_pb2.CurrentLeader
    records: bytes
    acquired_records: _containers.RepeatedCompositeFieldContainer[AcquiredRecords]
    leader_epoch: int
    decoded_records: _containers.RepeatedCompositeFieldContainer[_common_pb2.DecodedRecord]
    undecodable: _containers.RepeatedCompositeFieldContainer[UndecodableOffsets]
    state_epoch: int
    acquisition_number: int
    def __init__(self, partition: _Optional[int] = ..., error_code: _Optional[int] = ..., error_message: _Optional[str] = ..., acknowledge_error_code: _Optional[int] = ..., acknowledge_error_message: _Optional[str] = ..., current_leader: _Optional[_Union[_common_pb2.CurrentLeader, _Mapping]] = ..., records: _Optional[bytes] = ..., acquired_records: _Optional[_Iterable[_Union[AcquiredRecords, _Mapping]]] = ..., leader_epoch: _Optional[int] = ..., decoded_records: _Optional[_Iterable[_Union[_common_pb2.DecodedRecord, _Mapping]]] = ..., undecodable: _Optional[_Iterable[_Union[UndecodableOffsets, _Mapping]]] = ..., state_epoch: _Optional[int] = ..., acquisition_number: _Optional[int] = ...) -> None: ...

class ShareFetchTopic(_message.Message):
    __slots__ = ("topic_id", "partitions")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    topic_id: bytes
    partitions: _containers.RepeatedCompositeFieldContainer[ShareFetchPartition]
    def __init__(self, topic_id: _Optional[bytes] = ..., partitions: _Optional[_Iterable[_Union[ShareFetchPartition, _Mapping]]] = ...) -> None: ...

class ShareFetchResponse(_message.Message):
    __slots__ = ("throttle_time_ms", "error_code", "error_message", "acquisition_lock_timeout_ms", "responses", "node_endpoints")
    THROTTLE_TIME_MS_FIELD_NUMBER: _ClassVar[int]
    ERROR_CODE_FIELD_NUMBER: _ClassVar[int]
    ERROR_MESSAGE_FIELD_NUMBER: _ClassVar[int]
    ACQUISITION_LOCK_TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    RESPONSES_FIELD_NUMBER: _ClassVar[int]
    NODE_ENDPOINTS_FIELD_NUMBER: _ClassVar[int]
    throttle_time_ms: int
    error_code: int
    error_message: str
    acquisition_lock_timeout_ms: int
    responses: _containers.RepeatedCompositeFieldContainer[ShareFetchTopic]
    node_endpoints: _containers.RepeatedCompositeFieldContainer[_common_pb2.Node]
    def __init__(self, throttle_time_ms: _Optional[int] = ..., error_code: _Optional[int] = ..., error_message: _Optional[str] = ..., acquisition_lock_timeout_ms: _Optional[int] = ..., responses: _Optional[_Iterable[_Union[ShareFetchTopic, _Mapping]]] = ..., node_endpoints: _Optional[_Iterable[_Union[_common_pb2.Node, _Mapping]]] = ...) -> None: ...

class ShareAcknowledgeRequest(_message.Message):
    __slots__ = ("group_id", "member_id", "share_session_epoch", "is_renew_ack", "topics", "version")
    GROUP_ID_FIELD_NUMBER: _ClassVar[int]
    MEMBER_ID_FIELD_NUMBER: _ClassVar[int]
    SHARE_SESSION_EPOCH_FIELD_NUMBER: _ClassVar[int]
    IS_RENEW_ACK_FIELD_NUMBER: _ClassVar[int]
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    group_id: str
    member_id: str
    share_session_epoch: int
    is_renew_ack: bool
    topics: _containers.RepeatedCompositeFieldContainer[AcknowledgeTopic]
    version: int
    def __init__(self, group_id: _Optional[str] = ..., member_id: _Optional[str] = ..., share_session_epoch: _Optional[int] = ..., is_renew_ack: _Optional[bool] = ..., topics: _Optional[_Iterable[_Union[AcknowledgeTopic, _Mapping]]] = ..., version: _Optional[int] = ...) -> None: ...

class ShareAcknowledgePartition(_message.Message):
    __slots__ = ("partition", "error_code", "error_message", "current_leader")
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    ERROR_CODE_FIELD_NUMBER: _ClassVar[int]
    ERROR_MESSAGE_FIELD_NUMBER: _ClassVar[int]
    CURRENT_LEADER_FIELD_NUMBER: _ClassVar[int]
    partition: int
    error_code: int
    error_message: str
    current_leader: _common_pb2.CurrentLeader
    def __init__(self, partition: _Optional[int] = ..., error_code: _Optional[int] = ..., error_message: _Optional[str] = ..., current_leader: _Optional[_Union[_common_pb2.CurrentLeader, _Mapping]] = ...) -> None: ...

class ShareAcknowledgeTopic(_message.Message):
    __slots__ = ("topic_id", "partitions")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    topic_id: bytes
    partitions: _containers.RepeatedCompositeFieldContainer[ShareAcknowledgePartition]
    def __init__(self, topic_id: _Optional[bytes] = ..., partitions: _Optional[_Iterable[_Union[ShareAcknowledgePartition, _Mapping]]] = ...) -> None: ...

class ShareAcknowledgeResponse(_message.Message):
    __slots__ = ("throttle_time_ms", "error_code", "error_message", "acquisition_lock_timeout_ms", "responses", "node_endpoints")
    THROTTLE_TIME_MS_FIELD_NUMBER: _ClassVar[int]
    ERROR_CODE_FIELD_NUMBER: _ClassVar[int]
    ERROR_MESSAGE_FIELD_NUMBER: _ClassVar[int]
    ACQUISITION_LOCK_TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    RESPONSES_FIELD_NUMBER: _ClassVar[int]
    NODE_ENDPOINTS_FIELD_NUMBER: _ClassVar[int]
    throttle_time_ms: int
    error_code: int
    error_message: str
    acquisition_lock_timeout_ms: int
    responses: _containers.RepeatedCompositeFieldContainer[ShareAcknowledgeTopic]
    node_endpoints: _containers.RepeatedCompositeFieldContainer[_common_pb2.Node]
    def __init__(self, throttle_time_ms: _Optional[int] = ..., error_code: _Optional[int] = ..., error_message: _Optional[str] = ..., acquisition_lock_timeout_ms: _Optional[int] = ..., responses: _Optional[_Iterable[_Union[ShareAcknowledgeTopic, _Mapping]]] = ..., node_endpoints: _Optional[_Iterable[_Union[_common_pb2.Node, _Mapping]]] = ...) -> None: ...

class ConsumeStart(_message.Message):
    __slots__ = ("group_id", "member_id", "share_acquire_mode", "batch_size", "max_records", "min_bytes", "max_wait_ms", "record_format", "follows_hand_over")
    GROUP_ID_FIELD_NUMBER: _ClassVar[int]
    MEMBER_ID_FIELD_NUMBER: _ClassVar[int]
    SHARE_ACQUIRE_MODE_FIELD_NUMBER: _ClassVar[int]
    BATCH_SIZE_FIELD_NUMBER: _ClassVar[int]
    MAX_RECORDS_FIELD_NUMBER: _ClassVar[int]
    MIN_BYTES_FIELD_NUMBER: _ClassVar[int]
    MAX_WAIT_MS_FIELD_NUMBER: _ClassVar[int]
    RECORD_FORMAT_FIELD_NUMBER: _ClassVar[int]
    FOLLOWS_HAND_OVER_FIELD_NUMBER: _ClassVar[int]
    group_id: str
    member_id: str
    share_acquire_mode: int
    batch_size: int
    max_records: int
    min_bytes: int
    max_wait_ms: int
    record_format: RecordFormat
    follows_hand_over: bool
    def __init__(self, group_id: _Optional[str] = ..., member_id: _Optional[str] = ..., share_acquire_mode: _Optional[int] = ..., batch_size: _Optional[int] = ..., max_records: _Optional[int] = ..., min_bytes: _Optional[int] = ..., max_wait_ms: _Optional[int] = ..., record_format: _Optional[_Union[RecordFormat, str]] = ..., follows_hand_over: _Optional[bool] = ...) -> None: ...

class ConsumeAcknowledge(_message.Message):
    __slots__ = ("acknowledge_id", "is_renew_ack", "topics")
    ACKNOWLEDGE_ID_FIELD_NUMBER: _ClassVar[int]
    IS_RENEW_ACK_FIELD_NUMBER: _ClassVar[int]
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    acknowledge_id: int
    is_renew_ack: bool
    topics: _containers.RepeatedCompositeFieldContainer[AcknowledgeTopic]
    def __init__(self, acknowledge_id: _Optional[int] = ..., is_renew_ack: _Optional[bool] = ..., topics: _Optional[_Iterable[_Union[AcknowledgeTopic, _Mapping]]] = ...) -> None: ...

class ConsumeRequest(_message.Message):
    __slots__ = ("start", "add", "forget", "credit_records", "credit_bytes", "acknowledgements", "close", "share_acquire_mode", "echo_id")
    START_FIELD_NUMBER: _ClassVar[int]
    ADD_FIELD_NUMBER: _ClassVar[int]
    FORGET_FIELD_NUMBER: _ClassVar[int]
    CREDIT_RECORDS_FIELD_NUMBER: _ClassVar[int]
    CREDIT_BYTES_FIELD_NUMBER: _ClassVar[int]
    ACKNOWLEDGEMENTS_FIELD_NUMBER: _ClassVar[int]
    CLOSE_FIELD_NUMBER: _ClassVar[int]
    SHARE_ACQUIRE_MODE_FIELD_NUMBER: _ClassVar[int]
    ECHO_ID_FIELD_NUMBER: _ClassVar[int]
    start: ConsumeStart
    add: _containers.RepeatedCompositeFieldContainer[_common_pb2.TopicPartitions]
    forget: _containers.RepeatedCompositeFieldContainer[_common_pb2.TopicPartitions]
    credit_records: int
    credit_bytes: int
    acknowledgements: _containers.RepeatedCompositeFieldContainer[ConsumeAcknowledge]
    close: bool
    share_acquire_mode: int
    echo_id: int
    def __init__(self, start: _Optional[_Union[ConsumeStart, _Mapping]] = ..., add: _Optional[_Iterable[_Union[_common_pb2.TopicPartitions, _Mapping]]] = ..., forget: _Optional[_Iterable[_Union[_common_pb2.TopicPartitions, _Mapping]]] = ..., credit_records: _Optional[int] = ..., credit_bytes: _Optional[int] = ..., acknowledgements: _Optional[_Iterable[_Union[ConsumeAcknowledge, _Mapping]]] = ..., close: _Optional[bool] = ..., share_acquire_mode: _Optional[int] = ..., echo_id: _Optional[int] = ...) -> None: ...

class ConsumeAcknowledged(_message.Message):
    __slots__ = ("acknowledge_id", "topics")
    ACKNOWLEDGE_ID_FIELD_NUMBER: _ClassVar[int]
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    acknowledge_id: int
    topics: _containers.RepeatedCompositeFieldContainer[ShareAcknowledgeTopic]
    def __init__(self, acknowledge_id: _Optional[int] = ..., topics: _Optional[_Iterable[_Union[ShareAcknowledgeTopic, _Mapping]]] = ...) -> None: ...

class ConsumeResponse(_message.Message):
    __slots__ = ("error_code", "error_message", "acquisition_lock_timeout_ms", "responses", "acknowledged", "draining", "node_endpoints", "next_leaders", "throttle_time_ms", "handed_over", "echo_id")
    ERROR_CODE_FIELD_NUMBER: _ClassVar[int]
    ERROR_MESSAGE_FIELD_NUMBER: _ClassVar[int]
    ACQUISITION_LOCK_TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    RESPONSES_FIELD_NUMBER: _ClassVar[int]
    ACKNOWLEDGED_FIELD_NUMBER: _ClassVar[int]
    DRAINING_FIELD_NUMBER: _ClassVar[int]
    NODE_ENDPOINTS_FIELD_NUMBER: _ClassVar[int]
    NEXT_LEADERS_FIELD_NUMBER: _ClassVar[int]
    THROTTLE_TIME_MS_FIELD_NUMBER: _ClassVar[int]
    HANDED_OVER_FIELD_NUMBER: _ClassVar[int]
    ECHO_ID_FIELD_NUMBER: _ClassVar[int]
    error_code: int
    error_message: str
    acquisition_lock_timeout_ms: int
    responses: _containers.RepeatedCompositeFieldContainer[ShareFetchTopic]
    acknowledged: _containers.RepeatedCompositeFieldContainer[ConsumeAcknowledged]
    draining: _containers.RepeatedCompositeFieldContainer[_common_pb2.TopicPartitions]
    node_endpoints: _containers.RepeatedCompositeFieldContainer[_common_pb2.Node]
    next_leaders: _containers.RepeatedCompositeFieldContainer[NextLeader]
    throttle_time_ms: int
    handed_over: _containers.RepeatedCompositeFieldContainer[HandedOverPartition]
    echo_id: int
    def __init__(self, error_code: _Optional[int] = ..., error_message: _Optional[str] = ..., acquisition_lock_timeout_ms: _Optional[int] = ..., responses: _Optional[_Iterable[_Union[ShareFetchTopic, _Mapping]]] = ..., acknowledged: _Optional[_Iterable[_Union[ConsumeAcknowledged, _Mapping]]] = ..., draining: _Optional[_Iterable[_Union[_common_pb2.TopicPartitions, _Mapping]]] = ..., node_endpoints: _Optional[_Iterable[_Union[_common_pb2.Node, _Mapping]]] = ..., next_leaders: _Optional[_Iterable[_Union[NextLeader, _Mapping]]] = ..., throttle_time_ms: _Optional[int] = ..., handed_over: _Optional[_Iterable[_Union[HandedOverPartition, _Mapping]]] = ..., echo_id: _Optional[int] = ...) -> None: ...

class HandedOverPartition(_message.Message):
    __slots__ = ("topic_id", "partition", "leader_epoch")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    LEADER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    topic_id: bytes
    partition: int
    leader_epoch: int
    def __init__(self, topic_id: _Optional[bytes] = ..., partition: _Optional[int] = ..., leader_epoch: _Optional[int] = ...) -> None: ...

class NextLeader(_message.Message):
    __slots__ = ("topic_id", "partition", "node_id")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    topic_id: bytes
    partition: int
    node_id: str
    def __init__(self, topic_id: _Optional[bytes] = ..., partition: _Optional[int] = ..., node_id: _Optional[str] = ...) -> None: ...

class HoldSessionRequest(_message.Message):
    __slots__ = ("group_id", "member_id")
    GROUP_ID_FIELD_NUMBER: _ClassVar[int]
    MEMBER_ID_FIELD_NUMBER: _ClassVar[int]
    group_id: str
    member_id: str
    def __init__(self, group_id: _Optional[str] = ..., member_id: _Optional[str] = ...) -> None: ...

class HoldSessionResponse(_message.Message):
    __slots__ = ("error_code", "error_message", "draining")
    ERROR_CODE_FIELD_NUMBER: _ClassVar[int]
    ERROR_MESSAGE_FIELD_NUMBER: _ClassVar[int]
    DRAINING_FIELD_NUMBER: _ClassVar[int]
    error_code: int
    error_message: str
    draining: _containers.RepeatedCompositeFieldContainer[_common_pb2.TopicPartitions]
    def __init__(self, error_code: _Optional[int] = ..., error_message: _Optional[str] = ..., draining: _Optional[_Iterable[_Union[_common_pb2.TopicPartitions, _Mapping]]] = ...) -> None: ...

class ExplainRequest(_message.Message):
    __slots__ = ("group_id", "topic_name", "partition", "offset")
    GROUP_ID_FIELD_NUMBER: _ClassVar[int]
    TOPIC_NAME_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    group_id: str
    topic_name: str
    partition: int
    offset: int
    def __init__(self, group_id: _Optional[str] = ..., topic_name: _Optional[str] = ..., partition: _Optional[int] = ..., offset: _Optional[int] = ...) -> None: ...

class ExplainResponse(_message.Message):
    __slots__ = ("error_code", "error_message", "delivery_state", "member_id", "lock_remaining_ms", "delivery_count", "reason", "explanation", "start_offset", "end_offset", "next_fetch_offset", "high_watermark", "leader_epoch", "state_epoch", "last_cause", "trace_id", "span_id", "events", "events_note", "events_from_ms", "delay_remaining_ms", "throttle_time_ms")
    ERROR_CODE_FIELD_NUMBER: _ClassVar[int]
    ERROR_MESSAGE_FIELD_NUMBER: _ClassVar[int]
    DELIVERY_STATE_FIELD_NUMBER: _ClassVar[int]
    MEMBER_ID_FIELD_NUMBER: _ClassVar[int]
    LOCK_REMAINING_MS_FIELD_NUMBER: _ClassVar[int]
    DELIVERY_COUNT_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    EXPLANATION_FIELD_NUMBER: _ClassVar[int]
    START_OFFSET_FIELD_NUMBER: _ClassVar[int]
    END_OFFSET_FIELD_NUMBER: _ClassVar[int]
    NEXT_FETCH_OFFSET_FIELD_NUMBER: _ClassVar[int]
    HIGH_WATERMARK_FIELD_NUMBER: _ClassVar[int]
    LEADER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    STATE_EPOCH_FIELD_NUMBER: _ClassVar[int]
    LAST_CAUSE_FIELD_NUMBER: _ClassVar[int]
    TRACE_ID_FIELD_NUMBER: _ClassVar[int]
    SPAN_ID_FIELD_NUMBER: _ClassVar[int]
    EVENTS_FIELD_NUMBER: _ClassVar[int]
    EVENTS_NOTE_FIELD_NUMBER: _ClassVar[int]
    EVENTS_FROM_MS_FIELD_NUMBER: _ClassVar[int]
    DELAY_REMAINING_MS_FIELD_NUMBER: _ClassVar[int]
    THROTTLE_TIME_MS_FIELD_NUMBER: _ClassVar[int]
    error_code: int
    error_message: str
    delivery_state: str
    member_id: str
    lock_remaining_ms: int
    delivery_count: int
    reason: str
    explanation: str
    start_offset: int
    end_offset: int
    next_fetch_offset: int
    high_watermark: int
    leader_epoch: int
    state_epoch: int
    last_cause: str
    trace_id: bytes
    span_id: bytes
    events: _containers.RepeatedCompositeFieldContainer[_common_pb2.RecordEvent]
    events_note: str
    events_from_ms: int
    delay_remaining_ms: int
    throttle_time_ms: int
    def __init__(self, error_code: _Optional[int] = ..., error_message: _Optional[str] = ..., delivery_state: _Optional[str] = ..., member_id: _Optional[str] = ..., lock_remaining_ms: _Optional[int] = ..., delivery_count: _Optional[int] = ..., reason: _Optional[str] = ..., explanation: _Optional[str] = ..., start_offset: _Optional[int] = ..., end_offset: _Optional[int] = ..., next_fetch_offset: _Optional[int] = ..., high_watermark: _Optional[int] = ..., leader_epoch: _Optional[int] = ..., state_epoch: _Optional[int] = ..., last_cause: _Optional[str] = ..., trace_id: _Optional[bytes] = ..., span_id: _Optional[bytes] = ..., events: _Optional[_Iterable[_Union[_common_pb2.RecordEvent, _Mapping]]] = ..., events_note: _Optional[str] = ..., events_from_ms: _Optional[int] = ..., delay_remaining_ms: _Optional[int] = ..., throttle_time_ms: _Optional[int] = ...) -> None: ...
