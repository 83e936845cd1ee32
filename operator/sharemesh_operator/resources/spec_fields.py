"""Records that are read from the fields of an object: each field names its key there."""

from collections.abc import Mapping
from dataclasses import MISSING, field, fields
from typing import Any, TypeVar

Record = TypeVar("Record")


def key(name: str, default: object = MISSING) -> Any:  # noqa: ANN401 - as dataclasses.field
    """Return a field that is read from this key of the object."""
    return field(default=default, metadata={"key": name})


def read(record: type[Record], given: Mapping[str, Any], **more: object) -> Record:
    """Return a record of the keys that are given; the others have their defaults."""
    keys = {each.name: each.metadata.get("key", "") for each in fields(record)}  # type: ignore[arg-type]
    values = {name: given[key] for name, key in keys.items() if given.get(key) is not None}
    return record(**values, **more)
