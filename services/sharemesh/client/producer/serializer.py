"""What an application sends becomes the bytes of a record, within bounds."""

from collections.abc import Callable, Iterable, Mapping
from numbers import Integral
from typing import Any

from sharemesh.client.config import ClientConfig
from sharemesh.client.errors import IllegalArgumentError, MessageTooLargeError
from sharemesh.client.producer.delivery import RECORD_OVERHEAD_BYTES
from sharemesh.client.records import Headers
from sharemesh.client.tracing import with_trace_context
from sharemesh.codec.batch_frame import HEADER_BYTES
from sharemesh.ports.clock import Clock

_TIMESTAMP_MAX = 2**63 - 1

RecordContent = tuple[bytes | None, bytes | None, Headers, int, int]
"""Key, value, headers, timestamp and what it counts against buffer.memory."""

HeadersLike = Mapping[str, bytes | str | None] | Iterable[tuple[str, bytes | str | None]]


def check_topic(topic: str) -> None:
    """Check the name of a topic.

    Raises:
        IllegalArgumentError: It is blank.
    """
    if not topic or topic.isspace():
        raise IllegalArgumentError("the topic must not be blank")


class RecordSerializer:
    """The serializers and size bounds of one producer.

    Attributes:
        takes_bytes: Whether a value of bytes is sent as it is.
        value_bytes_max: Largest value of a record that has nothing else.
    """

    def __init__(self, config: ClientConfig, clock: Clock) -> None:
        self._key = config.function("key.serializer")
        self._value = config.function("value.serializer")
        self._size_max = config.number("max.request.size") - HEADER_BYTES
        self._wall_ms = clock.wall_ms
        self.takes_bytes = self._value is None
        self.value_bytes_max = self._size_max - RECORD_OVERHEAD_BYTES

    def content(  # of every record: see tests/bench/peer.py before it grows
        self,
        topic: str,
        value: Any,  # noqa: ANN401
        key: Any,  # noqa: ANN401
        partition: int | None,
        headers: HeadersLike,
        timestamp_ms: int | None,
    ) -> RecordContent:
        """Return what the record holds.

        Raises:
            IllegalArgumentError: The topic is blank, or partition or timestamp no whole number
                from 0 on.
            MessageTooLargeError: It does not fit into max.request.size.
        """
        check_topic(topic)
        if partition is not None and (not isinstance(partition, Integral) or partition < 0):
            raise IllegalArgumentError(f"partition {partition!r} is not a whole number from 0 on")
        if timestamp_ms is None:
            timestamp_ms = self._wall_ms()
        elif type(timestamp_ms) is not int or not 0 <= timestamp_ms <= _TIMESTAMP_MAX:
            raise IllegalArgumentError(
                f"timestamp {timestamp_ms!r} is not a whole number of milliseconds from 0 on"
            )
        size = RECORD_OVERHEAD_BYTES
        if key is not None:
            key = _bytes(self._key or _to_bytes, key, "key")
            size += len(key or b"")
        if value is not None:
            if self._value is not None or type(value) is not bytes:
                value = _bytes(self._value or _to_bytes, value, "value")
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
        return key, value, found, timestamp_ms, size


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
    return tuple(_header(name, value) for name, value in pairs)


def _header(name: object, value: object) -> tuple[str, bytes | None]:
    if isinstance(value, str):
        value = value.encode()
    if not isinstance(name, str) or not (value is None or isinstance(value, bytes)):
        raise IllegalArgumentError(
            f"header {name!r}: names are text, values bytes, text or None, not "
            f"{type(value).__name__}"
        )
    try:
        name.encode()
    except UnicodeEncodeError as error:
        raise IllegalArgumentError(f"header {name!r}: {error}") from None
    return name, value
