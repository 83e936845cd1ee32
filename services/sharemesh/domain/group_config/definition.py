"""What a setting is: its name, the values it takes (durations too), its default, its purpose."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum

from sharemesh.domain.errors import RefusedError, invalid_config
from sharemesh.domain.group_config.retry_delays import parse_schedule, spelled_schedule
from sharemesh.domain.setting_values import (
    SettingValueError,
    decimal_number,
    one_of,
    true_or_false,
    unknown_setting,
    whole_number,
)

BY_DURATION_PREFIX = "by_duration:"
MAX_DURATION_MS = 2**53
"""Longer ones (some 285,000 years) are refused: nothing can be that old."""

_PATTERN = re.compile(
    r"P(?:(?P<days>\d{1,9})D)?"
    r"(?:T(?=\d)(?:(?P<hours>\d{1,9})H)?(?:(?P<minutes>\d{1,9})M)?"
    r"(?:(?P<seconds>\d{1,12})(?:[.,](?P<fraction>\d{1,9}))?S)?)?",
    re.IGNORECASE | re.ASCII,
)

INT32_MAX = 2**31 - 1
MAX_VALUE_CHARS = 1_000
"""Longest accepted text of a value."""


class ValueKind(Enum):
    """How the text of a value is read."""

    INTEGER = "integer"
    BOOLEAN = "boolean"
    CHOICE = "choice"
    RESET_POLICY = "reset policy"
    DECIMAL = "decimal"
    SCHEDULE = "schedule"
    TEXT = "text"


@dataclass(frozen=True, slots=True)
class ConfigDefinition:
    """One setting; bounds are inclusive.

    A group's setting names the cluster's setting it falls back to (``fallback``) and those that
    bound it (``at_least``, ``at_most``). ``unsupported`` says why a known setting is refused.
    """

    name: str
    kind: ValueKind
    default: str
    documentation: str
    minimum: int = -(2**63)
    maximum: int = INT32_MAX
    choices: tuple[str, ...] = ()
    fallback: str = ""
    at_least: str = ""
    at_most: str = ""
    unsupported: str = ""

    def check(self, text: str) -> str:
        """Return the value in its one spelling.

        Raises:
            RefusedError: INVALID_CONFIG, naming setting, value and what is accepted.
        """
        if len(text) > MAX_VALUE_CHARS:
            raise self._refused(
                text[:20] + "...", f"is longer than {MAX_VALUE_CHARS} characters; shorten it"
            )
        value = text.strip()
        try:
            if self.kind is ValueKind.INTEGER:
                return str(whole_number(value, self.minimum, self.maximum))
            if self.kind is ValueKind.BOOLEAN:
                return str(true_or_false(value)).lower()
            if self.kind is ValueKind.CHOICE:
                return one_of(value.lower(), self.choices)
            if self.kind is ValueKind.DECIMAL:
                return f"{decimal_number(value, self.minimum, self.maximum):g}"
            if self.kind is ValueKind.SCHEDULE:
                return spelled_schedule(parse_schedule(value))
        except SettingValueError as error:
            raise self._refused(text, str(error)) from None
        return self._reset_policy(value) if self.kind is ValueKind.RESET_POLICY else value

    def _reset_policy(self, text: str) -> str:
        if text.lower() in {"latest", "earliest"}:
            return text.lower()
        try:
            if reset_duration_ms(text) is None:
                raise self._refused(text, "is not latest, earliest or by_duration:PnDTnHnMn.nS")
        except RefusedError as error:
            if error.message.startswith(self.name):
                raise
            raise self._refused(text, f"is invalid: {error.message}") from None
        prefix, _, duration = text.partition(":")
        return f"{prefix.lower()}:{duration.upper()}"

    def _refused(self, text: str, why: str) -> RefusedError:
        return invalid_config(f"{self.name}: value {text!r} {why}")


def parse_duration_ms(text: str) -> int:
    """Return a non-negative duration in ms, fractions of a millisecond dropped (spec CFG-20).

    Raises:
        RefusedError: INVALID_CONFIG; not of the form ``PnDTnHnMn.nS``, or negative.
    """
    match = _PATTERN.fullmatch(text)
    if match is None or all(value is None for value in match.groups()):
        raise invalid_config(
            f"duration {text!r} is not of the form PnDTnHnMn.nS, or is negative; "
            "give for example PT1H or P2DT12H"
        )
    days, hours, minutes, seconds = (
        int(match[name] or 0) for name in ("days", "hours", "minutes", "seconds")
    )
    whole_s = ((days * 24 + hours) * 60 + minutes) * 60 + seconds
    duration_ms = whole_s * 1_000 + int((match["fraction"] or "0").ljust(9, "0")) // 1_000_000
    if duration_ms > MAX_DURATION_MS:
        raise invalid_config(f"duration {text!r} is too long")
    return duration_ms


def reset_duration_ms(policy: str) -> int | None:
    """Return the duration of a ``by_duration:…`` reset policy in ms, or None for the others."""
    if not policy.lower().startswith(BY_DURATION_PREFIX):
        return None
    return parse_duration_ms(policy[len(BY_DURATION_PREFIX) :])


def integer(
    name: str, documentation: str, default: int, minimum: int = 1, maximum: int = INT32_MAX
) -> ConfigDefinition:
    """Return the definition of a setting that is a whole number."""
    return ConfigDefinition(
        name, ValueKind.INTEGER, str(default), documentation, minimum=minimum, maximum=maximum
    )


def by_name(definitions: Iterable[ConfigDefinition]) -> Mapping[str, ConfigDefinition]:
    """Return definitions by their name."""
    return {definition.name: definition for definition in definitions}


def definition_of(table: Mapping[str, ConfigDefinition], name: str) -> ConfigDefinition:
    """Return the definition of a setting.

    Raises:
        RefusedError: INVALID_CONFIG; the name is unknown (the message offers the nearest one) or
            the setting is not supported.
    """
    definition = table.get(name)
    if definition is None:
        known = [each.name for each in table.values() if not each.unsupported]
        raise invalid_config(unknown_setting(name, known))
    if definition.unsupported:
        raise invalid_config(f"{name}: {definition.unsupported}")
    return definition
