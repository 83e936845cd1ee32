"""Structural schemas: prune, default, validate, as the API server does for custom resources.

Not here: CEL rules (tests/charts and the real API server try those).
"""

import copy
import re

_TYPES = {
    "object": dict,
    "array": list,
    "string": str,
    "integer": int,
    "boolean": bool,
    "number": (int, float),
}
_PASSED = ("apiVersion", "kind", "metadata")


class InvalidError(Exception):
    """A value does not fit; the message names the field."""


def shaped(schema, value, path=""):
    """Return the value with defaults and without unknown fields.

    Raises:
        InvalidError: It does not fit the schema.
    """
    if schema is None:
        return value
    if value is None:
        if schema.get("nullable"):
            return None
        raise InvalidError(f"{path}: Invalid value: null")
    _check_type(schema, value, path)
    if isinstance(value, dict):
        return _object(schema, value, path)
    if isinstance(value, list):
        return _array(schema, value, path)
    _check_scalar(schema, value, path)
    return value


def _object(schema, value, path):
    properties = dict(schema.get("properties") or {})
    if not path:
        properties |= dict.fromkeys(_PASSED)
    others = schema.get("additionalProperties")
    keeps = schema.get("x-kubernetes-preserve-unknown-fields") or (
        not schema.get("properties") and others is None and path
    )
    found = {}
    for name, item in value.items():
        where = f"{path}.{name}".lstrip(".")
        if name in properties:
            if item is None and properties[name] and not properties[name].get("nullable"):
                continue  # a null is dropped, and defaulted below
            found[name] = shaped(properties[name], item, where)
        elif others is not None:
            found[name] = shaped(others if isinstance(others, dict) else None, item, where)
        elif keeps:
            found[name] = item
    for name, each in properties.items():
        if each and "default" in each and name not in found:
            found[name] = shaped(each, copy.deepcopy(each["default"]), f"{path}.{name}".lstrip("."))
    for name in schema.get("required") or ():
        if name not in found:
            raise InvalidError(f"{path}.{name}: Required value".lstrip("."))
    return found


def _array(schema, value, path):
    if len(value) > schema.get("maxItems", len(value)):
        raise InvalidError(f"{path}: Too many: must have at most {schema['maxItems']} items")
    if len(value) < schema.get("minItems", 0):
        raise InvalidError(f"{path}: Invalid value: should have at least {schema['minItems']}")
    found = [shaped(schema.get("items"), item, f"{path}[{n}]") for n, item in enumerate(value)]
    kind = schema.get("x-kubernetes-list-type")
    if kind == "set" and len({repr(item) for item in found}) < len(found):
        raise InvalidError(f"{path}: Duplicate value")
    if kind == "map":
        keys = schema["x-kubernetes-list-map-keys"]
        if len({tuple(item.get(key) for key in keys) for item in found}) < len(found):
            raise InvalidError(f"{path}: Duplicate value")
    return found


def _check_type(schema, value, path):
    wanted = _TYPES.get(schema.get("type"))
    if wanted is None or schema.get("x-kubernetes-int-or-string"):
        return
    wrong = isinstance(value, bool) and schema["type"] != "boolean"
    if wrong or not isinstance(value, wanted):
        raise InvalidError(f"{path}: Invalid value: must be of type {schema['type']}")


def _check_scalar(schema, value, path):
    if "enum" in schema and value not in schema["enum"]:
        raise InvalidError(f"{path}: Unsupported value: {value!r}")
    if isinstance(value, str):
        if len(value) > schema.get("maxLength", len(value)):
            raise InvalidError(f"{path}: Too long: may not be more than {schema['maxLength']}")
        if len(value) < schema.get("minLength", 0):
            raise InvalidError(f"{path}: Invalid value: should be at least 1 chars long")
        pattern = schema.get("pattern")
        if pattern and not re.search(pattern, value):
            raise InvalidError(f"{path}: Invalid value: should match {pattern!r}")
        return
    if value < schema.get("minimum", value) or value > schema.get("maximum", value):
        raise InvalidError(f"{path}: Invalid value: {value} is out of bounds")
