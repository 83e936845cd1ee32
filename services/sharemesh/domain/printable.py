"""Characters that control a terminal, a line or the order of text: escaped, refused in new ids."""

import re

from sharemesh.domain.errors import ErrorCode, RefusedError

_CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
"""C0, DEL, C1, separators of lines and paragraphs, and overrides and isolates of direction."""


def escaped(text: str) -> str:
    r"""Return the text with each control character as JSON writes it, such as ``\u001b`` (BND-24).

    Applied to JSON on one line it changes only the strings in it, and not what they mean.
    """
    return _CONTROLS.sub(_escape, text)


def has_controls(text: str) -> bool:
    """Return whether the text holds a control character."""
    return _CONTROLS.search(text) is not None


def check_printable(what: str, text: str, error: ErrorCode = ErrorCode.INVALID_REQUEST) -> None:
    """Refuse a new id or label that holds a control character (BND-24).

    Raises:
        RefusedError: ``error``, with the first of these characters.
    """
    found = _CONTROLS.search(text)
    if found is not None:
        raise RefusedError(
            error,
            f"{what} holds the control character {_escape(found)} at position {found.start()}; "
            "send it without control characters",
        )


def _escape(found: re.Match[str]) -> str:
    return f"\\u{ord(found[0]):04x}"
