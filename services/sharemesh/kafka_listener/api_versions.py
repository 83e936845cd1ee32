"""ApiVersions: version 5 by hand, and the one request whose unknown versions are answered."""

import re
import struct
from typing import NamedTuple

from sharemesh.domain.errors import ErrorCode
from sharemesh.kafka.messages import MalformedMessageError, error_code, milliseconds
from sharemesh.kafka.served_messages import response_frame
from sharemesh.kafka_listener.request_header import unsigned_varint
from sharemesh.kafka_listener.served_requests import ServedRequest, offered

_KEY = ServedRequest.API_VERSIONS.key
_WITH_TARGET = 5
_NEWEST_SHAPE = 4
"""Answers of version 5 have the shape of version 4."""

_REBOOTSTRAP_REQUIRED = 129
_LEVELS = {"group.version": 1, "metadata.version": 33, "share.version": 2}
"""Levels of features as Kafka 4.4 tells them."""

_LOWEST = {"metadata.version": 7}
"""Lowest levels that it supports, where they are not 0."""


_WITH_SOFTWARE = 3
_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9.-]*[a-zA-Z0-9])?")
"""What Kafka takes for the name and the version of a client's software (KIP-511)."""


class Greeting(NamedTuple):
    """What a client says of itself, and whom it thinks it has reached (KIP-1242).

    None and -1: it does not say.
    """

    cluster_id: str | None
    node: int
    is_named_well: bool = True
    """Whether name and version of its software, if it had to tell them, are ones."""


def has_flexible_header(version: int) -> bool:
    """Return whether tagged fields end the header of the request."""
    return version >= 3


def read_greeting(version: int, body: memoryview) -> Greeting:
    """Return what a request says; before version 3 it says nothing, and of a target from 5 on.

    Raises:
        MalformedMessageError: It cannot be read.
    """
    if version < _WITH_SOFTWARE:
        return Greeting(None, -1)
    try:
        name, position = _compact_text(body, 0)
        software_version, position = _compact_text(body, position)
        if name is None or software_version is None:
            raise MalformedMessageError("the client's software has no name or no version")
        named_well = all(map(_SOFTWARE.fullmatch, (name, software_version)))
        if version < _WITH_TARGET:
            return Greeting(None, -1, named_well)
        cluster_id, position = _compact_text(body, position)
        (node,) = struct.unpack_from(">i", body, position)
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise MalformedMessageError(f"it cannot be read: {error}") from error
    return Greeting(cluster_id, node, named_well)


def judged(greeting: Greeting, cluster_id: str, node: int) -> int:
    """Return 0, or why a client is not answered (measured at Kafka 4.4)."""
    if not greeting.is_named_well:
        return ErrorCode.INVALID_REQUEST
    if greeting.node < 0:
        return ErrorCode.NONE if greeting.cluster_id is None else ErrorCode.INVALID_REQUEST
    if greeting.node != node or greeting.cluster_id not in (None, cluster_id):
        return _REBOOTSTRAP_REQUIRED
    return ErrorCode.NONE


def answer(version: int, correlation: int, error: int = 0) -> bytes:
    """Return the whole frame of an answer; with an error it tells nothing."""
    shape = min(version, _NEWEST_SHAPE)
    content = _content(error, ()) if error else _content(error, offered()) | _features(shape)
    return response_frame(_KEY, shape, correlation, content)


def answer_unknown_version(correlation: int) -> bytes:
    """Return the answer to a version that is not spoken: in version 0, with those that are."""
    own = tuple(each for each in offered() if each[0] == _KEY)
    return response_frame(_KEY, 0, correlation, _content(ErrorCode.UNSUPPORTED_VERSION, own))


def _content(error: int, told: tuple[tuple[int, int, int], ...]) -> dict[str, object]:
    return {
        "error_code": error_code(error),
        "throttle_time": milliseconds(0),
        "api_keys": [
            {"api_key": key, "min_version": lowest, "max_version": highest}
            for key, lowest, highest in told
        ],
    }


def _features(shape: int) -> dict[str, object]:
    lowest = 0 if shape >= _NEWEST_SHAPE else 1  # older clients take 0 for a mistake
    return {
        "supported_features": [
            {"name": name, "min_version": _LOWEST.get(name, lowest), "max_version": level}
            for name, level in _LEVELS.items()
        ],
        "finalized_features_epoch": 0,
        "finalized_features": [
            {"name": name, "max_version_level": level, "min_version_level": level}
            for name, level in _LEVELS.items()
        ],
    }


def _compact_text(body: memoryview, position: int) -> tuple[str | None, int]:
    length, position = unsigned_varint(body, position)
    if length == 0:
        return None, position
    end = position + length - 1
    if end > len(body):
        raise IndexError("a text is cut off")
    return bytes(body[position:end]).decode(), end
