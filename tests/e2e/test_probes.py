"""Readiness follows the ability to serve; liveness does not depend on etcd."""

from tests.e2e import environment
from tests.e2e.kube import is_ready, restarts, until


def counts(mesh) -> dict[str, int]:
    return {
        pod["metadata"]["uid"]: restarts(pod)
        for role in environment.ROLES
        for pod in mesh.pods(role)
    }


def none_ready(mesh) -> bool | None:
    leaders = mesh.pods("share-leader")
    return not any(is_ready(pod) for pod in leaders) or None


def test_without_etcd_pods_turn_unready_but_are_not_restarted_and_recover(mesh):
    topic, group = mesh.topic_and_group("etcd-away")
    before = counts(mesh)
    mesh.kube("scale", "statefulset/sharemesh-etcd", "--replicas=0")
    try:
        until("share leaders are unready", lambda: none_ready(mesh), timeout_s=60)
    finally:
        mesh.kube("scale", "statefulset/sharemesh-etcd", "--replicas=1")
    mesh.settled()
    assert counts(mesh) == before
    load = mesh.load(topic, group)
    load.flows()
    load.finish().check()


def test_every_probe_of_a_role_pod_asks_the_health_port(mesh):
    for role in environment.ROLES:
        container = mesh.pods(role)[0]["spec"]["containers"][0]
        assert container["readinessProbe"]["grpc"]["service"] == "readiness"
        assert container["livenessProbe"]["grpc"]["service"] == "liveness"
        assert container["startupProbe"]["grpc"]["port"] == 9401
