"""Holds custom resources against their definitions, as far as a JSON schema goes (CEL is not)."""

from typing import Any

import jsonschema

from deploy.pages.custom_resources import definitions


def schema_of(kind: str) -> dict[str, Any]:
    """Return the schema of a kind, closed where the API server prunes."""
    version = definitions()[kind]["spec"]["versions"][0]
    return _closed(version["schema"]["openAPIV3Schema"], root=True)


def _closed(schema: Any, *, root: bool = False) -> Any:
    if isinstance(schema, list):
        return [_closed(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    made = {name: _closed(value) for name, value in schema.items()}
    opened = schema.get("x-kubernetes-preserve-unknown-fields") or root
    if isinstance(schema.get("properties"), dict) and schema.get("type") == "object" and not opened:
        made["additionalProperties"] = False
    return made


def check(document: dict[str, Any]) -> list[str]:
    """Return what is wrong with a custom resource."""
    validator = jsonschema.Draft202012Validator(schema_of(document["kind"]))
    return [f"{error.json_path}: {error.message}" for error in validator.iter_errors(document)]
