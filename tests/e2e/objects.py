"""Objects that the tests make: custom resources and client pods."""

from pathlib import Path
from typing import Any

from tests.e2e.kube import Document

API = "sharemesh.io/v1alpha1"
RESTRICTED_POD = {
    "runAsNonRoot": True,
    "runAsUser": 10001,
    "runAsGroup": 10001,
    "seccompProfile": {"type": "RuntimeDefault"},
}
RESTRICTED_CONTAINER = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "capabilities": {"drop": ["ALL"]},
}
LOAD_PROGRAM = Path(__file__).with_name("load.py")


def custom(kind: str, name: str, spec: Document) -> Document:
    """Return a custom resource."""
    return {"apiVersion": API, "kind": kind, "metadata": {"name": name}, "spec": spec}


def topic(name: str, cluster: str, *, partitions: int = 4, **spec: Any) -> Document:
    """Return a ShareTopic."""
    return custom(
        "ShareTopic", name, {"clusterRef": {"name": cluster}, "partitions": partitions, **spec}
    )


def group(name: str, cluster: str, *topics: str, **spec: Any) -> Document:
    """Return a ShareGroup that starts at the oldest record unless told otherwise."""
    wanted = {"autoOffsetReset": "Earliest", **spec}
    return custom(
        "ShareGroup",
        name,
        {"clusterRef": {"name": cluster}, "topics": [{"name": n} for n in topics], **wanted},
    )


def operation(name: str, cluster: str, what: str, **spec: Any) -> Document:
    """Return a ShareGroupOperation."""
    return custom(
        "ShareGroupOperation", name, {"clusterRef": {"name": cluster}, "operation": what, **spec}
    )


def small_cluster(name: str, etcd: str, storage: Document, /, **spec: Any) -> Document:
    """Return a ShareCluster of one pod a role."""
    one = {"replicas": 1, "shards": 2}
    return custom(
        "ShareCluster",
        name,
        {
            "etcd": {"endpoints": [etcd]},
            "storage": storage,
            "shareLeaders": {"replicas": 1},
            "groupCoordinators": one,
            "shareCoordinators": one,
            **spec,
        },
    )


def client_pod(name: str, image: str, command: list[str], **spec: Any) -> Document:
    """Return a pod of the project's image that runs one command."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": "sharemesh-e2e"}},
        "spec": {
            "restartPolicy": "Never",
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "terminationGracePeriodSeconds": 2,
            "securityContext": RESTRICTED_POD,
            **{key: value for key, value in spec.items() if key != "mounts"},
            "containers": [
                {
                    "name": "client",
                    "image": image,
                    "imagePullPolicy": "IfNotPresent",
                    "command": command,
                    "securityContext": RESTRICTED_CONTAINER,
                    "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}, *spec.get("mounts", [])],
                }
            ],
            "volumes": [{"name": "tmp", "emptyDir": {}}, *spec.get("volumes", [])],
        },
    }


def load_config_map() -> Document:
    """Return the ConfigMap that carries the load program."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "load-program"},
        "data": {"load.py": LOAD_PROGRAM.read_text()},
    }


def load_pod(name: str, image: str, arguments: list[str]) -> Document:
    """Return the pod that produces and consumes."""
    return client_pod(
        name,
        image,
        ["python3", "/load/load.py", *arguments],
        mounts=[{"name": "program", "mountPath": "/load", "readOnly": True}],
        volumes=[{"name": "program", "configMap": {"name": "load-program"}}],
    )


def root_pod(name: str, image: str, node: str, host_path: str, script: str) -> Document:
    """Return a pod that runs a shell script as root with a directory of its node at /host."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {
            "restartPolicy": "Never",
            "automountServiceAccountToken": False,
            "nodeName": node,
            "containers": [
                {
                    "name": "root",
                    "image": image,
                    "imagePullPolicy": "IfNotPresent",
                    "command": ["sh", "-ec", script],
                    "securityContext": {"runAsUser": 0},
                    "volumeMounts": [{"name": "host", "mountPath": "/host"}],
                }
            ],
            "volumes": [
                {"name": "host", "hostPath": {"path": host_path, "type": "DirectoryOrCreate"}}
            ],
        },
    }
