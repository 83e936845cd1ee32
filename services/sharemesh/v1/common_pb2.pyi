from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class StateBatch(_message.Message):
    __slots__ = ("first_offset", "last_offset", "delivery_state", "delivery_count", "cause", "not_before_ms", "acquired_at_ms")
    FIRST_OFFSET_FIELD_NUMBER: _ClassVar[int]
    LAST_OFFSET_FIELD_NUMBER: _ClassVar[int]
    DELIVERY_STATE_FIELD_NUMBER: _ClassVar[int]
    DELIVERY_COUNT_FIELD_NUMBER: _ClassVar[int]
    CAUSE_FIELD_NUMBER: _ClassVar[int]
    NOT_BEFORE_MS_FIELD_NUMBER: _ClassVar[int]
    ACQUIRED_AT_MS_FIELD_NUMBER: _ClassVar[int]
    first_offset: int
    last_offset: int
    delivery_state: int
    delivery_count: int
    cause: int
    not_before_ms: int
    acquired_at_ms: int
    def __init__(self, first_offset: _Optional[int] = ..., last_offset: _Optional[int] = ..., delivery_state: _Optional[int] = ..., delivery_count: _Optional[int] = ..., cause: _Optional[int] = ..., not_before_ms: _Optional[int] = ..., acquired_at_ms: _Optional[int] = ...) -> None: ...

class PackedStateBatches(_message.Message):
    __slots__ = ("gaps", "lengths", "kinds", "not_befores", "not_before_base_ms")
    GAPS_FIELD_NUMBER: _ClassVar[int]
    LENGTHS_FIELD_NUMBER: _ClassVar[int]
    KINDS_FIELD_NUMBER: _ClassVar[int]
    NOT_BEFORES_FIELD_NUMBER: _ClassVar[int]
    NOT_BEFORE_BASE_MS_FIELD_NUMBER: _ClassVar[int]
    gaps: _containers.RepeatedScalarFieldContainer[int]
    lengths: _containers.RepeatedScalarFieldContainer[int]
    kinds: _containers.RepeatedScalarFieldContainer[int]
    not_befores: _containers.RepeatedScalarFieldContainer[int]
    not_before_base_ms: int
    def __init__(self, gaps: _Optional[_Iterable[int]] = ..., lengths: _Optional[_Iterable[int]] = ..., kinds: _Optional[_Iterable[int]] = ..., not_befores: _Optional[_Iterable[int]] = ..., not_before_base_ms: _Optional[int] = ...) -> None: ...

class RecordEvent(_message.Message):
    __slots__ = ("timestamp_ms", "cause", "member_id", "delivery_state", "delivery_count", "start_offset", "log_offset", "trace_id", "span_id", "not_before_ms", "acquired_at_ms")
    TIMESTAMP_MS_FIELD_NUMBER: _ClassVar[int]
    CAUSE_FIELD_NUMBER: _ClassVar[int]
    MEMBER_ID_FIELD_NUMBER: _ClassVar[int]
    DELIVERY_STATE_FIELD_NUMBER: _ClassVar[int]
    DELIVERY_COUNT_FIELD_NUMBER: _ClassVar[int]
    START_OFFSET_FIELD_NUMBER: _ClassVar[int]
    LOG_OFFSET_FIELD_NUMBER: _ClassVar[int]
    TRACE_ID_FIELD_NUMBER: _ClassVar[int]
    SPAN_ID_FIELD_NUMBER: _ClassVar[int]
    NOT_BEFORE_MS_FIELD_NUMBER: _ClassVar[int]
    ACQUIRED_AT_MS_FIELD_NUMBER: _ClassVar[int]
    timestamp_ms: int
    cause: str
    member_id: str
    delivery_state: str
    delivery_count: int
    start_offset: int
    log_offset: int
    trace_id: bytes
    span_id: bytes
    not_before_ms: int
    acquired_at_ms: int
    def __init__(self, timestamp_ms: _Optional[int] = ..., cause: _Optional[str] = ..., member_id: _Optional[str] = ..., delivery_state: _Optional[str] = ..., delivery_count: _Optional[int] = ..., start_offset: _Optional[int] = ..., log_offset: _Optional[int] = ..., trace_id: _Optional[bytes] = ..., span_id: _Optional[bytes] = ..., not_before_ms: _Optional[int] = ..., acquired_at_ms: _Optional[int] = ...) -> None: ...

class ArchivedCounts(_message.Message):
    __slots__ = ("since_ms", "counts")
    SINCE_MS_FIELD_NUMBER: _ClassVar[int]
    COUNTS_FIELD_NUMBER: _ClassVar[int]
    since_ms: int
    counts: _containers.RepeatedCompositeFieldContainer[ArchivedCount]
    def __init__(self, since_ms: _Optional[int] = ..., counts: _Optional[_Iterable[_Union[ArchivedCount, _Mapping]]] = ...) -> None: ...

class ArchivedCount(_message.Message):
    __slots__ = ("cause", "count")
    CAUSE_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    cause: int
    count: int
    def __init__(self, cause: _Optional[int] = ..., count: _Optional[int] = ...) -> None: ...

class TopicPartitions(_message.Message):
    __slots__ = ("topic_id", "partitions", "topic_name")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    TOPIC_NAME_FIELD_NUMBER: _ClassVar[int]
    topic_id: bytes
    partitions: _containers.RepeatedScalarFieldContainer[int]
    topic_name: str
    def __init__(self, topic_id: _Optional[bytes] = ..., partitions: _Optional[_Iterable[int]] = ..., topic_name: _Optional[str] = ...) -> None: ...

class Node(_message.Message):
    __slots__ = ("node_id", "host", "port", "rack", "role")
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    HOST_FIELD_NUMBER: _ClassVar[int]
    PORT_FIELD_NUMBER: _ClassVar[int]
    RACK_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    node_id: str
    host: str
    port: int
    rack: str
    role: str
    def __init__(self, node_id: _Optional[str] = ..., host: _Optional[str] = ..., port: _Optional[int] = ..., rack: _Optional[str] = ..., role: _Optional[str] = ...) -> None: ...

class CurrentLeader(_message.Message):
    __slots__ = ("leader_id", "leader_epoch")
    LEADER_ID_FIELD_NUMBER: _ClassVar[int]
    LEADER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    leader_id: str
    leader_epoch: int
    def __init__(self, leader_id: _Optional[str] = ..., leader_epoch: _Optional[int] = ...) -> None: ...

class Header(_message.Message):
    __slots__ = ("key", "value")
    KEY_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    key: str
    value: bytes
    def __init__(self, key: _Optional[str] = ..., value: _Optional[bytes] = ...) -> None: ...

class DecodedRecord(_message.Message):
    __slots__ = ("offset", "timestamp", "key", "value", "headers", "delivery_count")
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    HEADERS_FIELD_NUMBER: _ClassVar[int]
    DELIVERY_COUNT_FIELD_NUMBER: _ClassVar[int]
    offset: int
    timestamp: int
    key: bytes
    value: bytes
    headers: _containers.RepeatedCompositeFieldContainer[Header]
    delivery_count: int
    def __init__(self, offset: _Optional[int] = ..., timestamp: _Optional[int] = ..., key: _Optional[bytes] = ..., value: _Optional[bytes] = ..., headers: _Optional[_Iterable[_Union[Header, _Mapping]]] = ..., delivery_count: _Optional[int] = ...) -> None: ...

class ConfigEntry(_message.Message):
    __slots__ = ("name", "value", "source", "documentation")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    DOCUMENTATION_FIELD_NUMBER: _ClassVar[int]
    name: str
    value: str
    source: str
    documentation: str
    def __init__(self, name: _Optional[str] = ..., value: _Optional[str] = ..., source: _Optional[str] = ..., documentation: _Optional[str] = ...) -> None: ...
