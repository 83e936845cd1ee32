"""ISO-8601 durations as ``share.auto.offset.reset`` takes them: ``PnDTnHnMn.nS``."""

import re

from sharemesh.domain.errors import ErrorCode, RefusedError

BY_DURATION_PREFIX = "by_duration:"
MAX_DURATION_MS = 2**53
"""Longer ones (some 285,000 years) are refused: nothing can be that old."""

_PATTERN = re.compile(
    r"P(?:(?P<days>\d{1,9})D)?"
    r"(?:T(?=\d)(?:(?P<hours>\d{1,9})H)?(?:(?P<minutes>\d{1,9})M)?"
    r"(?:(?P<seconds>\d{1,12})(?:[.,](?P<fraction>\d{1,9}))?S)?)?",
    re.IGNORECASE | re.ASCII,
)


def parse_duration_ms(text: str) -> int:
    """Return a non-negative duration in ms, fractions of a millisecond dropped (spec CFG-20).

    Raises:
        RefusedError: INVALID_CONFIG; not of the form ``PnDTnHnMn.nS``, or negative.
    """
    match = _PATTERN.fullmatch(text)
    if match is None or all(value is None for value in match.groups()):
        raise RefusedError(
            ErrorCode.INVALID_CONFIG,
            f"duration {text!r} is not of the form PnDTnHnMn.nS, or is negative; "
            "give for example PT1H or P2DT12H",
        )
    days, hours, minutes, seconds = (
        int(match[name] or 0) for name in ("days", "hours", "minutes", "seconds")
    )
    whole_s = ((days * 24 + hours) * 60 + minutes) * 60 + seconds
    duration_ms = whole_s * 1_000 + int((match["fraction"] or "0").ljust(9, "0")) // 1_000_000
    if duration_ms > MAX_DURATION_MS:
        raise RefusedError(ErrorCode.INVALID_CONFIG, f"duration {text!r} is too long")
    return duration_ms


def reset_duration_ms(policy: str) -> int | None:
    """Return the duration of a ``by_duration:…`` reset policy in ms, or None for the others."""
    if not policy.lower().startswith(BY_DURATION_PREFIX):
        return None
    return parse_duration_ms(policy[len(BY_DURATION_PREFIX) :])
