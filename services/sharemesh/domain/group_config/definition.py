"""What a setting is: its name, what values it takes, its default, and what it is for."""

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum

from sharemesh.domain.errors import ErrorCode, RefusedError
from sharemesh.domain.group_config.durations import reset_duration_ms

INT32_MAX = 2**31 - 1
MAX_VALUE_CHARS = 1_000
"""Longest accepted text of a value."""


class ValueKind(Enum):
    """How the text of a value is read."""

    INTEGER = "integer"
    BOOLEAN = "boolean"
    CHOICE = "choice"
    RESET_POLICY = "reset policy"
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
        if self.kind is ValueKind.INTEGER:
            return str(self._integer(value))
        if self.kind is ValueKind.BOOLEAN:
            if value.lower() not in {"true", "false"}:
                raise self._refused(text, "is neither true nor false")
            return value.lower()
        if self.kind is ValueKind.CHOICE:
            if value.lower() not in self.choices:
                raise self._refused(text, f"is not one of {', '.join(self.choices)}")
            return value.lower()
        if self.kind is ValueKind.RESET_POLICY:
            return self._reset_policy(value)
        return value

    def _integer(self, text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            raise self._refused(text, "is not a whole number") from None
        if value < self.minimum or value > self.maximum:
            raise self._refused(text, f"is not within {self.minimum}..{self.maximum}")
        return value

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
        return RefusedError(ErrorCode.INVALID_CONFIG, f"{self.name}: value {text!r} {why}")


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
        near = difflib.get_close_matches(name[:100], known, n=1, cutoff=0.0)
        offer = f"; did you mean {near[0]}?" if near else ""
        raise RefusedError(ErrorCode.INVALID_CONFIG, f"unknown setting {name[:100]!r}{offer}")
    if definition.unsupported:
        raise RefusedError(ErrorCode.INVALID_CONFIG, f"{name}: {definition.unsupported}")
    return definition
