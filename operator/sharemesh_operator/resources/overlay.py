"""``podTemplate``: what a user lays over the pod template that the operator makes."""

from collections.abc import Mapping, Sequence
from typing import Any

from sharemesh_operator.resources.names import KubeObject


def laid_over(base: KubeObject, overlay: Mapping[str, Any]) -> KubeObject:
    """Return ``base`` with ``overlay`` merged in; neither is changed.

    Objects merge, null removes, lists whose items have names merge by name, other lists replace.
    """
    result = dict(base)
    for name, value in overlay.items():
        old = result.get(name)
        if value is None:
            result.pop(name, None)
        elif isinstance(value, Mapping):
            result[name] = laid_over(old if isinstance(old, dict) else {}, value)
        elif isinstance(old, list) and _named(value) and _named(old):
            result[name] = _by_name(old, value)
        else:
            result[name] = value
    return result


def _named(value: object) -> bool:
    return (
        isinstance(value, Sequence)
        and not isinstance(value, str)
        and bool(value)
        and all(isinstance(each, Mapping) and "name" in each for each in value)
    )


def _by_name(base: Sequence[KubeObject], overlay: Sequence[KubeObject]) -> list[KubeObject]:
    mine = {each["name"]: each for each in overlay}
    known = {each["name"] for each in base}
    merged = [laid_over(each, mine.get(each["name"], {})) for each in base]
    return merged + [dict(each) for each in overlay if each["name"] not in known]
