"""The configuration file that all pods of a cluster share."""

import hashlib
import json

import yaml

import sharemesh_operator.resources.names as w
from sharemesh.ports.cluster import Role
from sharemesh_operator.resources.cluster_spec import ClusterSpec
from sharemesh_operator.resources.names import KubeObject
from sharemesh_operator.resources.pods import (
    CONFIG_FILE,
    DATA_PATH,
    ETCD_TLS_PATH,
    TLS_PATH,
)


def config_map(spec: ClusterSpec) -> KubeObject:
    """Return the ConfigMap of a cluster; nothing in it is secret."""
    text = yaml.safe_dump(settings(spec), sort_keys=True)
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": f"{spec.name}-config",
            "namespace": spec.namespace,
            "labels": w.labels(spec.name),
        },
        "data": {CONFIG_FILE: text},
    }


def settings(spec: ClusterSpec) -> dict[str, object]:
    """Return the settings of ``sharemesh serve`` that are the same in all pods."""
    found: dict[str, object] = {
        "cluster_id": spec.cluster_id,
        "data_directory": DATA_PATH,
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
    if spec.tls_secret:
        found |= _files("tls", TLS_PATH)
        found["tls_client_certificates"] = "required" if spec.client_auth else "none"
    if spec.etcd.secret:
        found |= _files("etcd_tls", ETCD_TLS_PATH)
    if spec.telemetry.endpoint:
        found["telemetry_endpoint"] = spec.telemetry.endpoint
        found["record_sampling_percent"] = spec.telemetry.record_sampling_percent
    return found


def config_hash(spec: ClusterSpec) -> str:
    """Return what changes whenever pods must restart to follow their configuration."""
    text = json.dumps(settings(spec), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _files(name: str, path: str) -> dict[str, object]:
    return {
        f"{name}_authority": f"{path}/ca.crt",
        f"{name}_certificate": f"{path}/tls.crt",
        f"{name}_key": f"{path}/tls.key",
    }
