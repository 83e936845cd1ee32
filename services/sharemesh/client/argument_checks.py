"""Checks of what applications pass: an error names the argument, and what to give."""

import inspect
from typing import TypeGuard

from sharemesh.client.errors import IllegalArgumentError
from sharemesh.domain.delivery_state import AcknowledgeType

TIME_MAX_MS = 2**53

_SHOWN_MAX = 100


def check_whole(name: str, value: object, least: int, most: int) -> None:
    """Check a number.

    Raises:
        IllegalArgumentError: It is no whole number, or out of bounds.
    """
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise IllegalArgumentError(
            f"{name} must be a whole number from {least} to {most}, but is {shown(value)}"
        )


def check_ms(name: str, value: object, *, least: int = 0) -> None:
    """Check a time in ms.

    Raises:
        IllegalArgumentError: It is no whole number, or too short.
    """
    if not isinstance(value, int) or isinstance(value, bool):
        raise IllegalArgumentError(
            f"{name} is {shown(value)}: it is a whole number of milliseconds"
        )
    if value < 0:
        raise IllegalArgumentError(f"{name} must not be negative, but is {shown(value)}")
    if value < least:
        raise IllegalArgumentError(f"{name} must be at least {least}, but is {value}")
    if value > TIME_MAX_MS:
        raise IllegalArgumentError(f"{name} must be at most {TIME_MAX_MS}, but is {shown(value)}")


def check_share(name: str, value: object) -> None:
    """Check a part of a whole.

    Raises:
        IllegalArgumentError: It is no number above 0, and at most 1.
    """
    if not is_number(value) or not 0 < value <= 1:
        raise IllegalArgumentError(f"{name} must be above 0 and at most 1, but is {value!r}")


def is_number(value: object) -> TypeGuard[int | float]:
    """Whether a value is a number; True and False are none."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def check_callback(name: str, value: object) -> None:
    """Check a function that may be None.

    Raises:
        IllegalArgumentError: It cannot be called, or nobody would await it.
    """
    if value is None:
        return
    if not callable(value):
        raise IllegalArgumentError(f"{name} is {shown(value)}: give a function, or None")
    if inspect.iscoroutinefunction(value):
        raise IllegalArgumentError(f"{name} is a coroutine function: nobody awaits it, use def")


def check_instance(name: str, value: object, kind: type, hint: str) -> None:
    """Check the type of an argument that may be None.

    Raises:
        IllegalArgumentError: It is of another type.
    """
    if value is not None and not isinstance(value, kind):
        raise IllegalArgumentError(f"{name} is {shown(value)}: give {hint}")


def exceptions_of(name: str, given: object) -> tuple[type[Exception], ...]:
    """Return exception classes, given as one or as several.

    Raises:
        IllegalArgumentError: One of them is no exception class.
    """
    classes = tuple(given) if isinstance(given, tuple | list | set | frozenset) else (given,)
    for each in classes:
        if not (isinstance(each, type) and issubclass(each, BaseException)):
            raise IllegalArgumentError(
                f"{name} has {each!r}: give exception classes, such as (OSError, TimeoutError)"
            )
    return classes


def acknowledge_type(given: object) -> AcknowledgeType:
    """Return what an application says of a record.

    Raises:
        IllegalArgumentError: It is no such type, or that of offsets without a record.
    """
    if isinstance(given, int) and given in AcknowledgeType.__members__.values():
        kind = AcknowledgeType(given)
        if kind is not AcknowledgeType.GAP:
            return kind
    raise IllegalArgumentError(
        f"a record is acknowledged with {given!r}: give AcknowledgeType.ACCEPT, RELEASE, REJECT or "
        "RENEW"
    )


def shown(value: object) -> str:
    """Return a value as a message shows it, at most 100 characters of it."""
    try:
        return repr(value)[:_SHOWN_MAX]
    except ValueError:  # a whole number of more than 4,300 digits
        return "too large"
