"""Whom a ShareCluster waits for before it goes."""

from collections.abc import Iterable

from sharemesh_operator.resources.names import KubeObject

NAMED_MAX = 5


def awaited_by(cluster: str, tenants: Iterable[KubeObject]) -> str:
    """Return in words what a deleted ShareCluster waits for; empty if it may go (DEL-2).

    An object whose policy is Delete is waited for before it is being deleted too: of objects that
    are deleted together one is the first.
    """
    going, staying = [], []
    for each in tenants:
        spec, meta = each["spec"], each["metadata"]
        if spec["clusterRef"]["name"] != cluster:
            continue
        named = f"{each['kind']} {meta['name']}"
        if "deletionTimestamp" in meta:
            going.append(named)
        elif spec.get("deletionPolicy", "Retain") == "Delete":
            staying.append(named)
    if not staying:
        return _listed(going)
    return (
        f"{_listed([*going, *staying])}: the deletionPolicy of {_listed(staying)} is Delete; "
        "delete it too, or set it to Retain"
    )


def _listed(names: list[str]) -> str:
    more = len(names) - NAMED_MAX
    return ", ".join(names[:NAMED_MAX]) + (f" and {more} more" if more > 0 else "")
