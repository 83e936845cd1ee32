"""A ShareCluster in, every object that it needs out."""

import hashlib
import json
from collections.abc import Mapping

import yaml

import sharemesh_operator.resources.names as w
from sharemesh.ports.cluster import Role
from sharemesh_operator.resources.cluster_spec import ClusterSpec
from sharemesh_operator.resources.external import External
from sharemesh_operator.resources.kafka_listener import listener_settings
from sharemesh_operator.resources.kafka_spec import kafka_settings
from sharemesh_operator.resources.names import KubeObject
from sharemesh_operator.resources.pods import (
    AUDIT_PATH,
    CONFIG_FILE,
    DATA_PATH,
    ETCD_TLS_PATH,
    GENERATIONS_PATH,
    KAFKA_PATH,
    TLS_PATH,
    TOKENS_PATH,
    pod_template,
)

_GRPC = ("grpc", w.GRPC_PORT)
"""Name and port by which pods are called."""


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
        found += kafka_services(spec, role, count)
        if min(count, spec.roles[role].replicas) > 1:
            found.append(disruption_budget(spec, role))
    return [_owned(each, spec) for each in found]


def stateful_set(spec: ClusterSpec, role: Role, replicas: int) -> KubeObject:
    """Return the StatefulSet of a role; the operator itself decides when which pod restarts."""
    wanted = {
        "replicas": replicas,
        "serviceName": spec.workload(role),
        "podManagementPolicy": "Parallel",
        "updateStrategy": {"type": "OnDelete"},
        "revisionHistoryLimit": 3,
        "selector": {"matchLabels": w.selector(spec.name, role)},
        "template": pod_template(spec, role, config_hash=config_hash(spec)),
    }
    return _object(spec, "StatefulSet", spec.workload(role), role, spec=wanted)


def disruption_budget(spec: ClusterSpec, role: Role) -> KubeObject:
    """Return how many pods of a role an eviction may take; a broken one may always go."""
    wanted = {
        "maxUnavailable": spec.roles[role].max_unavailable,
        "unhealthyPodEvictionPolicy": "AlwaysAllow",
        "selector": {"matchLabels": w.selector(spec.name, role)},
    }
    return _object(spec, "PodDisruptionBudget", spec.workload(role), role, spec=wanted)


def headless(spec: ClusterSpec, role: Role) -> KubeObject:
    """Return the Service that gives a role's pods their names; also those not ready."""
    wanted = {
        "type": "ClusterIP",
        "clusterIP": "None",
        "publishNotReadyAddresses": True,
        "selector": w.selector(spec.name, role),
        "ports": [
            _port("grpc", w.GRPC_PORT),
            _port("health", w.HEALTH_PORT),
            _port("metrics", w.METRICS_PORT),
        ],
    }
    return _object(spec, "Service", spec.workload(role), role, spec=wanted)


def bootstrap(spec: ClusterSpec) -> KubeObject:
    """Return the Service for first contacts: any ready pod knows where everything is."""
    port = spec.external.bootstrap_port if spec.external else 0
    wanted = {"selector": w.selector(spec.name), **_reached(_GRPC, spec.external, port)}
    return _object(spec, "Service", f"{spec.name}-bootstrap", spec=wanted)


def pod_service(spec: ClusterSpec, role: Role, ordinal: int) -> KubeObject:
    """Return the Service of one pod: an address that stays when the pod is replaced.

    Also while it is not ready, so that a pod can hand over what it leads.
    """
    name = spec.pod(role, ordinal)
    first = spec.external.port(role) if spec.external else 0
    wanted = {
        "publishNotReadyAddresses": True,
        "selector": w.selector(spec.name, role) | {w.POD_LABEL: name},
        **_reached(_GRPC, spec.external, first + ordinal if first else 0),
    }
    return _object(spec, "Service", name, role, spec=wanted)


def kafka_services(spec: ClusterSpec, role: Role, replicas: int) -> list[KubeObject]:
    """Return the Services of a role by which clients of Kafka reach its pods.

    They are apart from those of gRPC: one may be reached from outside, and the other not. Share
    leaders are asked first: what producers ask for is theirs to give.
    """
    listener = spec.listener(role)
    if listener is None:
        return []
    inside, outside = ("kafka", listener.port), listener.external
    found = []
    if role is Role.SHARE_LEADER:
        port = outside.bootstrap_port if outside else 0
        wanted = {"selector": w.selector(spec.name, role), **_reached(inside, outside, port)}
        name = spec.kafka_service(f"{spec.name}-bootstrap")
        found.append(_object(spec, "Service", name, role, spec=wanted))
    for ordinal in range(replicas):
        name = spec.pod(role, ordinal)
        wanted = {
            "publishNotReadyAddresses": True,
            "selector": w.selector(spec.name, role) | {w.POD_LABEL: name},
            **_reached(inside, outside, outside.port(role) + ordinal if outside else 0),
        }
        found.append(_object(spec, "Service", spec.kafka_service(name), role, spec=wanted))
    return found


def config_map(spec: ClusterSpec) -> KubeObject:
    """Return the ConfigMap of a cluster; nothing in it is secret."""
    text = yaml.safe_dump(settings(spec), sort_keys=True)
    return _object(spec, "ConfigMap", f"{spec.name}-config", data={CONFIG_FILE: text})


def settings(spec: ClusterSpec) -> dict[str, object]:
    """Return the settings of ``sharemesh serve`` that are the same in all pods."""
    found: dict[str, object] = {
        "cluster_id": spec.cluster_id,
        "etcd_endpoints": list(spec.etcd.addresses),
        "etcd_prefix": spec.etcd.prefix,
        "session_ttl_ms": spec.etcd.session_ttl_s * 1_000,
        "group_shards": spec.roles[Role.GROUP_COORDINATOR].shards,
        "state_shards": spec.roles[Role.SHARE_COORDINATOR].shards,
        "listen_host": "0.0.0.0",  # noqa: S104 - the pod's own network
        "listen_port": w.GRPC_PORT,
        "health_port": w.HEALTH_PORT,
        "metrics_port": w.METRICS_PORT,
        "log_format": "json",
    }
    found |= _storage(spec)
    if spec.tls_secret:
        found |= _files("tls", TLS_PATH)
        found["tls_client_certificates"] = "required" if spec.client_auth else "none"
    if spec.tokens is not None:
        found |= {
            "token_issuer": spec.tokens.issuer,
            "token_audience": spec.tokens.audience,
            "token_keys": spec.tokens.keys_url,
            "token_keys_authority": f"{TOKENS_PATH}/ca.crt",
            "token_keys_token": f"{TOKENS_PATH}/api-token",
            "token_file": f"{TOKENS_PATH}/mesh-token",
        }
    if spec.uses_rules:
        found["authorizer"] = "acl"
    if spec.super_users:
        found["super_users"] = list(spec.super_users)
    found |= _audit(spec)
    if spec.kafka_listener is not None:
        found |= listener_settings(spec.kafka_listener)
    if spec.etcd.secret:
        found |= _files("etcd_tls", ETCD_TLS_PATH)
    if spec.telemetry.endpoint:
        found["telemetry_endpoint"] = spec.telemetry.endpoint
        found["record_sampling_percent"] = spec.telemetry.record_sampling_percent
    return found


def _storage(spec: ClusterSpec) -> dict[str, object]:
    storage = spec.storage
    if storage.kafka is None:
        return {"data_directory": DATA_PATH}
    found = kafka_settings(storage.kafka, KAFKA_PATH)
    generations = GENERATIONS_PATH if storage.generations_claim else storage.generations_uri
    if generations:
        found["generations"] = generations
    return found


def _audit(spec: ClusterSpec) -> dict[str, object]:
    """Return the settings that are named: an image of before has none of them."""
    found: dict[str, object] = {}
    if spec.audit.log:
        found["audit_log"] = spec.audit.log
    elif spec.storage.kafka is not None:
        found["audit_log"] = "stdout"  # there is no data volume for its files
    if spec.audit.file_bytes:
        found["audit_file_bytes"] = spec.audit.file_bytes
    if spec.audit.files:
        found["audit_files"] = spec.audit.files
    if spec.audit_volume_bytes:
        found["audit_directory"] = f"{AUDIT_PATH}/log"  # made by the process, for itself alone
    return found


def config_hash(spec: ClusterSpec) -> str:
    """Return what changes whenever pods must restart to follow their configuration."""
    text = json.dumps(settings(spec), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def needs_apply(wanted: KubeObject, live: KubeObject | None) -> bool:
    """Return whether an object has to be written: it is not there, of another make, or altered.

    What others added beside our fields stays theirs.
    """
    return live is None or not _within(wanted, live)


def key_of(found: KubeObject) -> tuple[str, str]:
    """Return kind and name of an object."""
    return found["kind"], found["metadata"]["name"]


def surplus(wanted: list[KubeObject], live: list[KubeObject], uid: str) -> list[KubeObject]:
    """Return objects of this cluster that it needs no more."""
    names = {key_of(each) for each in wanted}
    return [
        each
        for each in live
        if key_of(each) not in names
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


def _object(
    cluster: ClusterSpec, kind: str, name: str, role: Role | None = None, **content: object
) -> KubeObject:
    labels = w.labels(cluster.name, role)
    meta = {"name": name, "namespace": cluster.namespace, "labels": labels}
    return {"apiVersion": w.KINDS[kind], "kind": kind, "metadata": meta, **content}


def _port(name: str, port: int) -> KubeObject:
    return {"name": name, "port": port, "targetPort": port, "protocol": "TCP"}


def _reached(of_pods: tuple[str, int], external: External | None, port: int) -> KubeObject:
    """Return type and ports of a Service that clients outside reach at ``port``; 0: nowhere."""
    name, inner = of_pods
    inside = _port(name, inner)
    if external is None or not port:
        return {"type": "ClusterIP", "ports": [inside]}
    if external.service_type == "NodePort":
        return {"type": "NodePort", "ports": [inside | {"nodePort": port}]}
    if port == inner:
        return {"type": external.service_type, "ports": [inside]}
    balanced = _port(f"{name}-external", port) | {"targetPort": inner}
    return {"type": external.service_type, "ports": [inside, balanced]}


def _files(name: str, path: str) -> dict[str, object]:
    return {
        f"{name}_authority": f"{path}/ca.crt",
        f"{name}_certificate": f"{path}/tls.crt",
        f"{name}_key": f"{path}/tls.key",
    }
