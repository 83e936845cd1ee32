"""What an application sends becomes the bytes of a record, within bounds."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from sharemesh.client.config import ClientConfig
from sharemesh.client.errors import IllegalArgumentError, MessageTooLargeError
from sharemesh.client.records import Headers
from sharemesh.client.tracing import with_trace_context
from sharemesh.codec.batch_frame import HEADER_BYTES
from sharemesh.ports.clock import Clock

RECORD_OVERHEAD_BYTES = 32
"""Counted against buffer.memory for each record besides its key, value and headers."""

HeadersLike = Mapping[str, bytes | str | None] | Iterable[tuple[str, bytes | str | None]]


class OutgoingRecord(NamedTuple):
    """One record to be sent; ``size_bytes`` is what it counts against buffer.memory."""

    topic: str
    partition: int | None
    key: bytes | None
    value: bytes | None
    headers: Headers
    timestamp_ms: int
    size_bytes: int


_made = OutgoingRecord._make


class RecordSerializer:
    """The serializers and size bounds of one producer."""

    def __init__(self, config: ClientConfig, clock: Clock) -> None:
        self._key = config.function("key.serializer") or _to_bytes
        self._value = config.function("value.serializer") or _to_bytes
        self._size_max = config.number("max.request.size") - HEADER_BYTES
        self._wall_ms = clock.wall_ms

    def record(
        self,
        topic: str,
        value: Any,  # noqa: ANN401
        key: Any,  # noqa: ANN401
        partition: int | None,
        headers: HeadersLike,
        timestamp_ms: int | None,
    ) -> OutgoingRecord:
        """Return the record.

        Raises:
            IllegalArgumentError: The topic is blank, or partition or timestamp negative.
            MessageTooLargeError: It does not fit into max.request.size.
        """
        if not topic or not topic.strip():
            raise IllegalArgumentError("the topic must not be blank")
        if partition is not None and partition < 0:
            raise IllegalArgumentError(f"partition {partition} is negative")
        if timestamp_ms is None:
            timestamp_ms = self._wall_ms()
        elif timestamp_ms < 0:
            raise IllegalArgumentError(f"timestamp {timestamp_ms} is negative")
        size = RECORD_OVERHEAD_BYTES
        if key is not None:
            key = _bytes(self._key, key, "key")
            size += len(key or b"")
        if value is not None:
            value = _bytes(self._value, value, "value")
            size += len(value or b"")
        found = with_trace_context(_headers(headers) if headers else ())
        for name, content in found:
            size += len(name) + len(content or b"")
        if size > self._size_max:
            raise MessageTooLargeError(
                f"a record of {size + HEADER_BYTES} bytes is larger than max.request.size = "
                f"{self._size_max + HEADER_BYTES}",
                about=f"topic {topic}",
            )
        return _made((topic, partition, key, value, found, timestamp_ms, size))


def _bytes(serializer: Callable[..., object], thing: object, part: str) -> bytes | None:
    data = serializer(thing)
    if data is None or isinstance(data, bytes):
        return data
    raise IllegalArgumentError(
        f"the {part} serializer returned {type(data).__name__} instead of bytes"
    )


def _to_bytes(thing: object) -> bytes:
    if isinstance(thing, bytes):
        return thing
    if isinstance(thing, str):
        return thing.encode()
    if isinstance(thing, bytearray | memoryview):
        return bytes(thing)
    raise IllegalArgumentError(
        f"{type(thing).__name__} is neither bytes nor text; give key.serializer or value.serializer"
    )


def _headers(headers: HeadersLike) -> Headers:
    pairs = headers.items() if isinstance(headers, Mapping) else headers
    return tuple(
        (name, value.encode() if isinstance(value, str) else value) for name, value in pairs
    )
