"""Kafka's messages as bytes and back: the one door to ``kio``, which is imported at first use.

A request is written as a mapping of all that any version wants; each version takes what it knows.
"""

import io
import struct
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from datetime import timedelta
from functools import cache
from typing import Any, get_args, get_type_hints
from uuid import UUID

from sharemesh.domain.ids import TopicId
from sharemesh.kafka.versions import KafkaRequest
from sharemesh.ports.brokers import NO_TOPIC_ID, BrokerRefusedError

SIZE_BYTES = 4
Content = Mapping[str, object]
KafkaMessage = Any
"""A dataclass of kio; which attributes it has depends on its version."""


class MalformedMessageError(Exception):
    """Bytes that are no answer to what was asked."""


def milliseconds(number: int) -> timedelta:
    """Return a duration as messages want it."""
    return timedelta(milliseconds=number)


def in_milliseconds(duration: timedelta) -> int:
    """Return a duration of a message."""
    return duration // timedelta(milliseconds=1)


def to_uuid(topic_id: TopicId) -> UUID | None:
    """Return a topic id as messages want it; that of no topic is None."""
    return None if topic_id == NO_TOPIC_ID else UUID(bytes=topic_id)


def from_uuid(found: UUID | None) -> TopicId:
    """Return a topic id of a message."""
    return NO_TOPIC_ID if found is None else TopicId(found.bytes)


def refuse(error_code: Any, detail: str | None = "") -> None:  # noqa: ANN401 - kio's ErrorCode
    """Raise what the error code of a message says, unless it says none.

    Raises:
        BrokerRefusedError: Kafka's code, its name, and the detail.
    """
    if error_code:
        raise BrokerRefusedError(int(error_code), error_code.name.upper(), detail or "")


def error_name(code: int) -> str:
    """Return Kafka's name of a code that a message held."""
    from kio.schema.errors import ErrorCode

    return ErrorCode(code).name.upper()


@cache
def error_code(code: int) -> Any:  # noqa: ANN401 - kio's ErrorCode
    """Return Kafka's code as messages want it; one that they have no word for is -1."""
    from kio.schema.errors import ErrorCode

    try:
        return ErrorCode(code)
    except ValueError:
        return ErrorCode.unknown_server_error


def encode(
    request: KafkaRequest, version: int, correlation: int, client_id: str, content: Content
) -> bytes:
    """Return a whole frame, its size in front."""
    cls, write_header, write = _request_of(request, version)
    header = cls.__header_schema__
    out = io.BytesIO()
    out.seek(SIZE_BYTES)
    write_header(
        out,
        entity_of(
            header,
            {
                "request_api_key": request.key,
                "request_api_version": version,
                "correlation_id": correlation,
                "client_id": client_id,
            },
        ),
    )
    write(out, entity_of(cls, content))
    frame = out.getbuffer()
    struct.pack_into(">i", frame, 0, len(frame) - SIZE_BYTES)
    del frame  # a buffer that is looked at cannot be taken out
    return out.getvalue()


def decode(request: KafkaRequest, version: int, frame: memoryview) -> tuple[int, KafkaMessage]:
    """Return correlation id and message of a response without its size.

    Raises:
        MalformedMessageError: It is none.
    """
    read_header, read = _response_of(request, version)
    try:
        header, size = read_header(frame, 0)
        message, _ = read(frame, size)
    except Exception as error:  # the reader's own errors, and ValueError of unknown codes and times
        raise MalformedMessageError(
            f"{request.label} version {version} of {len(frame)} bytes cannot be read: {error!r}"
        ) from error
    return header.correlation_id, message


def load(requests: Iterable[KafkaRequest] = KafkaRequest) -> None:
    """Import the newest messages of these requests now, rather than within a first call."""
    for request in requests:
        _request_of(request, request.highest)
        _response_of(request, request.highest)


@cache
def _request_of(
    request: KafkaRequest, version: int
) -> tuple[Any, Callable[[Any, Any], None], Callable[[Any, Any], None]]:
    from kio.index import load_request_schema
    from kio.serial import entity_writer

    cls: Any = load_request_schema(request.key, version)
    return cls, entity_writer(cls.__header_schema__), entity_writer(cls)


@cache
def _response_of(
    request: KafkaRequest, version: int
) -> tuple[Callable[[Any, int], Any], Callable[[Any, int], Any]]:
    from kio.index import load_response_schema
    from kio.serial import entity_reader

    cls: Any = load_response_schema(request.key, version)
    return entity_reader(cls.__header_schema__), entity_reader(cls)


def entity_of(cls: Any, content: Content) -> KafkaMessage:  # noqa: ANN401 - a class of kio
    """Return an entity with what this version of it knows of the content."""
    values: dict[str, object] = {}
    for name, nested, has_default in _fields_of(cls):
        if name in content:
            value = content[name]
            values[name] = value if nested is None else _nested(nested, value)
        elif not has_default:
            values[name] = ()  # topics to forget, assignments: lists that nothing was put in
    return cls(**values)


def _nested(cls: Any, value: Any) -> object:  # noqa: ANN401
    if value is None:
        return None
    if isinstance(value, Mapping):
        return entity_of(cls, value)
    return tuple(entity_of(cls, each) for each in value)


@cache
def _fields_of(cls: Any) -> tuple[tuple[str, Any, bool], ...]:  # noqa: ANN401
    hints = get_type_hints(cls)
    return tuple(
        (each.name, _entity_class(hints[each.name]), each.default is not MISSING)
        for each in fields(cls)
    )


def _entity_class(hint: object) -> Any:  # noqa: ANN401
    if is_dataclass(hint):
        return hint
    found = (_entity_class(each) for each in get_args(hint))
    return next((each for each in found if each is not None), None)
