"""Reads the fields of one request of the driver; what is wrong is said before anything changes."""

import json
from collections.abc import Mapping
from typing import Any

Json = dict[str, Any]

LARGEST_OFFSET = 2**63 - 1
LARGEST_STEP = 1_000_000  # offsets that one batch, gap or range may span
LARGEST_SETTING = 2**31 - 1
LONGEST_JUMP_MS = 10**15
NEEDED = object()


class BadRequestError(Exception):
    """The request cannot be understood; nothing was changed."""


def parsed(line: str) -> Any:
    """Return the JSON value of a line; NaN and infinities are none (RFC 8259).

    Raises:
        BadRequestError: The line is no JSON.
    """
    try:
        return json.loads(line, parse_constant=_no_number, parse_float=_finite)
    except (ValueError, RecursionError) as error:
        raise BadRequestError(f"the line is not JSON: {error}") from None


def _no_number(text: str) -> Any:
    raise ValueError(f"{text} is not a JSON number")


def _finite(text: str) -> float:
    value = float(text)
    if value in {float("inf"), float("-inf")}:
        raise ValueError(f"{text[:20]} is too large")
    return value


def given(request: Json, name: str, default: Any = NEEDED) -> Any:
    """Return a field, or its default.

    Raises:
        BadRequestError: It is missing and has no default.
    """
    value = request.get(name, default)
    if value is NEEDED:
        raise BadRequestError(f"field {name!r} is missing")
    return value


def integer(
    request: Json, name: str, default: Any = NEEDED, *, low: int = 0, high: int = LARGEST_OFFSET
) -> int:
    """Return a whole number between two bounds, both included."""
    return whole(given(request, name, default), name, low, high)


def whole(value: Any, name: str, low: int, high: int) -> int:
    """Return a value that must be a whole number between two bounds, both included."""
    if type(value) is not int:
        raise BadRequestError(f"{name} {shown(value)}: a whole number is needed")
    if not low <= value <= high:
        raise BadRequestError(f"{name} {value}: it must lie between {low} and {high}")
    return value


def flag(request: Json, name: str, default: Any = NEEDED) -> bool:
    """Return true or false."""
    value = given(request, name, default)
    if type(value) is not bool:
        raise BadRequestError(f"{name} {shown(value)}: true or false is needed")
    return value


def choice(choices: Mapping[str, Any], request: Json, name: str, default: Any = NEEDED) -> Any:
    """Return what a word stands for."""
    value = given(request, name, default)
    if not isinstance(value, str) or value not in choices:
        raise BadRequestError(f"{name} {shown(value)}: one of {', '.join(choices)} is needed")
    return choices[value]


def name_of(request: Json, name: str) -> str:
    """Return a text that is not empty."""
    value = given(request, name)
    if not isinstance(value, str) or not value:
        raise BadRequestError(f"{name} {shown(value)}: a name is needed")
    return value


def rows(request: Json, name: str, length: int, default: Any = NEEDED) -> list[list[Any]]:
    """Return a list of lists of that length each."""
    value = given(request, name, default)
    if not isinstance(value, list):
        raise BadRequestError(f"{name} {shown(value)}: a list is needed")
    for row in value:
        if not isinstance(row, list) or len(row) != length:
            raise BadRequestError(f"{name}: {shown(row)} is not a list of {length}")
    return value


def shown(value: Any) -> str:
    """Return a value as it may stand in a message."""
    text = repr(value)
    return text if len(text) <= 60 else text[:60] + "..."
