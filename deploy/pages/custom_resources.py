"""docs/reference/crds.md: the custom resources, from their definitions."""

from collections.abc import Iterator
from typing import Any

import yaml

from deploy.pages import REFERENCE, ROOT

PAGE = REFERENCE / "crds.md"
DEFINITIONS = ROOT / "charts" / "sharemesh-crds" / "templates"
ORDER = ("ShareCluster", "ShareTopic", "ShareGroup", "ShareUser", "ShareGroupOperation")
Schema = dict[str, Any]

HEAD = """# Custom resources

This page is made from the definitions in `charts/sharemesh-crds`: `make docs` writes it, and a test
fails when it does not fit. API group `sharemesh.io/v1alpha1`; all kinds are namespaced and in the
category `sharemesh` (`kubectl get sharemesh`). Bounds are inclusive. What the API server accepts
here, the coordinators accept.
"""


def definitions() -> dict[str, Schema]:
    """Return the definitions by kind, in the order of the page."""
    found = {}
    for path in DEFINITIONS.glob("*.yaml"):
        definition = yaml.safe_load(path.read_text())
        found[definition["spec"]["names"]["kind"]] = definition
    return {kind: found[kind] for kind in ORDER}


def _kind_of(schema: Schema) -> str:
    if schema.get("type") == "array":
        return f"list of {_kind_of(schema['items'])}"
    return str(schema.get("format") if schema.get("format") == "date-time" else schema["type"])


def _allowed(schema: Schema) -> str:
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"])
    words = []
    if "minimum" in schema and "maximum" in schema:
        words.append(f"{schema['minimum']} to {schema['maximum']}")
    elif "minimum" in schema:
        words.append(f"at least {schema['minimum']}")
    if "minItems" in schema or "maxItems" in schema:
        words.append(f"{schema.get('minItems', 0)} to {schema['maxItems']} items")
    if "pattern" in schema:
        words.append("`" + schema["pattern"].replace("|", "\\|") + "`")
    if "maxLength" in schema:
        words.append(f"at most {schema['maxLength']} characters")
    return "; ".join(words)


def _default(schema: Schema, *, required: bool) -> str:
    if required:
        return "needed"
    default = schema.get("default")
    return "" if default is None or default == {} else f"`{default}`"


def _rows(schema: Schema, prefix: str) -> Iterator[tuple[str, Schema, bool]]:
    needed = set(schema.get("required", ()))
    for name, field in schema.get("properties", {}).items():
        path = f"{prefix}{name}"
        yield path, field, name in needed
        inner = field["items"] if field.get("type") == "array" else field
        dots = "[]." if field.get("type") == "array" else "."
        if name != "conditions":
            yield from _rows(inner, f"{path}{dots}")


def _rules(schema: Schema, prefix: str) -> Iterator[str]:
    for rule in schema.get("x-kubernetes-validations", ()):
        where = f"`{prefix.rstrip('.')}`: " if prefix else ""
        yield f"- {where}{rule['message']} (`{rule['rule']}`)"
    for name, field in schema.get("properties", {}).items():
        yield from _rules(field, f"{prefix}{name}.")


def _section(kind: str, definition: Schema) -> Iterator[str]:
    names, version = definition["spec"]["names"], definition["spec"]["versions"][0]
    schema = version["schema"]["openAPIV3Schema"]
    yield f"## {kind}"
    yield ""
    yield f"{schema['description']} Short name `{names['shortNames'][0]}`."
    if "scale" in version["subresources"]:
        yield f"`kubectl scale` sets `{version['subresources']['scale']['specReplicasPath'][1:]}`."
    for part in ("spec", "status"):
        yield ""
        yield f"### {part} of {kind}"
        yield ""
        yield "| field | type | default | allowed | what it is |"
        yield "|---|---|---|---|---|"
        for path, field, needed in _rows(schema["properties"][part], ""):
            default = _default(field, required=needed and part == "spec")
            words = field.get("description", "").replace("|", "\\|")
            yield f"| `{path}` | {_kind_of(field)} | {default} | {_allowed(field)} | {words} |"
    yield ""
    yield f"### Rules of {kind}"
    yield ""
    yield from _rules(schema, "")
    yield ""


def page() -> str:
    """Return the whole page."""
    lines = [HEAD]
    for kind, definition in definitions().items():
        lines += list(_section(kind, definition))
    return "\n".join(lines)
