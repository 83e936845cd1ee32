"""Kinds, labels and annotations of the objects that the operator reads and writes."""

from typing import Any, TypeAlias

from sharemesh.ports.cluster import Role

KubeObject: TypeAlias = dict[str, Any]

GROUP = "sharemesh.io"
API_VERSION = f"{GROUP}/v1alpha1"
KINDS = {
    **dict.fromkeys(
        ("ShareCluster", "ShareTopic", "ShareGroup", "ShareUser", "ShareGroupOperation"),
        API_VERSION,
    ),
    "StatefulSet": "apps/v1",
    "PodDisruptionBudget": "policy/v1",
    **dict.fromkeys(("Service", "ConfigMap", "Pod", "PersistentVolumeClaim", "Event"), "v1"),
}
"""Each kind of object that the operator reads or writes: group and version as objects name them."""

FIELD_MANAGER = "sharemesh-operator"
FINALIZER = f"{GROUP}/operator"

NAME_LABEL = "app.kubernetes.io/name"
COMPONENT_LABEL = "app.kubernetes.io/component"
MANAGED_BY_LABEL = "app.kubernetes.io/managed-by"
CLUSTER_LABEL = f"{GROUP}/cluster"
POD_LABEL = "statefulset.kubernetes.io/pod-name"

PAUSE_ANNOTATION = f"{GROUP}/pause-reconciliation"
RESTART_ANNOTATION = f"{GROUP}/manual-rolling-update"
SKIP_DRAIN_ANNOTATION = f"{GROUP}/skip-drain"
DRAIN_ANNOTATION = f"{GROUP}/drain-requested-at"
"""On a pod: when its drain began (Unix seconds), so that a new operator resumes it."""
HELD_ANNOTATION = f"{GROUP}/drained-by"
"""On a pod: the ShareGroupOperation that drained it; it stays until the pod is restarted."""
HASH_ANNOTATION = f"{GROUP}/applied-hash"
CONFIG_ANNOTATION = f"{GROUP}/config-hash"

CONTAINER = "sharemesh"
"""The container of a role in its pod."""
GRPC_PORT = 9400
HEALTH_PORT = 9401
METRICS_PORT = 9090
USER_ID = 10001

ROLES = (Role.SHARE_COORDINATOR, Role.GROUP_COORDINATOR, Role.SHARE_LEADER)
"""Roles of pods in the order of a rolling update: who keeps state first, who uses it after."""

FIELDS = {
    Role.SHARE_LEADER: "shareLeaders",
    Role.GROUP_COORDINATOR: "groupCoordinators",
    Role.SHARE_COORDINATOR: "shareCoordinators",
}
"""Where a role stands in spec and status of a ShareCluster."""


def plural(kind: str) -> str:
    """Return the name under which the API server serves a kind."""
    return f"{kind.lower()}s"


def labels(cluster: str, role: Role | None = None) -> dict[str, str]:
    """Return the labels of an object of a cluster, and of one role of it."""
    return {NAME_LABEL: "sharemesh", MANAGED_BY_LABEL: FIELD_MANAGER, **selector(cluster, role)}


def selector(cluster: str, role: Role | None = None) -> dict[str, str]:
    """Return the labels that find the pods of a cluster or role; these never change."""
    found = {CLUSTER_LABEL: cluster}
    if role is not None:
        found[COMPONENT_LABEL] = str(role)
    return found


def selector_text(wanted: dict[str, str]) -> str:
    """Return labels as a selector of the API."""
    return ",".join(f"{name}={wanted[name]}" for name in sorted(wanted))


def role_of(found: KubeObject) -> Role | None:
    """Return the role that an object's labels name."""
    labels = found["metadata"].get("labels") or {}
    return next((role for role in ROLES if labels.get(COMPONENT_LABEL) == str(role)), None)
