"""Settings as fields of a dataclass: one declaration gives flag, environment and file key."""

import dataclasses
import difflib
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, Field
from pathlib import Path
from typing import Any, TypeVar

from sharemesh.serve.exit_codes import ExitCode, StartError

Record = TypeVar("Record")

ENVIRONMENT_PREFIX = "SHAREMESH_"


def about(
    documentation: str,
    *,
    minimum: int | None = None,
    maximum: int | None = None,
    choices: tuple[str, ...] = (),
) -> Mapping[str, Any]:
    """Return the metadata of a field that is a setting; bounds are inclusive."""
    return {
        "documentation": documentation,
        "minimum": minimum,
        "maximum": maximum,
        "choices": choices,
    }


def names_of(record: type[Any]) -> tuple[str, ...]:
    """Return the settings of a record class that may be given from outside."""
    return tuple(
        each.name for each in dataclasses.fields(record) if "documentation" in each.metadata
    )


def build(record: type[Record], given: Mapping[str, object], *, source: str) -> Record:
    """Return the record with what was given over its defaults.

    Raises:
        StartError: SETTINGS; a name is unknown (the nearest one is offered), a value has the
            wrong kind or is out of bounds.
    """
    known = {each.name: each for each in dataclasses.fields(record)}  # type: ignore[arg-type]
    values = {}
    for name, value in given.items():
        if name not in known:
            raise unknown(name, known, source)
        values[name] = _converted(known[name], value)
    for name, each in known.items():
        if name not in values and each.default is MISSING and each.default_factory is MISSING:
            raise StartError(ExitCode.SETTINGS, f"setting {name} is missing in {source}")
    return record(**values)


def unknown(name: str, known: Iterable[str], source: str) -> StartError:
    """Return the error for a name nobody knows."""
    near = difflib.get_close_matches(name[:100], list(known), n=1, cutoff=0.0)
    offer = f"; did you mean {near[0]}?" if near else ""
    return StartError(ExitCode.SETTINGS, f"unknown setting {name[:100]!r} in {source}{offer}")


def from_environment(record: type[Any], environment: Mapping[str, str]) -> dict[str, object]:
    """Return what ``SHAREMESH_<NAME>`` variables set; other variables are not ours to judge."""
    return {
        name: environment[ENVIRONMENT_PREFIX + name.upper()]
        for name in names_of(record)
        if ENVIRONMENT_PREFIX + name.upper() in environment
    }


def _converted(field: Field[Any], value: object) -> object:
    kind = getattr(field.type, "__name__", str(field.type))
    if kind == "int":
        return _integer(field, value)
    if kind == "bool":
        return _boolean(field.name, value)
    if kind.startswith("tuple"):
        parts = value.split(",") if isinstance(value, str) else value
        if not isinstance(parts, list | tuple):
            raise _refused(field.name, value, "is not a list")
        return tuple(str(part).strip() for part in parts if str(part).strip())
    if "Path" in kind:
        text = _text(field.name, value)
        return Path(text) if text else None
    if kind == "str":
        return _choice(field, _text(field.name, value))
    return value


def _text(name: str, value: object) -> str:
    if isinstance(value, Path):
        return str(value)
    if not isinstance(value, str):
        raise _refused(name, value, "is not a text")
    return value.strip()


def _choice(field: Field[Any], value: str) -> str:
    choices = field.metadata.get("choices", ())
    if choices and value not in choices:
        near = difflib.get_close_matches(value[:100], choices, n=1, cutoff=0.0)
        raise _refused(
            field.name, value, f"is not one of {', '.join(choices)}; did you mean {near[0]}?"
        )
    return value


def _integer(field: Field[Any], value: object) -> int:
    try:
        if isinstance(value, bool) or not isinstance(value, int | str):
            raise ValueError
        number = int(value)
    except ValueError:
        raise _refused(field.name, value, "is not a whole number") from None
    minimum, maximum = field.metadata.get("minimum"), field.metadata.get("maximum")
    if (minimum is not None and number < minimum) or (maximum is not None and number > maximum):
        raise _refused(field.name, value, f"is not within {minimum}..{maximum}")
    return number


def _boolean(name: str, value: object) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.lower() in {"true", "false"}:
        return value.lower() == "true"
    raise _refused(name, value, "is neither true nor false")


def _refused(name: str, value: object, why: str) -> StartError:
    return StartError(ExitCode.SETTINGS, f"setting {name}: value {value!r} {why}")
