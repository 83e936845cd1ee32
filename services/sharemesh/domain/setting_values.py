"""What settings of all kinds have in common: reading values, bounds, the nearest known name."""

import difflib
import re
from collections.abc import Iterable

_NAME_CHARS_MAX = 100  # more of a wrong name is not compared
_DIGITS_MAX = 18  # any such number has 64 bits
_WHOLE = re.compile(r"[+-]?[0-9]+")
_DECIMAL = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")


class SettingValueError(ValueError):
    """A value is not accepted; the text says why and goes behind setting and value."""


def is_written_whole(text: str) -> bool:
    """Whether it is a whole number of 64 bits, written in the digits 0 to 9 (CFG-43)."""
    return text.isascii() and text.isdigit() and len(text) <= _DIGITS_MAX


def written_whole(text: str) -> int:
    """Return a whole number written in the digits 0 to 9; ``int`` takes more (CFG-43).

    Raises:
        SettingValueError: It is written otherwise, or far too long.
    """
    try:
        if _WHOLE.fullmatch(text.strip()):
            return int(text)
    except ValueError:  # Python bounds the number of digits
        pass
    raise SettingValueError("is not a whole number, written in the digits 0 to 9")


def written_decimal(text: str) -> float:
    """Return a number written in the digits 0 to 9; ``float`` takes more (CFG-43).

    Raises:
        SettingValueError: It is written otherwise.
    """
    if _DECIMAL.fullmatch(text.strip()):
        return float(text)
    raise SettingValueError("is not a number, written in the digits 0 to 9")


def whole_number(value: object, minimum: int | None, maximum: int | None) -> int:
    """Return a number, or one written as text, within inclusive bounds (None: no bound).

    Raises:
        SettingValueError: It is no whole number, or out of bounds.
    """
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise SettingValueError("is not a whole number")
    number = written_whole(value) if isinstance(value, str) else value
    if (minimum is not None and number < minimum) or (maximum is not None and number > maximum):
        raise SettingValueError(f"is not within {minimum}..{maximum}")
    return number


def decimal_number(value: str, minimum: float, maximum: float) -> float:
    """Return a number written as text, within inclusive bounds.

    Raises:
        SettingValueError: It is no number, or out of bounds.
    """
    number = written_decimal(value)
    if not minimum <= number <= maximum:
        raise SettingValueError(f"is not within {minimum:g}..{maximum:g}")
    return number


def true_or_false(value: object) -> bool:
    """Return a truth value, or one written as text in any case.

    Raises:
        SettingValueError: It is neither.
    """
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.lower() in {"true", "false"}:
        return value.lower() == "true"
    raise SettingValueError("is neither true nor false")


def one_of(value: str, choices: tuple[str, ...]) -> str:
    """Return the value.

    Raises:
        SettingValueError: It is none of the choices.
    """
    if value not in choices:
        raise SettingValueError(f"is not one of {', '.join(choices)}")
    return value


def nearest(name: str, known: Iterable[str], *, cutoff: float = 0.0) -> str:
    """Return the known name that is most like ``name``, or an empty text if none is at all.

    ``cutoff`` is how alike they must be, from 0 to 1.
    """
    near = difflib.get_close_matches(name[:_NAME_CHARS_MAX], list(known), n=1, cutoff=cutoff)
    return near[0] if near else ""


def unknown_setting(name: str, known: Iterable[str], place: str = "") -> str:
    """Return the message for an unknown name, with the nearest known one."""
    near = nearest(name, known)
    offer = f"; did you mean {near}?" if near else ""
    return f"unknown setting {name[:_NAME_CHARS_MAX]!r}{place}{offer}"
