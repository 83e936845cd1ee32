"""A ShareCluster in, every object that it needs out."""

import hashlib
import json
from collections.abc import Mapping

import sharemesh_operator.resources.names as w
from sharemesh.ports.cluster import Role
from sharemesh_operator.resources.cluster_spec import ClusterSpec
from sharemesh_operator.resources.config_map import config_hash, config_map
from sharemesh_operator.resources.names import KubeObject
from sharemesh_operator.resources.pods import pod_template
from sharemesh_operator.resources.services import bootstrap, headless, pod_service


def objects_of(spec: ClusterSpec, replicas: Mapping[Role, int]) -> list[KubeObject]:
    """Return the objects of a cluster, each owned by it and marked with a hash of itself.

    Args:
        spec: The cluster.
        replicas: Pods that there are to be now; while some are handed over, more than wanted.
    """
    found = [config_map(spec), bootstrap(spec)]
    for role in w.ROLES:
        count = replicas[role]
        found += [headless(spec, role), stateful_set(spec, role, count)]
        found += [pod_service(spec, role, ordinal) for ordinal in range(count)]
        if min(count, spec.roles[role].replicas) > 1:
            found.append(disruption_budget(spec, role))
    return [_owned(each, spec) for each in found]


def stateful_set(spec: ClusterSpec, role: Role, replicas: int) -> KubeObject:
    """Return the StatefulSet of a role; the operator itself decides when which pod restarts."""
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {
            "name": spec.workload(role),
            "namespace": spec.namespace,
            "labels": w.labels(spec.name, role),
        },
        "spec": {
            "replicas": replicas,
            "serviceName": spec.workload(role),
            "podManagementPolicy": "Parallel",
            "updateStrategy": {"type": "OnDelete"},
            "revisionHistoryLimit": 3,
            "selector": {"matchLabels": w.selector(spec.name, role)},
            "template": pod_template(spec, role, config_hash=config_hash(spec)),
        },
    }


def disruption_budget(spec: ClusterSpec, role: Role) -> KubeObject:
    """Return how many pods of a role an eviction may take; a broken one may always go."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {
            "name": spec.workload(role),
            "namespace": spec.namespace,
            "labels": w.labels(spec.name, role),
        },
        "spec": {
            "maxUnavailable": spec.roles[role].max_unavailable,
            "unhealthyPodEvictionPolicy": "AlwaysAllow",
            "selector": {"matchLabels": w.selector(spec.name, role)},
        },
    }


def needs_apply(wanted: KubeObject, live: KubeObject | None) -> bool:
    """Return whether an object has to be written: it is not there, of another make, or altered.

    What others added beside our fields stays theirs.
    """
    return live is None or not _within(wanted, live)


def surplus(wanted: list[KubeObject], live: list[KubeObject], uid: str) -> list[KubeObject]:
    """Return objects of this cluster that it needs no more."""
    names = {(each["kind"], each["metadata"]["name"]) for each in wanted}
    return [
        each
        for each in live
        if (each["kind"], each["metadata"]["name"]) not in names
        and any(owner.get("uid") == uid for owner in each["metadata"].get("ownerReferences", ()))
    ]


def owner_reference(spec: ClusterSpec) -> KubeObject:
    """Return what lets an object go with its cluster."""
    return {
        "apiVersion": w.API_VERSION,
        "kind": "ShareCluster",
        "name": spec.name,
        "uid": spec.uid,
        "controller": True,
    }


def _owned(found: KubeObject, spec: ClusterSpec) -> KubeObject:
    meta = {**found["metadata"], "ownerReferences": [owner_reference(spec)]}
    whole = {**found, "metadata": meta}
    mark = hashlib.sha256(json.dumps(whole, sort_keys=True).encode()).hexdigest()[:16]
    return {**whole, "metadata": {**meta, "annotations": {w.HASH_ANNOTATION: mark}}}


def _within(wanted: object, live: object) -> bool:
    if isinstance(wanted, dict):
        return isinstance(live, dict) and all(
            name in live and _within(value, live[name]) for name, value in wanted.items()
        )
    if isinstance(wanted, list):
        return (
            isinstance(live, list)
            and len(wanted) == len(live)
            and all(_within(mine, theirs) for mine, theirs in zip(wanted, live, strict=True))
        )
    return wanted == live
