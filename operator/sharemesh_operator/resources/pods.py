"""The pod template of a role: restricted, with the user's ``podTemplate`` laid over it."""

from collections.abc import Mapping, Sequence
from typing import Any

import sharemesh_operator.resources.names as w
from sharemesh.ports.cluster import Role
from sharemesh_operator.resources.cluster_spec import ClusterSpec, TokensSpec
from sharemesh_operator.resources.names import KubeObject

DATA_PATH = "/data"
SCRATCH_PATH = "/tmp"  # noqa: S108 - the pod's own emptyDir
CONFIG_PATH = "/etc/sharemesh/config"
TLS_PATH = "/etc/sharemesh/tls"
ETCD_TLS_PATH = "/etc/sharemesh/etcd-tls"
TOKENS_PATH = "/etc/sharemesh/tokens"
KAFKA_PATH = "/etc/sharemesh/kafka"
"""Holds a folder for each Secret of Kafka storage, of its name."""
GENERATIONS_PATH = "/generations"
AUDIT_PATH = "/audit"
"""Where audit files lie that have no data volume."""
CONFIG_FILE = "sharemesh.yaml"
_TOKEN_LIFE_S = 3_600  # the kubelet replaces it at 80% of that
_TMP_SIZE = "64Mi"
_AUDIT_ROOM = 8 * 1024 * 1024  # beyond the bound of the files: directories, whole blocks
_START_ATTEMPTS = 180  # seconds: a big log loads before the process is ready
_LEAVING_S = 20  # of the grace period, after the hand-over: close, revoke, flush


def pod_template(spec: ClusterSpec, role: Role, *, config_hash: str) -> KubeObject:
    """Return the template of a role's pods with the user's overlay on it."""
    mine = spec.roles[role]
    template: KubeObject = {
        "metadata": {
            "labels": w.labels(spec.name, role),
            "annotations": {w.CONFIG_ANNOTATION: config_hash},
        },
        "spec": {
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "terminationGracePeriodSeconds": max(mine.grace_s, mine.drain_timeout_s + _LEAVING_S),
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": w.USER_ID,
                "runAsGroup": w.USER_ID,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [_container(spec, role)],
            "volumes": _volumes(spec, role),
            "topologySpreadConstraints": [
                _spread(spec, role, "kubernetes.io/hostname"),
                _spread(spec, role, spec.rack_key),
            ],
        },
    }
    if spec.tokens is not None:
        template["spec"]["serviceAccountName"] = spec.tokens.account
    if _data(spec, role):
        group = {"fsGroup": w.USER_ID, "fsGroupChangePolicy": "OnRootMismatch"}
        template["spec"]["securityContext"] |= group
    if spec.storage.node:
        template["spec"]["nodeSelector"] = {"kubernetes.io/hostname": spec.storage.node}
    return laid_over(template, mine.pod_template)


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


def _container(spec: ClusterSpec, role: Role) -> KubeObject:
    container: KubeObject = {
        "name": w.CONTAINER,
        "image": spec.image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["/usr/bin/python3", "-m", "sharemesh.serve"],
        "args": _arguments(spec, role),
        "env": [
            {"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
            {
                "name": "SHAREMESH_RACK",
                "valueFrom": {"fieldRef": {"fieldPath": f"metadata.labels['{spec.rack_key}']"}},
            },
            {"name": "HOME", "value": SCRATCH_PATH},
            {"name": "PYTHONUNBUFFERED", "value": "1"},
        ],
        "ports": [
            {"name": "grpc", "containerPort": w.GRPC_PORT},
            {"name": "health", "containerPort": w.HEALTH_PORT},
            {"name": "metrics", "containerPort": w.METRICS_PORT},
        ],
        "startupProbe": _probe("liveness", periodSeconds=1, failureThreshold=_START_ATTEMPTS),
        "livenessProbe": _probe("liveness", periodSeconds=10, failureThreshold=6),
        "readinessProbe": _probe("readiness", periodSeconds=2, failureThreshold=2),
        "resources": {"requests": {"cpu": "50m", "memory": "128Mi"}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": _mounts(spec, role),
    }
    listener = spec.listener(role)
    if listener is not None:
        container["ports"].append({"name": "kafka", "containerPort": listener.port})
    if spec.storage.kafka is not None:  # the last sentence of a process becomes a condition
        container["terminationMessagePolicy"] = "FallbackToLogsOnError"
    return container


def _arguments(spec: ClusterSpec, role: Role) -> list[str]:
    """Return what differs from pod to pod; the rest is in the configuration file."""
    arguments = [
        "--guard",  # as the first process of the container it revokes the lease of a dead role
        f"--config={CONFIG_PATH}/{CONFIG_FILE}",
        f"--role={role}",
        "--node-id=$(POD_NAME)",
        f"--drain-timeout-ms={spec.roles[role].drain_timeout_s * 1_000}",
        *_listener_arguments(spec, role),
    ]
    outside = spec.external
    if outside is None or not outside.port(role):
        return [*arguments, f"--advertised-host=$(POD_NAME).{spec.namespace}.svc"]
    return [
        *arguments,
        f"--advertised-host={outside.host_of('$(POD_NAME)')}",
        f"--advertised-port-base={outside.port(role)}",
    ]


def _listener_arguments(spec: ClusterSpec, role: Role) -> list[str]:
    """Return where a pod listens for clients of Kafka, and by which address they reach it."""
    listener = spec.listener(role)
    if listener is None:
        return []
    port, outside = f"--kafka-listener-port={listener.port}", listener.external
    if outside is None:
        host = f"{spec.kafka_service('$(POD_NAME)')}.{spec.namespace}.svc"
        return [port, f"--kafka-listener-advertised-host={host}"]
    return [
        port,
        f"--kafka-listener-advertised-host={outside.host_of('$(POD_NAME)')}",
        f"--kafka-listener-advertised-port-base={outside.port(role)}",
    ]


def _probe(service: str, **numbers: int) -> KubeObject:
    return {"grpc": {"port": w.HEALTH_PORT, "service": service}, "timeoutSeconds": 5, **numbers}


def _spread(spec: ClusterSpec, role: Role, key: str) -> KubeObject:
    return {
        "maxSkew": 1,
        "topologyKey": key,
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": w.selector(spec.name, role)},
    }


def _volumes(spec: ClusterSpec, role: Role) -> list[KubeObject]:
    data = _data(spec, role)
    # Without a data volume pods need no fsGroup, by which alone group bits would let them read.
    mode = 0o440 if data else 0o444
    volumes = [
        *(volume for volume, _ in data),
        {"name": "tmp", "emptyDir": {"sizeLimit": _TMP_SIZE}},
        {"name": "config", "configMap": {"name": f"{spec.name}-config"}},
    ]
    if spec.audit_volume_bytes:
        size = str(spec.audit_volume_bytes + _AUDIT_ROOM)
        volumes.append({"name": "audit", "emptyDir": {"sizeLimit": size}})
    if spec.tokens is not None:
        volumes.append(_tokens(spec.tokens, mode))
    return volumes + [
        {"name": name, "secret": {"secretName": secret, "defaultMode": mode}}
        for name, secret, _ in _secrets(spec)
    ]


def _mounts(spec: ClusterSpec, role: Role) -> list[KubeObject]:
    return [
        *(mount for _, mount in _data(spec, role)),
        {"name": "tmp", "mountPath": SCRATCH_PATH},
        {"name": "config", "mountPath": CONFIG_PATH, "readOnly": True},
        *([{"name": "audit", "mountPath": AUDIT_PATH}] if spec.audit_volume_bytes else []),
        *(
            [{"name": "tokens", "mountPath": TOKENS_PATH, "readOnly": True}]
            if spec.tokens is not None
            else []
        ),
        *({"name": name, "mountPath": path, "readOnly": True} for name, _, path in _secrets(spec)),
    ]


def _data(spec: ClusterSpec, role: Role) -> list[tuple[KubeObject, KubeObject]]:
    """Return the volume that a role's pods keep data in, with its mount, if they have one."""
    storage = spec.storage
    if storage.kafka is not None:
        if role is not Role.SHARE_COORDINATOR or not storage.generations_claim:
            return []
        claim = {"claimName": storage.generations_claim}
        volume = {"name": "generations", "persistentVolumeClaim": claim}
        return [(volume, {"name": "generations", "mountPath": GENERATIONS_PATH, "readOnly": True})]
    volume = {"name": "data"}
    if storage.claim:
        volume["persistentVolumeClaim"] = {"claimName": storage.claim}
    else:
        volume["hostPath"] = {"path": storage.host_path, "type": "Directory"}
    return [(volume, {"name": "data", "mountPath": DATA_PATH})]


def _tokens(tokens: TokensSpec, mode: int) -> KubeObject:
    """Return the volume with a token for the mesh, one for the keys, and the API server's CA."""

    def token(path: str, **more: str) -> KubeObject:
        return {"serviceAccountToken": {"path": path, "expirationSeconds": _TOKEN_LIFE_S, **more}}

    authority = {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}
    sources = [
        token("mesh-token", audience=tokens.audience),
        token("api-token"),
        {"configMap": authority},
    ]
    return {"name": "tokens", "projected": {"sources": sources, "defaultMode": mode}}


def _secrets(spec: ClusterSpec) -> list[tuple[str, str, str]]:
    """Return volume, Secret and path of each Secret that the cluster names."""
    known = [("tls", spec.tls_secret, TLS_PATH), ("etcd-tls", spec.etcd.secret, ETCD_TLS_PATH)]
    if spec.storage.kafka is not None:
        known += [
            (volume, secret, f"{KAFKA_PATH}/{secret}")
            for secret, volume in spec.storage.kafka.secrets.items()
        ]
    return [each for each in known if each[1]]


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
