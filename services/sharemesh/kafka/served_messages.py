"""The answering side of Kafka's messages: requests read from bytes, answers written to them."""

import io
import struct
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

from sharemesh.kafka.announced_lengths import check_lengths
from sharemesh.kafka.messages import (
    SIZE_BYTES,
    Content,
    KafkaMessage,
    MalformedMessageError,
    entity_of,
)

Served = tuple[int, int]
"""Key and version of a request."""

_FLEXIBLE_HEADER = 2


def has_flexible_header(key: int, version: int) -> bool:
    """Return whether tagged fields end the header of a request."""
    return bool(_reader(key, version)[0].__header_schema__.__version__ >= _FLEXIBLE_HEADER)


def read_request(key: int, version: int, body: memoryview) -> KafkaMessage:
    """Return the request behind its header; bytes behind it mean nothing, as in Kafka.

    Raises:
        MalformedMessageError: It is none.
    """
    cls, read = _reader(key, version)
    try:
        message, _ = read(check_lengths(cls, body), 0)
    except MalformedMessageError:
        raise
    except Exception as error:  # the reader's own errors
        raise MalformedMessageError(f"{len(body)} bytes cannot be read: {error!r}") from error
    return message


def response_frame(key: int, version: int, correlation: int, content: Content) -> bytes:
    """Return a whole answer, its size in front."""
    cls, write_header, write = _writer(key, version)
    header = cls.__header_schema__
    out = io.BytesIO()
    out.seek(SIZE_BYTES)
    write_header(out, entity_of(header, {"correlation_id": correlation}))
    write(out, entity_of(cls, content))
    frame = out.getbuffer()
    struct.pack_into(">i", frame, 0, len(frame) - SIZE_BYTES)
    del frame  # a buffer that is looked at cannot be taken out
    return out.getvalue()


def load_served(served: Iterable[Served]) -> None:
    """Import messages now, rather than within the first request that needs them."""
    for key, version in served:
        _reader(key, version)
        _writer(key, version)


@cache
def _reader(key: int, version: int) -> tuple[Any, Callable[[Any, int], Any]]:
    from kio.index import load_request_schema
    from kio.serial import entity_reader

    cls: Any = load_request_schema(key, version)
    return cls, entity_reader(cls)


@cache
def _writer(
    key: int, version: int
) -> tuple[Any, Callable[[Any, Any], None], Callable[[Any, Any], None]]:
    from kio.index import load_response_schema
    from kio.serial import entity_writer

    cls: Any = load_response_schema(key, version)
    return cls, entity_writer(cls.__header_schema__), entity_writer(cls)
