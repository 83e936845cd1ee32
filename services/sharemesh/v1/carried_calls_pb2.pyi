from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class CarriedCall(_message.Message):
    __slots__ = ("number", "method", "request", "cancelled")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    METHOD_FIELD_NUMBER: _ClassVar[int]
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    CANCELLED_FIELD_NUMBER: _ClassVar[int]
    number: int
    method: str
    request: bytes
    cancelled: bool
    def __init__(self, number: _Optional[int] = ..., method: _Optional[str] = ..., request: _Optional[bytes] = ..., cancelled: _Optional[bool] = ...) -> None: ...

class CarriedCalls(_message.Message):
    __slots__ = ("calls",)
    CALLS_FIELD_NUMBER: _ClassVar[int]
    calls: _containers.RepeatedCompositeFieldContainer[CarriedCall]
    def __init__(self, calls: _Optional[_Iterable[_Union[CarriedCall, _Mapping]]] = ...) -> None: ...

class CarriedAnswer(_message.Message):
    __slots__ = ("number", "response", "status", "details", "trailing")
    class TrailingEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    RESPONSE_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    DETAILS_FIELD_NUMBER: _ClassVar[int]
    TRAILING_FIELD_NUMBER: _ClassVar[int]
    number: int
    response: bytes
    status: int
    details: str
    trailing: _containers.ScalarMap[str, str]
    def __init__(self, number: _Optional[int] = ..., response: _Optional[bytes] = ..., status: _Optional[int] = ..., details: _Optional[str] = ..., trailing: _Optional[_Mapping[str, str]] = ...) -> None: ...

class CarriedAnswers(_message.Message):
    __slots__ = ("answers",)
    ANSWERS_FIELD_NUMBER: _ClassVar[int]
    answers: _containers.RepeatedCompositeFieldContainer[CarriedAnswer]
    def __init__(self, answers: _Optional[_Iterable[_Union[CarriedAnswer, _Mapping]]] = ...) -> None: ...
