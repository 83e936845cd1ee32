"""Services of a cluster: who finds whom by which name."""

import sharemesh_operator.resources.names as w
from sharemesh.ports.cluster import Role
from sharemesh_operator.resources.cluster_spec import ClusterSpec
from sharemesh_operator.resources.names import KubeObject


def headless(spec: ClusterSpec, role: Role) -> KubeObject:
    """Return the Service that gives a role's pods their names; also those not ready."""
    return _service(
        spec,
        spec.workload(role),
        role=role,
        service={
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": w.selector(spec.name, role),
            "ports": [
                _port("grpc", w.GRPC_PORT),
                _port("health", w.HEALTH_PORT),
                _port("metrics", w.METRICS_PORT),
            ],
        },
    )


def bootstrap(spec: ClusterSpec) -> KubeObject:
    """Return the Service for first contacts: any ready pod knows where everything is."""
    service: KubeObject = {"selector": w.selector(spec.name), "ports": [_port("grpc", w.GRPC_PORT)]}
    if spec.external is not None:
        service |= _outside(spec.external.service_type, spec.external.bootstrap_port)
    return _service(spec, f"{spec.name}-bootstrap", role=None, service=service)


def pod_service(spec: ClusterSpec, role: Role, ordinal: int) -> KubeObject:
    """Return the Service of one pod: an address that stays when the pod is made anew.

    Also while it is not ready, so that a pod can hand over what it leads.
    """
    name = spec.pod(role, ordinal)
    service: KubeObject = {
        "publishNotReadyAddresses": True,
        "selector": w.selector(spec.name, role) | {w.POD_LABEL: name},
        "ports": [_port("grpc", w.GRPC_PORT)],
    }
    outside = spec.external
    if outside is not None and outside.port(role):
        service |= _outside(outside.service_type, outside.port(role) + ordinal)
    return _service(spec, name, role=role, service=service)


def _service(spec: ClusterSpec, name: str, *, role: Role | None, service: KubeObject) -> KubeObject:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": name,
            "namespace": spec.namespace,
            "labels": w.labels(spec.name, role),
        },
        "spec": {"type": "ClusterIP", **service},
    }


def _port(name: str, port: int) -> KubeObject:
    return {"name": name, "port": port, "targetPort": port, "protocol": "TCP"}


def _outside(service_type: str, port: int) -> KubeObject:
    """Return type and ports of a Service that clients outside reach at ``port``."""
    inside = _port("grpc", w.GRPC_PORT)
    if service_type == "NodePort":
        return {"type": "NodePort", "ports": [inside | {"nodePort": port}]}
    balanced = _port("grpc-external", port) | {"targetPort": w.GRPC_PORT}
    return {"type": service_type, "ports": [inside, balanced]}
