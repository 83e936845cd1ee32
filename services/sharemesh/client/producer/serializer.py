"""Turns what an application sends into an outgoing record, checked."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from sharemesh.client.config import ClientConfig
from sharemesh.client.errors import IllegalArgumentError, MessageTooLargeError
from sharemesh.client.producer.batches import Done, OutgoingRecord
from sharemesh.client.records import Headers
from sharemesh.client.tracing import with_trace_context
from sharemesh.codec.batch_frame import HEADER_BYTES
from sharemesh.ports.clock import Clock

HeadersLike = Mapping[str, bytes | str | None] | Iterable[tuple[str, bytes | str | None]]


class RecordSerializer:
    """The serializers and size bounds of one producer."""

    def __init__(self, config: ClientConfig, clock: Clock) -> None:
        self._key = config.function("key.serializer") or _to_bytes
        self._value = config.function("value.serializer") or _to_bytes
        self._size_max = config.number("max.request.size")
        self._clock = clock

    def record(
        self,
        topic: str,
        value: Any,  # noqa: ANN401
        key: Any,  # noqa: ANN401
        partition: int | None,
        headers: HeadersLike,
        timestamp_ms: int | None,
        done: Done,
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
        if timestamp_ms is not None and timestamp_ms < 0:
            raise IllegalArgumentError(f"timestamp {timestamp_ms} is negative")
        record = OutgoingRecord(
            topic,
            partition,
            _bytes(self._key, key, "key"),
            _bytes(self._value, value, "value"),
            with_trace_context(_headers(headers)),
            self._clock.wall_ms() if timestamp_ms is None else timestamp_ms,
            done,
        )
        size = record.size_bytes + HEADER_BYTES
        if size > self._size_max:
            raise MessageTooLargeError(
                f"a record of {size} bytes is larger than max.request.size = {self._size_max}",
                about=f"topic {topic}",
            )
        return record


def _bytes(serializer: Callable[..., object], thing: object, part: str) -> bytes | None:
    if thing is None:
        return None
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
