"""What topics, groups and operations have in common: each names the ShareCluster it belongs to."""

from collections.abc import Callable, Iterable

from sharemesh_operator.resources.names import KubeObject

NAMED_MAX = 5


def cluster_of(body: KubeObject) -> str:
    """Return the name of the ShareCluster that an object belongs to."""
    name: str = body["spec"]["clusterRef"]["name"]
    return name


def is_deleted(body: KubeObject) -> bool:
    """Return whether an object is being deleted."""
    return "deletionTimestamp" in body["metadata"]


def deletes(body: KubeObject) -> bool:
    """Return whether what the object stands for in the mesh is deleted with it."""
    policy: str = body["spec"].get("deletionPolicy", "Retain")
    return policy == "Delete"


def age(body: KubeObject) -> tuple[str, str]:
    """Return by what objects are older than others: when they were made, then their name."""
    return body["metadata"]["creationTimestamp"], body["metadata"]["name"]


def rival_of(
    body: KubeObject, others: Iterable[KubeObject], named: Callable[[KubeObject], str]
) -> str:
    """Return the older object that stands for the same thing of the mesh; empty if there is none.

    Args:
        body: The object.
        others: All objects of its kind.
        named: Gives the name in the mesh of what an object stands for.
    """
    for other in others:
        same = (cluster_of(other), named(other)) == (cluster_of(body), named(body))
        if same and age(other) < age(body) and not is_deleted(other):
            return age(other)[1]
    return ""


def awaited_by(cluster: str, tenants: Iterable[KubeObject]) -> str:
    """Return in words what a deleted ShareCluster waits for; empty if it may go (DEL-2).

    It waits for an object whose policy is Delete even before that is being deleted: of objects that
    are deleted together one is the first.
    """
    going, staying = [], []
    for each in tenants:
        if cluster_of(each) != cluster:
            continue
        named = f"{each['kind']} {each['metadata']['name']}"
        if is_deleted(each):
            going.append(named)
        elif deletes(each):
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
