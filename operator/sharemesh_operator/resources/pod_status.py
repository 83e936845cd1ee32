"""Pods and StatefulSets as the API server shows them, read for the next step."""

from collections.abc import Mapping

import sharemesh_operator.resources.names as w
from sharemesh.ports.cluster import Role
from sharemesh_operator.resources.names import KubeObject
from sharemesh_operator.resources.rollout import PodSeen

_REVISION = "controller-revision-hash"
_PATIENT = {"ContainerCreating", "PodInitializing"}


def pod_seen(pod: KubeObject, sets: Mapping[Role, KubeObject], now_s: int) -> PodSeen | None:
    """Return a pod of the cluster, or None for one that is no role's."""
    meta, annotations = pod["metadata"], pod["metadata"].get("annotations") or {}
    labels = meta.get("labels") or {}
    ordinal = meta["name"].rpartition("-")[2]
    role = next((role for role in w.ROLES if labels.get(w.COMPONENT_LABEL) == str(role)), None)
    if role is None or not ordinal.isdecimal():
        return None
    newest = (sets.get(role, {}).get("status") or {}).get("updateRevision", "")
    current = labels.get(_REVISION, "")
    since = annotations.get(w.DRAIN_ANNOTATION, "")
    return PodSeen(
        name=meta["name"],
        role=role,
        ordinal=int(ordinal),
        ready=is_ready(pod),
        outdated=bool(newest and current != newest) or w.RESTART_ANNOTATION in annotations,
        terminating="deletionTimestamp" in meta,
        trouble=trouble(pod),
        drain_age_s=max(0, now_s - int(since)) if since.isdecimal() else None,
        skip_drain=annotations.get(w.SKIP_DRAIN_ANNOTATION) == "true",
        held=annotations.get(w.HELD_ANNOTATION, ""),
    )


def is_ready(pod: KubeObject) -> bool:
    """Return whether a pod says that it is ready."""
    return any(
        each.get("type") == "Ready" and each.get("status") == "True"
        for each in (pod.get("status") or {}).get("conditions") or ()
    )


def trouble(pod: KubeObject) -> str:
    """Return in words why a pod is not ready, as far as the kubelet or the scheduler tells."""
    status = pod.get("status") or {}
    for each in status.get("containerStatuses") or ():
        state, last = each.get("state") or {}, each.get("lastState") or {}
        waiting = state.get("waiting") or {}
        if waiting and waiting.get("reason") not in _PATIENT:
            died = last.get("terminated") or {}
            code = f" (it ended with {died['exitCode']})" if "exitCode" in died else ""
            text = waiting.get("message", "")[:200]
            return f"waits: {waiting.get('reason', 'unknown')}{code} {text}".rstrip()
    for each in status.get("conditions") or ():
        if each.get("type") == "PodScheduled" and each.get("status") == "False":
            return f"is not scheduled: {each.get('message', '')[:200]}"
    return ""


def settled(sets: Mapping[Role, KubeObject]) -> bool:
    """Return whether the StatefulSet controller has seen what was written last."""
    return all(
        (each.get("status") or {}).get("observedGeneration", 0)
        >= each["metadata"].get("generation", 1)
        for each in sets.values()
    )
